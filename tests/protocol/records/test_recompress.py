"""Batches in another codec: everything but the codec stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import has_valid_crc, set_log_append_time
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.compression import compress
from odradek.protocol.records.recompress import recompress
from odradek.protocol.records.record import Record, decode_records
from tests.support.record_batches import (
    CODECS,
    NOW_MS,
    batch_around,
    parsed,
    plain_records,
    raw_record,
    record_lists,
)


@given(record_lists, st.sampled_from(CODECS), st.sampled_from(CODECS))
def test_recompression_keeps_records_and_header(
    records: list[Record], source: int, target: int
) -> None:
    batch = parsed(
        build_batch(
            records,
            codec=source,
            producer_id=9,
            producer_epoch=2,
            base_sequence=30,
            is_transactional=True,
            leader_epoch=4,
        )
    )
    again = parsed(recompress(batch, target))
    assert again.codec == target
    assert has_valid_crc(again)
    assert list(decode_records(again)) == list(decode_records(batch))
    for name in (
        "base_offset",
        "leader_epoch",
        "last_offset",
        "record_count",
        "base_timestamp_ms",
        "max_timestamp_ms",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "is_transactional",
    ):
        assert getattr(again, name) == getattr(batch, name)


def test_recompression_keeps_the_append_time() -> None:
    data = build_batch(plain_records(3))
    set_log_append_time(memoryview(data), 77)
    again = parsed(recompress(parsed(data), 1))
    assert again.is_log_append_time
    assert again.max_timestamp_ms == 77


def test_wrong_relative_offsets_of_a_client_are_corrected() -> None:
    """Apache Kafka 3.9.2 stores deltas 0, 1 for deltas 0, 5 on a topic that recompresses."""
    body = raw_record(0, 0) + raw_record(3, 5, None)
    again = parsed(recompress(parsed(batch_around(body, 2)), 1))
    assert [(record.offset, record.timestamp_ms) for record in decode_records(again)] == [
        (0, NOW_MS),
        (1, NOW_MS + 3),
    ]
    assert again.last_offset == 1


def test_wrong_max_timestamp_is_corrected() -> None:
    body = raw_record(0, 0) + raw_record(500, 1)
    for claimed_ms in (NOW_MS, NOW_MS + 10_000):
        batch = parsed(batch_around(body, 2, max_timestamp_ms=claimed_ms))
        assert parsed(recompress(batch, 3)).max_timestamp_ms == NOW_MS + 500


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_bombs_and_damage_are_refused(codec: int) -> None:
    bomb = batch_around(compress(codec, bytes(3_000_000)), 1, attributes=codec)
    miscounted = batch_around(compress(codec, raw_record()), 2, attributes=codec)
    garbage = batch_around(b"\x01garbage", 1, attributes=codec)
    for data in (bomb, miscounted, garbage):
        with pytest.raises(BrokerError) as caught:
            recompress(parsed(data), 5 - codec, output_bytes_max=1_000_000)
        assert caught.value.code == ErrorCode.INVALID_RECORD


def test_higher_compression_level_makes_a_smaller_batch() -> None:
    batch = parsed(build_batch([Record(b"k%d" % i, b"value %d" % (i % 7)) for i in range(3000)]))
    assert len(recompress(batch, 1, 9)) < len(recompress(batch, 1, 1))
