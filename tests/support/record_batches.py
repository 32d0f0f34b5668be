"""Record batches and strategies for tests of everything that reads them."""

from __future__ import annotations

from hypothesis import strategies as st

from odradek.protocol.records.batch import RecordBatch, parse_batch
from odradek.protocol.records.builder import build_batch, sealed_batch
from odradek.protocol.records.record import Record, encode_record

NOW_MS = 1_700_000_000_000

CODECS = (0, 1, 2, 3, 4)
COMPRESSED = (1, 2, 3, 4)

byte_strings = st.binary(max_size=40)
headers = st.lists(
    st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3
).map(tuple)
records = st.builds(
    Record,
    st.none() | byte_strings,
    st.none() | byte_strings | st.binary(min_size=60, max_size=300),
    headers=headers,
    timestamp_ms=st.integers(-1, 2**62),
)
record_lists = st.lists(records, min_size=1, max_size=12)


def parsed(data: bytes | bytearray | memoryview) -> RecordBatch:
    """A batch over memory of its own."""
    return parse_batch(memoryview(bytearray(data)))


def plain_records(count: int, *, timestamp_ms: int = NOW_MS) -> list[Record]:
    """Records k0 -> v0, k1 -> v1, each a millisecond after the one before."""
    return [
        Record(b"k%d" % index, b"v%d" % index, timestamp_ms=timestamp_ms + index)
        for index in range(count)
    ]


def plain_batch(count: int = 3, *, codec: int = 0, base_offset: int = 0) -> bytearray:
    """A batch of `plain_records`."""
    return build_batch(plain_records(count), codec=codec, base_offset=base_offset)


def raw_record(
    delta_ms: int = 0, offset_delta: int = 0, key: bytes | None = b"k", value: bytes = b"v"
) -> bytes:
    """One encoded record."""
    return encode_record(
        offset_delta=offset_delta, timestamp_delta_ms=delta_ms, key=key, value=value
    )


def batch_around(
    body: bytes | bytearray,
    count: int,
    *,
    last_offset_delta: int | None = None,
    attributes: int = 0,
    base_timestamp_ms: int = NOW_MS,
    max_timestamp_ms: int = NOW_MS,
) -> bytearray:
    """Any bytes as the records part of a sealed batch."""
    return sealed_batch(
        body,
        0,
        -1,
        attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        -1,
        -1,
        -1,
        count,
    )
