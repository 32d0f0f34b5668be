"""The aborted transactions whose marker is in one segment: `.txnindex`.

    bytes  field               type, big-endian
    0      version, 0          int16
    2      producer id         int64
    10     first offset        int64     of the transaction
    18     last offset         int64     of its marker, rising
    26     last stable offset  int64     when the marker was written

There is no file while there is no entry.  Read_committed consumers get the entries that overlap
what they read and drop the batches named by them (KIP-98).

Source: Kafka's TransactionIndex, AbortedTxn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from odradek.runtime.files import Bytes
from odradek.storage.indexes.index_file import CorruptIndex

ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One entry."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    last_stable_offset: int


def encode_entries(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of a file."""
    return b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)


def iterate_entries(data: Bytes, former: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the entries in some bytes of a file, each checked when it is reached.

    former   no marker is at or below it
    raises   CorruptIndex: cut within an entry, another version, markers at or below `former` or out
             of order
    """
    if len(data) % ENTRY.size:
        raise CorruptIndex(f"{len(data)} bytes are not a whole number of entries")
    for version, producer_id, first, last, stable in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise CorruptIndex(f"unknown version {version}, expected {VERSION}")
        if last <= former or first >= last:
            raise CorruptIndex(f"a marker at {last} of {first} after one at {former}")
        former = last
        yield producer_id, first, last, stable


def decode_entries(data: Bytes, base_offset: int) -> list[AbortedTransaction]:
    """The entries in the bytes of a file; raises CorruptIndex as `iterate_entries`.

    base_offset  no marker is below it
    """
    return [AbortedTransaction(*fields) for fields in iterate_entries(data, base_offset - 1)]
