"""What public dashboards ask for, compared with a scrape of a broker."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from odradek.broker.node.monitoring import METRICS_LISTENER
from tests.broker.monitoring.dashboards import ABSENT, DASHBOARDS
from tests.support.broker_process import odradek_broker
from tests.support.ports import free_port

pytestmark = pytest.mark.client

WAIT_S = 60.0
PAGE = Path("docs/monitoring.md")
SERVED_AT_LEAST = {
    "Strimzi Kafka": 0.8,
    "Strimzi Kafka Exporter": 1.0,
    "Kafka Exporter Overview": 1.0,
    "Kafka cluster": 0.7,
    "Kafka topics": 0.9,
}


@pytest.fixture(scope="module")
def labels_by_name(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of each metric of a broker with a topic, a group and a failed request."""
    port = free_port()
    overrides = {METRICS_LISTENER: str(port), "offsets.topic.num.partitions": "1"}
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=overrides) as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("events", b"x")
        assert producer.flush(WAIT_S) == 0
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "readers"})
        consumer.assign([TopicPartition("events", 0, 0)])
        assert consumer.consume(1, WAIT_S)
        consumer.commit(asynchronous=False)
        consumer.close()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S) as response:
            text: str = response.read().decode()
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_metrics_of_a_dashboard_are_served_or_said_to_be_absent(
    labels_by_name: dict[str, set[str]], dashboard: str
) -> None:
    asked = {name: set(labels) for name, *labels in map(str.split, _lines(dashboard))}
    served = {
        name
        for name, labels in asked.items()
        if name in labels_by_name and labels <= labels_by_name[name]
    }
    assert sorted(asked.keys() - served - ABSENT) == []
    assert not served & ABSENT
    share = len(served) / len(asked)
    assert share >= SERVED_AT_LEAST[dashboard]
    assert f"| {dashboard} | {len(served)} of {len(asked)} |" in PAGE.read_text()


def test_page_says_why_metrics_are_absent() -> None:
    text = PAGE.read_text()
    assert sorted(name for name in ABSENT if name not in text) == []


def _lines(dashboard: str) -> list[str]:
    return DASHBOARDS[dashboard].strip().splitlines()
