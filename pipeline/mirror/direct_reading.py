"""Reads records of the source on the executors without Spark's reader.

Spark has times in microseconds, and its reader fails at a timestamp that is too large for them,
such as nanoseconds.  librdkafka returns timestamps as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from odradek.pipeline.librdkafka import (
    NoRecord,
    headers_of,
    offset_of,
    partition_consumer,
    read_partition,
)
from odradek.pipeline.mirror.offsets import PartitionKey
from odradek.pipeline.mirror.write import GROUP, Plan, SourceRecord, WriteFailed, write_records
from odradek.pipeline.offset_log import OffsetRange

RANGE_SCHEMA: Final = "topic string, partition int, begin bigint, end bigint"
NO_RECORD_TIMEOUT_S: Final = 120.0
"""How long the source may send no record of a range."""


def rows_of(ranges: Sequence[OffsetRange]) -> list[tuple[str, int, int, int]]:
    """Rows of RANGE_SCHEMA."""
    return [
        (
            offsets.topic,
            offsets.partition,
            OFFSET_BEGINNING if offsets.begin is None else offsets.begin,
            offsets.end,
        )
        for offsets in ranges
    ]


def write_ranges(
    batches: Iterable[pa.RecordBatch], plan: Plan, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Read and write the rows of a task (RANGE_SCHEMA); yields rows of `write.OUTPUT_SCHEMA`.

    properties  of the consumer
    raises      WriteFailed
    """
    consumer = partition_consumer(properties, GROUP, enable_partition_eof=True)
    try:
        yield from write_records(_partitions(consumer, batches), plan)
    finally:
        consumer.close()


def _partitions(
    consumer: Consumer, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[PartitionKey, Iterator[SourceRecord]]]:
    for batch in batches:
        for row in batch.to_pylist():
            partition = (row["topic"], row["partition"])
            yield partition, _records(consumer, partition, row["begin"], row["end"])


def _records(
    consumer: Consumer, partition: PartitionKey, begin: int, end: int
) -> Iterator[SourceRecord]:
    """Yield the records of a partition from offset `begin` up to `end`.

    raises  WriteFailed
    """
    topic, number = partition
    place = TopicPartition(topic, number, begin)
    try:
        # The last offsets may be those of control records.
        for message in read_partition(consumer, place, end, timeout_s=NO_RECORD_TIMEOUT_S):
            yield SourceRecord(
                offset_of(message),
                message.timestamp()[1],
                message.key(),
                message.value(),
                headers_of(message) or None,
            )
    except NoRecord as error:
        raise WriteFailed(f"{topic}-{number}: the source sent no record: {error}") from error
    except KafkaException as error:
        reason = f"records after offset {begin} were deleted before they were read"
        raise WriteFailed(f"{topic}-{number}: {reason}") from error
