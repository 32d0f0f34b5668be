"""`odradek which-partition` names the partition that the clients themselves take."""

from __future__ import annotations

import random
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.tools.which_partition import PARTITIONERS, murmur2
from tests.odradek.console_tools import our_tool_here
from tests.support.apache import program_command
from tests.support.broker_process import odradek_broker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

pytestmark = pytest.mark.client

PARTITIONS = 13
KEYS = [b"order-1", "schlüssel".encode(), bytes(8), b"\xff\xfe\xfd"]
KEYS += [random.Random(7).randbytes(length) for length in range(1, 60)]
JAVA = Path(__file__).parent / "java" / "Partitions.java"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker, with a topic of PARTITIONS partitions."""
    with odradek_broker(tmp_path_factory.mktemp("odradek")) as process:
        admin = AdminClient({"bootstrap.servers": process.address})
        admin.create_topics([NewTopic("keys", PARTITIONS, 1)])["keys"].result(60)
        yield process.address


def rows(client: str) -> list[tuple[str, list[int | None]]]:
    """The name of each partitioner of a client, and the partitions of KEYS."""
    return [
        (row.name, [row.partition(key, PARTITIONS) for key in KEYS])
        for row in PARTITIONERS
        if row.client == client
    ]


def test_partitions_are_those_that_librdkafka_takes(broker: str) -> None:
    for name, expected in rows("librdkafka"):
        taken: dict[bytes, int | None] = {}

        def delivered(
            error: KafkaError | None, message: Message, taken: dict[bytes, int | None] = taken
        ) -> None:
            assert error is None
            taken[bytes(message.key() or b"")] = message.partition()

        producer = Producer({"bootstrap.servers": broker, "partitioner": name})
        for key in KEYS:
            producer.produce("keys", b"", key, on_delivery=delivered)
        assert producer.flush(60) == 0
        assert [taken[key] for key in KEYS] == expected, name


def test_partitions_are_those_that_kafka_python_takes() -> None:
    ((_, expected),) = rows("kafka-python")
    taken = [(kafka_python_murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in KEYS]
    assert taken == expected
    assert murmur2(b"") == kafka_python_murmur2(b"")


@pytest.mark.judge
def test_partitions_are_those_that_java_takes() -> None:
    ((_, expected),) = rows("java")
    done = subprocess.run(
        program_command(JAVA, heap="64m"),
        input=" ".join([str(PARTITIONS), *(key.hex() for key in KEYS)]),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [int(line) for line in done.stdout.split()] == expected


def test_command_prints_all_rows_or_the_number_of_one_client() -> None:
    result = our_tool_here("which-partition", ["order-1", "--partitions", "13"])
    assert len(result.output.splitlines()) == len(PARTITIONERS)
    number = our_tool_here(
        "which-partition", ["6f726465722d31", "--hex", "--partitions", "13", "--client", "java"]
    )
    assert number.output.strip() == str(rows("java")[0][1][0])
    empty = our_tool_here("which-partition", ["", "--partitions", "3", "--client", "librdkafka"])
    assert empty.output == "random\n"


@pytest.mark.parametrize("words", [["k"], ["k", "--partitions", "0"], ["xyz", "--hex"]])
def test_wrong_command_line_exits_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        our_tool_here("which-partition", words)
    assert end.value.code == 2
