"""Record batches for the chapters, whole and damaged."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import seal
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.scripts.normal import FIXED_MS

LENGTH_POSITION = 8
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
LAST_DELTA_POSITION = 23
COUNT_POSITION = 57
MINUTE_MS = 60_000


def numbered(count: int, *, first: int = 0, prefix: str = "value") -> list[Record]:
    """Records a minute apart, with keys, and headers on every second one."""
    return [
        Record(
            f"key-{number}".encode(),
            f"{prefix}-{number}".encode(),
            headers=(("number", str(number).encode()), ("null", None)) if number % 2 else (),
            timestamp_ms=FIXED_MS + number * MINUTE_MS,
        )
        for number in range(first, first + count)
    ]


def batch(count: int = 3, *, first: int = 0, **options: Any) -> bytearray:
    """A batch of `numbered` records; options as those of `build_batch`."""
    return build_batch(numbered(count, first=first), **options)


def big_batch(value_bytes: int, count: int = 1, **options: Any) -> bytearray:
    """A batch of records with large values of one letter."""
    records = [
        Record(b"big", b"x" * value_bytes, timestamp_ms=FIXED_MS + number)
        for number in range(count)
    ]
    return build_batch(records, **options)


def patched(content: bytearray, position: int, code: str, value: int) -> bytearray:
    """A batch with one field of its header overwritten, the checksum left as it was."""
    copy = bytearray(content)
    struct.pack_into(f">{code}", copy, position, value)
    return copy


def sealed(content: bytearray) -> bytearray:
    """A batch with the checksum that its bytes should have."""
    seal(memoryview(content))
    return content


def produce_request(
    topic: str,
    records: bytes | bytearray | None,
    *,
    acks: int = -1,
    partition: int = 0,
    timeout_ms: int = 5_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One partition's records."""
    return produce_to([(topic, partition, records)], acks, timeout_ms, transactional_id)


def produce_to(
    parts: Sequence[tuple[str, int, bytes | bytearray | None]],
    acks: int = -1,
    timeout_ms: int = 5_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Records for several partitions, those of a topic together as clients send them."""
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for topic, partition, content in parts:
        records = None if content is None else memoryview(content)
        data = PartitionProduceData(index=partition, records=records)
        by_topic.setdefault(topic, []).append(data)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(name=topic, partition_data=data) for topic, data in by_topic.items()
        ],
    )
