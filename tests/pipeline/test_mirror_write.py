"""Writes of a repeated batch to a broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from odradek.pipeline.mirror.offsets import PartitionKey
from odradek.pipeline.mirror.write import Plan, write
from tests.pipeline.mirroring import START_MS, Sent, content, create, send
from tests.support.broker_process import BrokerProcess

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


@pytest.fixture(scope="module")
def west(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The target."""
    process = BrokerProcess(tmp_path_factory.mktemp("west")).start()
    yield process
    process.stop()


def row(offset: int, *, partition: int = 0) -> dict[str, object]:
    """A record of the source."""
    headers = [{"key": "n", "value": b"%d" % offset}] if offset % 2 else None
    return {
        "topic": "pay",
        "partition": partition,
        "offset": offset,
        "timestamp_ms": START_MS + offset,
        "key": None if offset % 3 else b"k",
        "value": b"v%d" % offset,
        "headers": headers,
    }


def mirror(
    west: BrokerProcess,
    topic: str,
    rows: list[dict[str, object]],
    last: Mapping[PartitionKey, tuple[int, int]] | None = None,
    *,
    rows_per_batch: int = 7,
) -> list[tuple[int, int, int, int, int]]:
    """Write rows; returns partition, source, target, count and skipped of each run."""
    plan = Plan({"bootstrap.servers": west.address}, {"pay": topic}, dict(last or {}), 1000)
    batches = [
        pa.RecordBatch.from_pylist(rows[begin : begin + rows_per_batch], schema=SCHEMA)
        for begin in range(0, len(rows), rows_per_batch)
    ]
    return [
        (run["partition"], run["source"], run["target"], run["count"], run["skipped"])
        for batch in write(batches, plan)
        for run in batch.to_pylist()
    ]


def offsets_at(west: BrokerProcess, topic: str, partition: int = 0) -> list[int]:
    """The source offsets of the records on the target, in order."""
    values = [record.value or b"" for record in content(west.address, topic)[partition]]
    return [int(value[1:]) if value[:1] == b"v" else -1 for value in values]


def test_batch_of_two_partitions_has_the_returned_offsets(west: BrokerProcess) -> None:
    create(west.address, "two", 2)
    rows = [row(n) for n in range(20)] + [row(n, partition=1) for n in (5, 6, 9)]
    assert mirror(west, "two", rows) == [(0, 0, 0, 20, 0), (1, 5, 0, 2, 0), (1, 9, 2, 1, 0)]
    assert offsets_at(west, "two", 1) == [5, 6, 9]


def test_records_of_a_killed_attempt_are_skipped(west: BrokerProcess) -> None:
    create(west.address, "killed", 1)
    rows = [row(n) for n in range(50)]
    mirror(west, "killed", rows[:10])
    ends = {("pay", 0): (9, 9)}
    mirror(west, "killed", rows[10:33], ends)
    assert mirror(west, "killed", rows[10:], ends) == [(0, 10, 10, 23, 23), (0, 33, 33, 17, 0)]
    assert mirror(west, "killed", rows[10:], ends) == [(0, 10, 10, 40, 40)]
    assert mirror(west, "killed", rows[10:], {("pay", 0): (49, 49)}) == []
    assert offsets_at(west, "killed") == list(range(50))


def test_batch_is_written_whole_when_the_source_has_lost_records(west: BrokerProcess) -> None:
    create(west.address, "compacted", 1)
    rows = [row(n) for n in range(20)]
    mirror(west, "compacted", rows)
    compacted = [record for record in rows if record["offset"] not in (0, 1, 7)]
    assert mirror(west, "compacted", compacted) == [(0, 2, 20, 5, 0), (0, 8, 25, 12, 0)]
    lying = offsets_at(west, "compacted")
    assert lying == [*range(20), *range(2, 7), *range(8, 20)], "twice at most, and none is lost"


def test_batch_is_written_whole_after_records_of_another_client(west: BrokerProcess) -> None:
    create(west.address, "shared", 1)
    mirror(west, "shared", [row(n) for n in range(5)])
    send(west.address, "shared", [Sent(0, b"other")])
    rows = [row(n) for n in range(5, 10)]
    assert mirror(west, "shared", rows, {("pay", 0): (4, 4)}) == [(0, 5, 6, 5, 0)]
    send(west.address, "shared", [Sent(0, b"other")] * 3)
    mirror(west, "shared", [row(n) for n in range(10, 12)], {("pay", 0): (9, 10)})
    assert offsets_at(west, "shared") == [0, 1, 2, 3, 4, -1, 5, 6, 7, 8, 9, -1, -1, -1, 10, 11]


def test_recreated_target_receives_the_whole_batch(west: BrokerProcess, tmp_path: Path) -> None:
    create(west.address, "lost", 1)
    rows = [row(n) for n in range(100, 110)]
    assert mirror(west, "lost", rows, {("pay", 0): (104, 104)}) == [(0, 100, 0, 10, 0)]
    assert offsets_at(west, "lost") == list(range(100, 110))


def test_record_rejected_by_the_target_ends_the_batch(west: BrokerProcess) -> None:
    create(west.address, "small", 1, {"max.message.bytes": "1000"})
    rows = [{**row(n), "value": b"x" * (2000 if n == 3 else 10)} for n in range(5)]
    with pytest.raises(Exception, match=r"small-0: .*too large"):
        mirror(west, "small", rows)
