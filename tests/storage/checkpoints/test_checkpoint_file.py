"""The four offset checkpoints: round trips, Kafka's bytes, and everything that must be refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.checkpoints.checkpoint_file import (
    CorruptCheckpoint,
    decode_offsets,
    encode_offsets,
    read_offsets,
)

_topics = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)
_offsets = st.dictionaries(
    st.tuples(_topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), max_size=8
)


def test_bytes_are_those_that_kafka_writes() -> None:
    assert encode_offsets({("orders", 0): 1200, ("orders", 1): 40}) == (
        b"0\n2\norders 0 1200\norders 1 40\n"
    )


def test_no_entries_are_two_lines() -> None:
    assert encode_offsets({}) == b"0\n0\n"


def test_empty_file_holds_no_entries() -> None:
    assert decode_offsets(b"") == {}


@given(_offsets)
def test_what_is_written_is_read_again(offsets: dict[tuple[str, int], int]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


@given(_offsets, st.data())
def test_file_truncated_anywhere_is_refused(
    offsets: dict[tuple[str, int], int], data: st.DataObject
) -> None:
    whole = encode_offsets(offsets)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(whole[:cut])


@given(st.binary(max_size=60))
def test_garbage_raises_corrupt_checkpoint_or_is_decoded(garbage: bytes) -> None:
    for data in (garbage, b"0\n1\n" + garbage, b"0\n1\nt 0 " + garbage):
        try:
            decode_offsets(data)
        except CorruptCheckpoint:
            continue


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"\n",
        b"0\n",
        b"0\n-1\n",
        b"0\n2\nt 0 1\n",
        b"0\n0\nt 0 1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 1 2\n",
        b"0\n1\nt  0 1\n",
        b"0\n1\n 0 1\n",
        b"0\n1\nt 0 -1\n",
        b"0\n1\nt 0 +1\n",
        b"0\n1\nt 0 01\n",
        b"0\n1\nt 0 1_0\n",
        b"0\n1\nt 0 9223372036854775808\n",
        b"0\n1\nt 2147483648 1\n",
        "0\n1\nt 0 ٣\n".encode(),
        b"0\n1\nt 0 1\r\n",
        b"0\n1\nt\xff 0 1\n",
        b"0\n2\nt 0 1\nt 0 2\n",
        b"\x00" * 16,
    ],
)
def test_file_that_kafka_cannot_have_written_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(data)


def test_missing_file_holds_no_entries(tmp_path: Path) -> None:
    assert read_offsets(SystemFileSystem(), f"{tmp_path}/recovery-point-offset-checkpoint") == {}


def test_error_names_the_file(tmp_path: Path) -> None:
    path = f"{tmp_path}/replication-offset-checkpoint"
    SystemFileSystem().replace(path, b"0\n7\n")
    with pytest.raises(CorruptCheckpoint, match="replication-offset-checkpoint: 7 entries"):
        read_offsets(SystemFileSystem(), path)


def test_checkpoint_is_replaced_as_a_whole(tmp_path: Path) -> None:
    files = SystemFileSystem()
    path = f"{tmp_path}/log-start-offset-checkpoint"
    files.replace(path, encode_offsets({("a", 0): 5, ("b", 3): 7}))
    files.replace(path, encode_offsets({("b", 3): 9}))
    assert read_offsets(files, path) == {("b", 3): 9}
    assert files.list(str(tmp_path)) == ["log-start-offset-checkpoint"]
