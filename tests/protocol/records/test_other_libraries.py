"""Batches that we write, read by the Python clients' own codecs, and theirs read by us."""

from __future__ import annotations

import warnings
from typing import Any

import aiokafka.record.default_records
import aiokafka.record.memory_records
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odradek.protocol.records.batch import has_valid_crc
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record, decode_records
from tests.support.record_batches import CODECS, parsed, record_lists

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record


def as_tuple(record: Any) -> tuple[object, ...]:
    """The fields of a record of either library."""
    return (
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple((key, value) for key, value in record.headers),
    )


def expected(records: list[Record], base_offset: int) -> list[tuple[object, ...]]:
    return [
        (base_offset + index, record.timestamp_ms, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]


@given(record_lists, st.sampled_from(CODECS), st.integers(0, 2**60), st.booleans())
def test_kafka_python_reads_what_we_write(
    records: list[Record], codec: int, base_offset: int, is_transactional: bool
) -> None:
    data = build_batch(
        records,
        base_offset=base_offset,
        codec=codec,
        producer_id=4,
        producer_epoch=1,
        base_sequence=6,
        is_transactional=is_transactional,
    )
    batch = kafka.record.MemoryRecords(bytes(data)).next_batch()
    assert batch.validate_crc()
    assert batch.is_transactional is is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4, 1, 6)
    assert batch.last_offset == base_offset + len(records) - 1
    assert [as_tuple(record) for record in batch] == expected(records, base_offset)


@given(record_lists, st.sampled_from(CODECS), st.integers(0, 2**60))
def test_aiokafka_reads_what_we_write(records: list[Record], codec: int, base_offset: int) -> None:
    data = build_batch(records, base_offset=base_offset, codec=codec)
    batch = aiokafka.record.memory_records.MemoryRecords(bytes(data)).next_batch()
    assert batch is not None
    assert batch.validate_crc()
    assert [as_tuple(record) for record in batch] == expected(records, base_offset)


@given(record_lists, st.sampled_from(CODECS))
def test_we_read_what_kafka_python_writes(records: list[Record], codec: int) -> None:
    builder = kafka.record.MemoryRecordsBuilder(
        magic=2,
        compression_type=codec,
        batch_size=1 << 20,
        transactional=True,
        producer_id=12,
        producer_epoch=3,
        base_sequence=40,
    )
    for record in records:
        assert builder.append(
            record.timestamp_ms, record.key, record.value, headers=list(record.headers)
        )
    builder.close()
    batch = parsed(bytes(builder.buffer()))
    assert has_valid_crc(batch)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (12, 3, 40)
    assert batch.is_transactional
    assert list(decode_records(batch)) == _at(records)


@given(record_lists, st.sampled_from(CODECS))
def test_we_read_what_aiokafka_writes(records: list[Record], codec: int) -> None:
    # Its builder takes -1 for a base timestamp that is not set yet, and writes the next one.
    assume(not records or records[0].timestamp_ms != -1)
    builder = aiokafka.record.default_records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, record in enumerate(records):
        assert builder.append(
            offset, record.timestamp_ms, record.key, record.value, headers=list(record.headers)
        )
    batch = parsed(bytes(builder.build()))
    assert has_valid_crc(batch)
    assert list(decode_records(batch)) == _at(records)


@pytest.mark.parametrize("codec", CODECS)
def test_large_batch_is_read_by_other_libraries_and_theirs_by_us(codec: int) -> None:
    records = [
        Record(b"key %d" % index, b"some value of some length %d" % index * 20, timestamp_ms=index)
        for index in range(2000)
    ]
    data = build_batch(records, codec=codec)
    for library in (kafka.record.MemoryRecords, aiokafka.record.memory_records.MemoryRecords):
        batch = library(bytes(data)).next_batch()
        assert [as_tuple(record) for record in batch] == expected(records, 0)


def _at(records: list[Record]) -> list[Record]:
    """The same records with the offsets 0, 1, 2..."""
    return [
        Record(
            record.key,
            record.value,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
            offset=offset,
        )
        for offset, record in enumerate(records)
    ]
