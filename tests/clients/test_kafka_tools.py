"""Apache Kafka's command-line tools with the broker."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.clients.contract import EARLIEST, Client
from tests.clients.kcat_client import run_kcat
from tests.odradek.console_tools import ApacheTools
from tests.support.apache import (
    CONSOLE_CONSUMER_TOOL,
    CONSOLE_PRODUCER_TOOL,
    PRODUCER_PERFORMANCE_TOOL,
    TOPICS_TOOL,
)

Topics = Callable[..., str]

each_version = pytest.mark.parametrize(
    "version", ["3.9.2", pytest.param("4.3.0", marks=pytest.mark.slow)]
)


@pytest.fixture
def topics(bootstrap: str, apache_tools: Callable[[str], ApacheTools]) -> Topics:
    """Run kafka-topics.sh; returns its output, and fails when it fails."""

    def run(*arguments: str, version: str = "3.9.2") -> str:
        words = ["--bootstrap-server", bootstrap, *arguments]
        done = apache_tools(version).run(TOPICS_TOOL, words)
        assert done.exit_code == 0, done.output + done.errors
        return done.output

    return run


@each_version
def test_kafka_topics_creates_describes_lists_alters_and_deletes(
    topics: Topics, topic: str, version: str
) -> None:
    made = topics(
        "--create",
        "--topic",
        topic,
        "--partitions",
        "2",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=3600000",
        version=version,
    )
    assert f"Created topic {topic}." in made
    assert topic in topics("--list", version=version).split()

    described = topics("--describe", "--topic", topic, version=version)
    head, *partitions = described.rstrip().splitlines()
    assert re.match(rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\t", head)
    assert "ReplicationFactor: 1" in head
    assert "retention.ms=3600000" in head
    assert [re.findall(r"(\w+): (\S+)", line)[1:5] for line in partitions] == [
        [("Partition", str(number)), ("Leader", "0"), ("Replicas", "0"), ("Isr", "0")]
        for number in range(2)
    ]

    topics("--alter", "--topic", topic, "--partitions", "5", version=version)
    assert "PartitionCount: 5" in topics("--describe", "--topic", topic, version=version)
    topics("--delete", "--topic", topic, version=version)
    assert topic not in topics("--list", version=version).split()


def test_kafka_topics_reports_the_errors_of_the_broker(
    topics: Topics, topic: str, bootstrap: str, apache_tools: Callable[[str], ApacheTools]
) -> None:
    topics("--create", "--topic", topic, "--partitions", "2")
    for arguments, words in (
        (["--create", "--topic", topic], f"Topic '{topic}' already exists."),
        (["--alter", "--topic", topic, "--partitions", "1"], "higher than the requested 1"),
        (["--create", "--topic", "b", "--replication-factor", "7"], "replication factor: 7"),
    ):
        given = ["--bootstrap-server", bootstrap, *arguments]
        done = apache_tools("3.9.2").run(TOPICS_TOOL, given)
        assert done.exit_code == 1
        assert words.lower() in (done.output + done.errors).lower()


def test_console_producer_and_consumer_keep_keys_and_headers(
    topics: Topics, topic: str, bootstrap: str, apache_tools: Callable[[str], ApacheTools]
) -> None:
    topics("--create", "--topic", topic, "--partitions", "1")
    tools = apache_tools("3.9.2")
    produced = tools.run(
        CONSOLE_PRODUCER_TOOL,
        [
            *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", "gzip"),
            *("--property", "parse.key=true", "--property", "parse.headers=true"),
        ],
        "trace:1,kind:a\tkey-1\tone\ntrace:2\tkey-2\ttwo\n",
    )
    assert produced.exit_code == 0, produced.errors
    consumed = tools.run(
        CONSOLE_CONSUMER_TOOL,
        [
            *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0"),
            *("--offset", "earliest", "--max-messages", "2", "--timeout-ms", "120000"),
            *("--property", "print.key=true", "--property", "print.headers=true"),
            *("--property", "print.offset=true"),
        ],
    )
    assert consumed.exit_code == 0, consumed.errors
    assert consumed.output.splitlines() == [
        "Offset:0\ttrace:1,kind:a\tkey-1\tone",
        "Offset:1\ttrace:2\tkey-2\ttwo",
    ]


def test_every_record_of_the_producer_performance_tool_is_stored(
    topics: Topics,
    topic: str,
    bootstrap: str,
    apache_tools: Callable[[str], ApacheTools],
    client: Callable[[str], Client],
) -> None:
    topics("--create", "--topic", topic, "--partitions", "1")
    done = apache_tools("3.9.2").run(
        PRODUCER_PERFORMANCE_TOOL,
        [
            *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
            *("--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}"),
            *("acks=all", "compression.type=lz4", "batch.size=16384"),
        ],
    )
    assert done.exit_code == 0, done.errors
    assert done.output.splitlines()[-1].startswith("20000 records sent")
    got = client("confluent-kafka").read(topic, 0, EARLIEST, 20_000).messages()
    assert [message.offset for message in got] == list(range(20_000))
    assert {len(message.value or b"") for message in got} == {100}


def test_kcat_lists_the_broker_and_the_topic(topics: Topics, topic: str, bootstrap: str) -> None:
    topics("--create", "--topic", topic, "--partitions", "2")
    listed = run_kcat(["-b", bootstrap, "-L", "-t", topic]).decode()
    assert "broker 0 at 127.0.0.1" in listed
    assert f'topic "{topic}" with 2 partitions:' in listed
    assert "partition 1, leader 0, replicas: 0, isrs: 0" in listed
