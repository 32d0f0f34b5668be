"""Reads records of the source on the executors without Spark's reader.

Spark has times in microseconds, and its reader fails at a timestamp that is too large for them,
such as nanoseconds.  librdkafka returns timestamps as they are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from odradek.pipeline.mirror.offsets import PartitionKey
from odradek.pipeline.mirror.write import (
    LOG_LEVEL,
    WAIT_S,
    Plan,
    SourceRecord,
    WriteFailed,
    write_records,
)
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


def consumer_properties(
    client: Mapping[str, str], *, isolation_level: str, fail_on_data_loss: bool
) -> dict[str, str]:
    """The properties of the consumer that reads ranges.

    isolation_level  that of Spark's reader, whose default is another than that of librdkafka
    """
    return {
        **client,
        # The consumer joins no group and commits nothing, but librdkafka requires an id.
        "group.id": "odradek-mirror",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "isolation.level": isolation_level,
        "auto.offset.reset": "error" if fail_on_data_loss else "earliest",
        "log_level": str(LOG_LEVEL),
    }


def write_ranges(
    batches: Iterable[pa.RecordBatch], plan: Plan, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Read and write the rows of a task (RANGE_SCHEMA); yields rows of `write.OUTPUT_SCHEMA`.

    raises  WriteFailed
    """
    consumer = Consumer(dict(properties))
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
    consumer.assign([TopicPartition(topic, number, begin)])
    deadline_s = time.monotonic() + NO_RECORD_TIMEOUT_S
    last_error = "no response"
    while time.monotonic() < deadline_s:
        message = consumer.poll(WAIT_S)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                # The last offsets may be those of control records.
                return
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise WriteFailed(
                    f"{topic}-{number}: records after offset {begin} were deleted before they were"
                    " read"
                )
            last_error = error.str()
            continue
        offset = message.offset()
        assert offset is not None, "a record that was read has an offset"
        if offset >= end:
            return
        deadline_s = time.monotonic() + NO_RECORD_TIMEOUT_S
        headers = message.headers()
        pairs = list(headers.items()) if isinstance(headers, dict) else headers
        yield SourceRecord(
            offset, message.timestamp()[1], message.key(), message.value(), pairs or None
        )
        if offset == end - 1:
            return
    raise WriteFailed(f"{topic}-{number}: the source sent no record: {last_error}")
