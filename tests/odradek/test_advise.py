"""`odradek advise`: its arithmetic, and what it measures of a broker."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.steering.advise import (
    PartitionNeeds,
    RetainedReplica,
    advise_partitions,
    forecast,
    forecast_lines,
)
from odradek.tools.steering.cluster_queries import read_disks
from tests.odradek.console_tools import our_tool_here
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until

MIB = 1 << 20


@pytest.mark.parametrize(
    ("needs", "partitions", "decisive"),
    [
        (PartitionNeeds(30 * MIB, 2.0, 10 * MIB, 10 * MIB, 1, 3, 3), 6, "     6  to write: 30.0"),
        (
            PartitionNeeds(30 * MIB, 2.0, 10 * MIB, 4 * MIB, 1, 3, 3),
            15,
            "    15  to read: 30.0 MiB",
        ),
        (PartitionNeeds(1, 1.0, MIB, MIB, 10, 4, 3), 12, "    10  a partition for each consumer"),
        (PartitionNeeds(1, 1.0, MIB, MIB, 1, 5, 3), 5, "     5  a partition for each broker"),
        (PartitionNeeds(1, 1.0, MIB, MIB, 5000, 1, 1, 7), 5000, "  5007  replicas on each broker"),
    ],
)
def test_number_of_partitions_is_the_largest_need(
    needs: PartitionNeeds, partitions: int, decisive: str
) -> None:
    advice = advise_partitions(needs)
    assert advice.partitions == partitions
    assert any(line.startswith(decisive) for line in advice.lines), advice.lines
    assert (advice.lines[-1].startswith("warning: ")) == (partitions == 5000)


def replica(**fields: Any) -> RetainedReplica:
    """1 KiB a second, seven days, segments of 1 MiB."""
    plain = RetainedReplica("t", 0, 1024.0, 604_800.0, None, MIB, 604_800.0, is_compacted=False)
    return plain._replace(**fields)


@pytest.mark.parametrize(
    ("row", "most"),
    [
        (replica(), 1024 * 604_800 + MIB),
        (replica(segment_s=10.0), 1024 * 604_800 + 10_240),
        (replica(retention_bytes=5 * MIB), 6 * MIB),
        (replica(retention_s=None), float("inf")),
        (replica(retention_s=None, growth=0.0, size_bytes=77), 77),
        (replica(is_compacted=True, size_bytes=99), 99),
    ],
)
def test_size_of_a_log_is_bounded_by_its_retention(row: RetainedReplica, most: float) -> None:
    assert row.most_bytes == most


def test_disk_is_full_when_logs_that_still_grow_have_filled_it() -> None:
    rows = [replica(retention_bytes=MIB, growth=MIB / 10), replica(retention_s=None)]
    # The first stops at 2 MiB, after 20 s; the second fills the other 8 MiB in 8192 s.
    result = forecast(1, rows, 10 * MIB)
    assert result.full_after_s == pytest.approx(8192, abs=1)
    assert forecast(1, rows[:1], 10 * MIB).full_after_s is None
    assert forecast(1, rows, -1).full_after_s is None
    lines = list(forecast_lines([result], rows))
    assert " ".join(lines[1].split()) == "1 0 B 10.0 MiB 103.4 KiB/s unbounded 2 h 16 min"
    assert lines[-1] == "broker 1: topics without retention fill its disk"
    shorter = list(forecast_lines([forecast(1, [replica()], 100 * MIB)], []))
    assert shorter[-1] == (
        "broker 1: 14% of the present retention would fit: 80% of 100.0 MiB / 591.6 MiB"
    )


@contextmanager
def steady_load(address: str, topic: str) -> Iterator[None]:
    """Some 100 KiB a second, until the block ends."""
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})

    def send() -> None:
        while not ended.wait(0.05):
            producer.produce(topic, b"v" * 5000)
            producer.poll(0)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        assert producer.flush(30) == 0


def test_forecast_matches_the_growth_of_a_timed_run(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        address = ["--bootstrap-server", broker.address]
        words = "--create --topic records --config retention.ms=60000 --config segment.ms=10000"
        assert our_tool_here("topics", [*address, *words.split()]).exit_code == 0

        def size() -> int:
            with Client(broker.address) as client:
                (row,) = client.metadata([]).brokers
                return read_disks(client, row).sizes[TopicPartition("records", 0)]

        def is_as_it_grows() -> bool:
            """Whether a sample has the rate; one in which the machine stands still has another."""
            before, began_s = size(), time.monotonic()
            done = our_tool_here("advise", ["disk", *address, "--sample-ms", "2000"])
            rate = (size() - before) / (time.monotonic() - began_s)
            assert done.exit_code == 0, done
            assert "kept for 1 min 0 s and a segment: at most " in done.output
            amounts = re.findall(r"^records: 1 replicas, ([\d.]+) KiB/s in all", done.output, re.M)
            return any(rate / 3 < float(amount) * 1024 < rate * 3 for amount in amounts)

        with steady_load(broker.address, "records"):
            wait_until("a sample with the rate of the growth", is_as_it_grows, timeout_s=120.0)
        advice = our_tool_here("advise", ["partitions", *address, "--target-rate", "50000000"])
        assert advice.output.startswith("Partitions: 10\n"), advice


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([], 2, "the following arguments are required: command"),
        (["partitions", "--target-rate", "1"], 2, "one of --brokers and --bootstrap-server is"),
        (["partitions", "--target-rate", "x", "--brokers", "3"], 2, "'x' is not a number of at"),
        (["disk", "--bootstrap-server", "127.0.0.1:1"], 1, "127.0.0.1:1 cannot be reached"),
    ],
)
def test_invalid_command_line_is_refused(words: list[str], code: int, text: str) -> None:
    done = our_tool_here("advise", words)
    assert done.exit_code == code
    assert text in done.errors
