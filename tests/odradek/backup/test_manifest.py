"""The pure parts of a backup: its manifest, and where it goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.tools.backup.backup_run import Continuation, Diverged, LiveLog, go_on
from odradek.tools.backup.manifest import (
    BackupError,
    BackupFile,
    CommittedOffset,
    Manifest,
    PartitionBackup,
    TopicBackup,
    _digest,
    decode_manifest,
)


def log(ends: list[int], *, start: int = 0, epoch: int = 3) -> PartitionBackup:
    """A partition with a file up to each of these offsets."""
    files = tuple(
        BackupFile(
            name=f"segments/000001-0123abcd/orders/0/{base:020d}.log",
            base_offset=base,
            end_offset=end,
            size_bytes=70,
            sha256="0" * 64,
        )
        for base, end in zip([0, *ends], ends, strict=False)
    )
    end_offset = max(ends, default=start)
    return PartitionBackup(
        partition=0, start_offset=start, end_offset=end_offset, leader_epoch=epoch, files=files
    )


ENDS = st.lists(st.integers(1, 1_000), min_size=1, max_size=6, unique=True).map(sorted)


@given(ENDS, st.integers(0, 500), st.integers(0, 2_000), st.integers(0, 2_000))
def test_log_that_has_grown_is_read_from_the_end_of_the_backup(
    ends: list[int], start: int, more: int, epoch_more: int
) -> None:
    former = log(ends)
    end = max(former.end_offset, start) + more
    decision = go_on(former, LiveLog(start, end, former.end_offset + epoch_more))
    assert isinstance(decision, Continuation)
    assert decision.read_from == max(former.end_offset, start)
    assert decision.lost == max(0, start - former.end_offset)
    # Nothing that a consumer could read is dropped, and nothing else is kept.
    assert [file.end_offset for file in decision.kept] == [end for end in ends if end > start]


@given(ENDS, st.integers(1, 1_000))
def test_log_that_was_truncated_has_diverged(ends: list[int], less: int) -> None:
    former = log(ends)
    end = former.end_offset
    for live in (
        LiveLog(0, max(0, end - less)),
        LiveLog(0, end + less, max(0, end - less)),
        LiveLog(0, end, -1),
    ):
        decision = go_on(former, live)
        assert isinstance(decision, Diverged)
        assert "was truncated" in decision.reason


def example() -> Manifest:
    topic = TopicBackup(
        topic_id="9a44", replication_factor=3, configs={"a": "b"}, partitions=(log([5, 9]),)
    )
    row = CommittedOffset(topic="orders", partition=0, offset=7, metadata="ü")
    return Manifest(
        number=4, cluster_id="c", created_ms=5, topics={"orders": topic}, groups={"g": (row,)}
    )


def test_manifest_is_read_as_it_was_written() -> None:
    assert decode_manifest(example().encode()) == example()


def sealed(content: dict[str, object]) -> bytes:
    """A manifest with these fields, whose checksum is right."""
    whole = {"format": "odradek-backup", "version": 1, **content}
    return json.dumps({**whole, "sha256": _digest(whole)}).encode()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "segments/../../etc/orders/0/00000000000000000000.log"),
        ("name", "segments/000001-0123abcd/orders/1/00000000000000000000.log"),
        ("name", "segments/000001-0123abcd/other/0/00000000000000000000.log"),
        ("name", 7),
        ("base_offset", 5),
        ("end_offset", 99),
        ("size_bytes", -1),
        ("size_bytes", "many"),
        ("more", 1),
    ],
)
def test_manifest_that_leads_elsewhere_is_refused(field: str, value: object) -> None:
    content = asdict(example())
    content["topics"]["orders"]["partitions"][0]["files"][0][field] = value
    with pytest.raises(BackupError, match=r"manifest.json lacks a field"):
        decode_manifest(sealed(content))


@given(st.data())
def test_manifest_with_any_byte_changed_is_refused(data: st.DataObject) -> None:
    whole = bytearray(example().encode())
    position = data.draw(st.integers(0, len(whole) - 3))
    whole[position] ^= data.draw(st.integers(1, 255))
    try:
        manifest = decode_manifest(bytes(whole))
    except BackupError:
        return
    # A blank between two values.
    assert manifest == example()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": 1, "version": 1}', b"\xff"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(BackupError):
        decode_manifest(data)


def test_manifest_of_a_later_version_names_it() -> None:
    content = {**asdict(replace(example(), number=5)), "version": 9}
    with pytest.raises(BackupError, match="version 9; this release reads"):
        decode_manifest(sealed(content))
