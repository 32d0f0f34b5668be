"""The recipe of docs/security.md, block by block, while clients write: nothing fails or is lost.

The last of its steps done, brokers are killed while they replicate over SASL_SSL.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.runtime.java_properties import parse_properties
from tests.cluster.acknowledged import check, producing
from tests.odradek.console_tools import our_tool_here
from tests.repository.sources import ROOT
from tests.support.broker_cluster import BrokerCluster
from tests.support.certificates import Authority
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.support.zookeeper import zookeeper

pytestmark = [pytest.mark.timeout(900), pytest.mark.client, pytest.mark.judge]

BROKERS = (1, 2, 3)
PARTITIONS = 3
RECORDS = 200
WAIT_S = 120.0
LOOK_AGAIN_S = 0.1
PAGE = ROOT / "docs" / "security.md"


class Recipe:
    """The blocks of the page, with addresses and files of this machine."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder / "certificates")
        self.ports = {
            **{(number, "9092"): free_port() for number in BROKERS},
            **{(number, "9093"): free_port() for number in BROKERS},
        }
        section = PAGE.read_text().split("## From PLAINTEXT to SASL_SSL")[1].split("\n## ")[0]
        blocks = re.findall(r"```(\w+)\n(.*?)```", section, re.S)
        assert [kind for kind, _ in blocks] == ["properties", "bash", *["properties"] * 3]
        self._blocks = [dedent(text) for _, text in blocks]

    def text(self, step: int, broker_id: int = 1) -> str:
        """What a step says for a broker.

        step  from 1 on
        """
        certified = self._authority.certify(f"broker-{broker_id}")
        text = self._blocks[step - 1].replace("/etc/kafka/broker-1.pem", str(certified))
        text = text.replace("/etc/kafka/ca.pem", str(self._authority.trusted))
        return re.sub(
            r"broker-1:(\d+)", lambda match: f"localhost:{self.ports[broker_id, match[1]]}", text
        )

    def settings(self, step: int, broker_id: int) -> Mapping[str, str]:
        return parse_properties(self.text(step, broker_id).encode())

    def library_settings(self) -> dict[str, Any]:
        """The settings of clients as librdkafka names them."""
        properties = self.settings(4, 1)
        login = re.search(r'username="(\w+)" password="([\w-]+)"', properties["sasl.jaas.config"])
        assert login is not None
        return {
            "bootstrap.servers": properties["bootstrap.servers"],
            "security.protocol": properties["security.protocol"],
            "sasl.mechanism": properties["sasl.mechanism"],
            "ssl.ca.location": properties["ssl.truststore.location"],
            "sasl.username": login[1],
            "sasl.password": login[2],
            "log_level": 0,
        }


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe(tmp_path)


@pytest.fixture(
    params=[
        pytest.param((), id="ours"),
        pytest.param((2,), id="one of Apache", marks=pytest.mark.slow),
    ]
)
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, recipe: Recipe
) -> Iterator[BrokerCluster]:
    apache: Collection[int] = request.param
    with zookeeper(tmp_path / "zookeeper") as address:
        brokers = BrokerCluster(
            tmp_path, zookeeper_connect=address, count=len(BROKERS), apache=apache
        )
        for number, broker in brokers.brokers.items():
            listeners = f"PLAINTEXT://localhost:{recipe.ports[number, '9092']}"
            broker.overrides |= {"listeners": listeners, "advertised.listeners": listeners}
        try:
            brokers.start_all()
            yield brokers
        finally:
            brokers.close()


def wait_until_in_sync(settings: Mapping[str, Any]) -> None:
    """Until each partition has all its replicas, as a client sees it that has just come."""
    admin = AdminClient(dict(settings))

    def are_in_sync() -> bool:
        Event().wait(LOOK_AGAIN_S)
        try:
            topics = admin.list_topics(timeout=5).topics
        except KafkaException:
            return False
        partitions = [part for topic in topics.values() for part in topic.partitions.values()]
        return all(part.leader > 0 and len(part.isrs) == len(part.replicas) for part in partitions)

    wait_until("all in sync", are_in_sync, timeout_s=WAIT_S)


def restart_all(
    cluster: BrokerCluster, recipe: Recipe, step: int, settings: Mapping[str, Any]
) -> None:
    """Change the settings of each broker, one after the other."""
    for number, broker in cluster.brokers.items():
        cluster.stop(number)
        broker.overrides |= recipe.settings(step, number)
        cluster.start(number)
        wait_until_in_sync(settings)


def create(settings: Mapping[str, Any], topic: str) -> None:
    admin = AdminClient(dict(settings))
    (future,) = admin.create_topics([NewTopic(topic, PARTITIONS, len(BROKERS))]).values()
    future.result(WAIT_S)
    wait_until_in_sync(settings)


def test_recipe_loses_nothing_and_stops_no_client(
    cluster: BrokerCluster, recipe: Recipe, tmp_path: Path
) -> None:
    def addresses(port: str) -> str:
        return ",".join(f"localhost:{recipe.ports[number, port]}" for number in BROKERS)

    plaintext = {"bootstrap.servers": addresses("9092"), "log_level": 0}
    secured = recipe.library_settings() | {"bootstrap.servers": addresses("9093")}
    wait_until_in_sync(plaintext)
    create(plaintext, "before")
    with producing(addresses("9092"), "before", PARTITIONS) as (before, sender):
        sender.wait_for(RECORDS, WAIT_S)
        restart_all(cluster, recipe, 1, plaintext)
        for line in recipe.text(2).splitlines():
            _, name, *words = shlex.split(line)
            result = our_tool_here(name, words)
            assert (result.exit_code, result.errors) == (0, ""), result
        restart_all(cluster, recipe, 3, plaintext)
        sender.wait_for(RECORDS, WAIT_S)
    file = tmp_path / "client.properties"
    file.write_text(recipe.text(4))
    words = ["--bootstrap-server", recipe.settings(4, 1)["bootstrap.servers"], "--list"]
    result = our_tool_here("topics", [*words, "--command-config", str(file)])
    assert result.output == "before\n", result
    create(secured, "after")
    with producing(addresses("9093"), "after", PARTITIONS, **secured) as (after, sender):
        sender.wait_for(RECORDS, WAIT_S)
        restart_all(cluster, recipe, 5, secured)
        sender.wait_for(RECORDS, WAIT_S)
        for number in (3, 1):
            cluster.kill(number)
            sender.wait_for(RECORDS, WAIT_S)
            cluster.start(number)
            wait_until_in_sync(secured)
        sender.wait_for(RECORDS, WAIT_S)
    assert (before.failures, after.failures) == ([], [])
    check(before, addresses("9093"), **secured)
    check(after, addresses("9093"), **secured)
