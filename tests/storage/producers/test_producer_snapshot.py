"""Producer snapshots: bytes worked out by hand, and every kind of damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.storage.producers.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
)
from odradek.storage.producers.producer_state import BatchMetadata, ProducerEntry

ENTRIES = [
    ProducerEntry(
        producer_id=0x0102030405060708,
        producer_epoch=9,
        batches=(BatchMetadata(3, 39, 3, 5), BatchMetadata(6, 42, 2, 0x0000018000000000)),
        coordinator_epoch=7,
        current_txn_first_offset=40,
        last_timestamp_ms=0x0000018000000000,
    ),
    ProducerEntry(1000, 2, (), 11, -1, 77),
]

BODY = bytes.fromhex(
    "00000002"  # two entries
    "0102030405060708"  # producer id
    "0009"  # producer epoch
    "00000006"  # last sequence
    "000000000000002a"  # last offset
    "00000002"  # offset delta
    "0000018000000000"  # timestamp
    "00000007"  # coordinator epoch
    "0000000000000028"  # first offset of the open transaction
    "00000000000003e8"
    "0002"
    "ffffffff"
    "ffffffffffffffff"
    "00000000"
    "000000000000004d"
    "0000000b"
    "ffffffffffffffff"
)


def _checksum(data: bytes) -> int:
    """CRC-32C bit by bit: reflected polynomial 0x1EDC6F41."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


SNAPSHOT = bytes.fromhex("0001") + _checksum(BODY).to_bytes(4, "big") + BODY


def test_bytes_are_those_that_kafka_writes() -> None:
    assert encode_snapshot(ENTRIES) == SNAPSHOT
    assert len(SNAPSHOT) == 10 + 2 * 46


def test_only_the_newest_batch_of_a_producer_survives() -> None:
    first, second = decode_snapshot(SNAPSHOT)
    assert first == ENTRIES[0]._replace(batches=ENTRIES[0].batches[-1:])
    assert second == ENTRIES[1]


def test_empty_state_is_ten_bytes() -> None:
    data = encode_snapshot([])
    assert data == bytes.fromhex("0001") + _checksum(b"\0\0\0\0").to_bytes(4, "big") + b"\0\0\0\0"
    assert decode_snapshot(data) == []


@pytest.mark.parametrize("size", range(len(SNAPSHOT)))
def test_snapshot_truncated_anywhere_is_refused(size: int) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(SNAPSHOT[:size])


@given(st.integers(0, len(SNAPSHOT) * 8 - 1))
def test_any_flipped_bit_is_refused(bit: int) -> None:
    damaged = bytearray(SNAPSHOT)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(damaged))


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 46, b"\0" * 4096])
def test_bytes_after_the_end_are_refused(tail: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(SNAPSHOT + tail)


def test_count_that_does_not_fit_is_refused_though_the_checksum_is_right() -> None:
    for count in (-1, 1, 3, 2**31 - 1):
        body = count.to_bytes(4, "big", signed=True) + BODY[4:]
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(b"\x00\x01" + _checksum(body).to_bytes(4, "big") + body)


def test_producer_named_twice_is_refused() -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(encode_snapshot([ENTRIES[1], ENTRIES[1]]))
