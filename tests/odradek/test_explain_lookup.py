"""`odradek explain-lookup` finds what a scan of the records finds, and says how."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.topic_partition import TopicPartition as OurPartition
from odradek.tools.client import Client
from odradek.tools.explain_lookup import log_lookup, wire_lookup
from tests.odradek.console_tools import our_tool_here
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.client

SEED = 11
RECORDS = 6_000
LOOKUPS = 1_000
WIRE_LOOKUPS = 60
START_MS = 1_700_000_000_000
SETTINGS = {"segment.bytes": "40000", "index.interval.bytes": "700", "retention.ms": "-1"}
WAIT_S = 60.0


class Log(NamedTuple):
    """A partition of a running broker, and a scan of it by a client library."""

    address: str
    directory: Path
    records: list[tuple[int, int]]
    """(offset, timestamp in ms)"""

    @property
    def folder(self) -> Path:
        """The files of the partition."""
        return self.directory / "looked-up-0"

    def at_offset(self, offset: int) -> int | None:
        """The first offset at or after one."""
        return next((row[0] for row in self.records if row[0] >= offset), None)

    def at_time(self, timestamp_ms: int) -> int | None:
        """The first offset of a record that is no older."""
        return next((row[0] for row in self.records if row[1] >= timestamp_ms), None)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """Batches and times of all sizes; the times do not rise everywhere."""
    chance = random.Random(SEED)
    with odradek_broker(tmp_path_factory.mktemp("odradek")) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        topic = NewTopic("looked-up", 1, 1, config=SETTINGS)
        admin.create_topics([topic])["looked-up"].result(WAIT_S)
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 100})
        sent, time_ms = 0, START_MS
        while sent < RECORDS:
            for _ in range(chance.choice((1, 3, 40, 200))):
                time_ms += chance.randrange(0, 50)
                at_ms = time_ms - chance.choice((0, 0, 0, 3_000))
                producer.produce(
                    "looked-up", chance.randbytes(chance.randrange(200)), timestamp=at_ms
                )
                sent += 1
            assert producer.flush(WAIT_S) == 0
        yield Log(broker.address, broker.data, scan(broker.address, sent))


def scan(address: str, count: int) -> list[tuple[int, int]]:
    """(offset, timestamp) of all records."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "scan"})
    try:
        consumer.assign([TopicPartition("looked-up", 0, 0)])
        records: list[tuple[int, int]] = []
        while len(records) < count:
            messages = consumer.consume(count - len(records), WAIT_S)
            assert messages
            records += [(message.offset() or 0, message.timestamp()[1]) for message in messages]
        return records
    finally:
        consumer.close()


def test_random_lookups_in_the_files_of_a_running_broker_equal_a_scan(log: Log) -> None:
    assert len(list(log.folder.glob("*.log"))) > 5
    chance = random.Random(SEED)
    first, last = log.records[0][1] - 5_000, log.records[-1][1] + 5_000
    for _ in range(LOOKUPS // 2):
        offset = chance.randrange(len(log.records) + 20)
        assert log_lookup.look_up_offset(log.folder, offset).offset == log.at_offset(offset)
        time_ms = chance.randrange(first, last)
        result = log_lookup.look_up_time(log.folder, time_ms)
        assert result.offset == log.at_time(time_ms), (time_ms, result.hops)


def test_random_lookups_over_the_wire_equal_a_scan(log: Log) -> None:
    chance = random.Random(SEED)
    partition = OurPartition("looked-up", 0)
    client = Client(log.address)
    for _ in range(WIRE_LOOKUPS // 2):
        offset = chance.randrange(len(log.records) + 20)
        result = wire_lookup.look_up_offset(client, partition, offset)
        assert result.offset == log.at_offset(offset)
        time_ms = chance.randrange(log.records[0][1], log.records[-1][1] + 500)
        assert wire_lookup.look_up_time(client, partition, time_ms).offset == log.at_time(time_ms)
    client.close()


def test_hops_read_little_and_change_nothing(log: Log) -> None:
    before = {path: path.stat().st_mtime_ns for path in log.folder.iterdir()}
    words = ["--topic", "looked-up", "--partition", "0", "--dir", str(log.directory)]
    result = our_tool_here("explain-lookup", [*words, "--offset", "2500"])
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].startswith("record: offset 2500, timestamp 17")
    compared = re.search(r"(\d+) entries, (\d+) compared with offset 2500", result.output)
    assert compared is not None
    assert 0 < int(compared[2]) <= int(compared[1]).bit_length() + 1
    read = re.search(r"(\d+) bytes read", result.output)
    assert read is not None
    assert int(read[1]) < int(SETTINGS["segment.bytes"])
    assert {path: path.stat().st_mtime_ns for path in log.folder.iterdir()} == before


@pytest.mark.parametrize("damage", ["missing", "wrong"])
def test_index_that_misleads_costs_a_longer_scan_only(
    log: Log, tmp_path: Path, damage: str
) -> None:
    for path in log.folder.iterdir():
        if path.suffix == ".index" and damage == "wrong":
            entries = path.read_bytes()
            (tmp_path / path.name).write_bytes(
                b"".join(
                    entries[at : at + 4]
                    + (int.from_bytes(entries[at + 4 : at + 8]) + 7).to_bytes(4)
                    for at in range(0, len(entries), 8)
                )
            )
        elif path.suffix != ".index":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    for offset in range(0, len(log.records), 97):
        assert log_lookup.look_up_offset(tmp_path, offset).offset == offset


def test_what_is_not_there_exits_with_1(log: Log, tmp_path: Path) -> None:
    words = ["--topic", "looked-up", "--partition", "0"]
    beyond = our_tool_here(
        "explain-lookup", [*words, "--dir", str(log.directory), "--offset", "999999"]
    )
    assert beyond.exit_code == 1
    assert beyond.output.endswith("no such record\n")
    young = [*words, "--bootstrap-server", log.address, "--time", "2100-01-01T00:00:00Z"]
    assert our_tool_here("explain-lookup", young).exit_code == 1
    wrong = ["--bootstrap-server", log.address, "--topic", "looked-up", "--partition", "9"]
    for place in (["--offset", "1"], ["--time", "5"]):
        absent = our_tool_here("explain-lookup", [*wrong, *place])
        assert (absent.exit_code, absent.output) == (1, "")
        assert absent.errors == "looked-up has 1 partitions, and none of the number 9\n"
    nowhere = our_tool_here("explain-lookup", [*words, "--dir", str(tmp_path), "--offset", "1"])
    assert nowhere.exit_code == 1
    assert nowhere.errors == f"looked-up-0 is not in {tmp_path}\n"
