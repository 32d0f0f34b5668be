"""`odradek topics` and Apache Kafka's TopicCommand print the same lines, each with each broker.

The lines are recorded in `conversation_3_9_2.txt`, by Apache's tool with Apache's broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.tools.client import Client
from tests.odradek.console_tools import ApacheTools, our_tool_here
from tests.odradek.topics_conversation import RECORDED, command_lines
from tests.odradek.topics_tools import Tool, masked, our_tool, play
from tests.support.apache import apache_kafka
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.zookeeper import zookeeper

pytestmark = pytest.mark.timeout(900)

CHROOT = "/kafka"


def as_our_broker_says_it(text: str) -> str:
    """The text without the differences between the brokers.

    A broker with DescribeTopicPartitions returns an empty list of eligible replicas instead of
    none, and Apache's broker returns configs in the order of a hash map.
    """
    text = re.sub(r"(Elr|LastKnownElr): (?:N/A)?", r"\1: ", text)
    return re.sub(r"(?<=Configs: )\S+$", _sorted_items, text, flags=re.MULTILINE)


def _sorted_items(match: re.Match[str]) -> str:
    return ",".join(sorted(match[0].split(",")))


@pytest.fixture(scope="module")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker."""
    with odradek_broker(tmp_path_factory.mktemp("odradek")) as broker:
        yield broker.address


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a ZooKeeper."""
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture(scope="module")
def apache_broker(tmp_path_factory: pytest.TempPathFactory, coordinator: str) -> Iterator[str]:
    """The address of Apache's broker, which is registered in `coordinator`."""
    folder = tmp_path_factory.mktemp("apache")
    with apache_kafka(folder, zookeeper_address=coordinator + CHROOT) as broker:
        yield broker.address


@pytest.fixture(scope="module")
def apache_tool(silent_apache_tools: ApacheTools) -> Tool:
    """Apache's tool."""
    return partial(silent_apache_tools, "topics")


def test_our_tool_with_our_broker_prints_the_recorded_lines(our_broker: str) -> None:
    output = play(our_tool, our_broker, command_lines(), "zz0zz")
    assert as_our_broker_says_it(output) == as_our_broker_says_it(RECORDED.read_text())


@pytest.mark.judge
def test_our_tool_with_apache_kafka_prints_the_recorded_lines(apache_broker: str) -> None:
    assert play(our_tool, apache_broker, command_lines(), "zz1zz") == RECORDED.read_text()


@pytest.mark.judge
@pytest.mark.slow
def test_apaches_tool_with_apache_kafka_prints_the_recorded_lines(
    apache_broker: str, apache_tool: Tool
) -> None:
    assert play(apache_tool, apache_broker, command_lines(), "zz2zz") == RECORDED.read_text()


@pytest.mark.judge
def test_apaches_tool_with_our_broker_prints_the_recorded_lines(
    our_broker: str, apache_tool: Tool
) -> None:
    output = play(apache_tool, our_broker, command_lines(), "zz3zz")
    assert as_our_broker_says_it(output) == as_our_broker_says_it(RECORDED.read_text())


@pytest.mark.judge
def test_both_tools_print_the_same_for_a_cluster_with_internal_topics(
    apache_broker: str, apache_tool: Tool
) -> None:
    at = ["--bootstrap-server", apache_broker]
    our_tool([*at, "--create", "--topic", "zz4zz-plain", "--config", "cleanup.policy=compact"])
    make_internal_topic(apache_broker)
    for words in (
        ["--list"],
        ["--list", "--exclude-internal"],
        ["--describe", "--exclude-internal"],
        ["--describe", "--topic", "__consumer_offsets"],
        ["--describe", "--topic", "__consumer_offsets", "--exclude-internal"],
    ):
        ours, apaches = our_tool([*at, *words]), apache_tool([*at, *words])
        assert ours.exit_code == apaches.exit_code
        # Apache's tool describes topics in the order of a hash map.
        assert sorted(ours.output.splitlines()) == sorted(apaches.output.splitlines())
        is_listed = (
            "Topic: __consumer_offsets" in ours.output or "__consumer_offsets\n" in ours.output
        )
        assert is_listed == ("--exclude-internal" not in words)


def make_internal_topic(address: str) -> None:
    """Look up a coordinator, and wait until its internal topic can be described."""
    client = Client(address)
    request = FindCoordinatorRequest(key="group", key_type=0, coordinator_keys=["group"])
    client.any_broker(request, FindCoordinatorResponse)

    def is_led() -> bool:
        (topic,) = client.metadata(["__consumer_offsets"]).topics
        return {partition.leader_id for partition in topic.partitions} == {0}

    wait_until("the internal topic", is_led)
    client.close()


@pytest.mark.judge
def test_topic_is_described_by_the_id_that_describe_prints(
    apache_broker: str, apache_tool: Tool
) -> None:
    at = ["--bootstrap-server", apache_broker]
    our_tool([*at, "--create", "--topic", "zz5zz-named", "--partitions", "2"])
    by_name = our_tool([*at, "--describe", "--topic", "zz5zz-named"])
    match = re.search(r"TopicId: (\S+)", by_name.output)
    assert match is not None
    words = ["--describe", "--topic-id", match[1]]
    assert our_tool([*at, *words]) == apache_tool([*at, *words]) == by_name


@pytest.mark.judge
def test_brokers_are_found_through_zookeeper(apache_broker: str, coordinator: str) -> None:
    old = ["--zookeeper", f"{coordinator},{coordinator}{CHROOT}"]
    words = ["--create", "--topic", "zz6zz", "--partitions", "2", "--replication-factor", "1"]
    assert our_tool([*old, *words]).output == "Created topic zz6zz.\n"
    described = our_tool([*old, "--describe", "--topic", "zz6zz"])
    assert described == our_tool(
        ["--bootstrap-server", apache_broker, "--describe", "--topic", "zz6zz"]
    )
    assert masked(described.output).startswith("Topic: zz6zz\tTopicId: ID\tPartitionCount: 2\t")


@pytest.mark.judge
def test_credentials_of_users_are_stored_by_brokers_that_zookeeper_names(
    apache_broker: str, coordinator: str
) -> None:
    user = ["--entity-type", "users", "--entity-name", "alice"]
    added = ["--alter", "--add-config", "SCRAM-SHA-256=[password=alice-secret]"]
    old = ["--zookeeper", f"{coordinator}{CHROOT}"]
    result = our_tool_here("configs", [*old, *user, *added])
    assert result.output == "Completed updating config for user alice.\n"
    described = our_tool_here("configs", ["--bootstrap-server", apache_broker, "--describe", *user])
    assert described.output.endswith("are SCRAM-SHA-256=iterations=4096\n")


@pytest.mark.judge
def test_zookeeper_without_brokers_is_reported_in_one_line(coordinator: str) -> None:
    result = our_tool(["--zookeeper", f"{coordinator}/nothing", "--list"])
    assert (result.exit_code, result.output) == (1, "")
    assert result.errors == (
        f"ZooKeeper at {coordinator} has no brokers: /nothing/brokers/ids is missing\n"
    )
