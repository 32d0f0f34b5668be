"""Lags and sizes as the libraries show them that kminion and kafka_exporter are made of."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import confluent_kafka
import pytest

from tests.clients.confluent_client import Confluent
from tests.clients.contract import WAIT_S
from tests.support.programs import lags_program

VALUE = b"x" * 100
RECORD_COUNT = 40
TRANSACTIONS = ((3, True), (4, False), (5, True))
"""Records of each, and whether it is committed; a marker takes one more offset."""
TRANSACTIONAL = sum(count + 1 for count, _ in TRANSACTIONS)
COMMITTED = (0, 33, RECORD_COUNT)
GROUP_SUFFIX = "-watched"


@pytest.fixture(scope="module")
def watched(group_bootstrap: str, topic_names: Any) -> str:
    """A topic with transactions in partition 0, and a group that committed COMMITTED."""
    topic: str = next(topic_names)
    Confluent(group_bootstrap).create_topic(topic, len(COMMITTED))
    plain = confluent_kafka.Producer({"bootstrap.servers": group_bootstrap})
    for partition in range(len(COMMITTED)):
        for _ in range(RECORD_COUNT):
            plain.produce(topic, VALUE, partition=partition)
    assert plain.flush(WAIT_S) == 0
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": group_bootstrap, "transactional.id": topic}
    )
    producer.init_transactions(WAIT_S)
    for count, is_committed in TRANSACTIONS:
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic, VALUE, partition=0)
        producer.flush(WAIT_S)
        end = producer.commit_transaction if is_committed else producer.abort_transaction
        end(WAIT_S)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": group_bootstrap, "group.id": topic + GROUP_SUFFIX}
    )
    offsets = [
        confluent_kafka.TopicPartition(topic, partition, offset)
        for partition, offset in enumerate(COMMITTED)
    ]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    return topic


@pytest.mark.parametrize("library", ["franz", "sarama"])
def test_a_monitor_shows_the_true_lags(library: str, group_bootstrap: str, watched: str) -> None:
    group = watched + GROUP_SUFFIX
    command = [*lags_program(), library, group_bootstrap, watched, group]
    run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert run.returncode == 0, run.stderr
    shown = json.loads(run.stdout)
    assert shown["lags"] == {
        "0": RECORD_COUNT + TRANSACTIONAL,
        "1": RECORD_COUNT - COMMITTED[1],
        "2": 0,
    }
    assert group in shown["groups"]
    assert shown["state"] == "Empty"
    assert len(shown["brokers"]) == 1
    data_size = len(VALUE) * (len(COMMITTED) * RECORD_COUNT + TRANSACTIONAL - len(TRANSACTIONS))
    assert data_size < shown["size"] < 2 * data_size
