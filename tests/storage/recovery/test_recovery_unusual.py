"""Loading what is unusual and not torn: it stays, and is reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.storage.files import names
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from tests.storage.recovery.test_log_loader import CONTENT, ENDS, path, restored
from tests.support.logs import NOW_MS, LogFolder, append, batch, marker, read_all, truncate_log

BASES = sorted(
    parsed[0]
    for name in CONTENT
    if (parsed := names.parse_file_name(name)) is not None and parsed[1] == names.LOG
)
"""The base offsets of its segments."""


def test_segment_that_a_crash_has_emptied_leaves_a_gap_that_is_reported() -> None:
    content = {**CONTENT, names.file_name(BASES[1], names.LOG): b""}
    folder = restored(content)
    log = folder.open()
    log.check()
    assert log.end_offset == ENDS[-1][1][0]
    assert log.segments.base_offsets == BASES
    gap = BASES[2] - BASES[1]
    assert [text for text in folder.warnings() if f"{gap} offsets are missing in 1 gaps" in text]
    assert log.segment_gap == (BASES[1], BASES[2])
    truncate_log(log, BASES[1] + 1)
    assert log.segment_gap == (BASES[1], BASES[1] + 1)
    truncate_log(log, BASES[1])
    assert log.segment_gap is None


@pytest.mark.parametrize(
    ("first_dirty_offset", "is_loss"),
    [(0, True), (BASES[1] - 1, True), (BASES[1], True), (BASES[1] + 1, False), (BASES[2], False)],
)
def test_gap_is_no_loss_where_the_cleaner_has_been(first_dirty_offset: int, is_loss: bool) -> None:
    compacted = restored({**CONTENT, names.file_name(BASES[1], names.LOG): b""})
    compacted.config = replace(compacted.config, cleanup_compact=True)
    log = compacted.open(first_dirty_offset=first_dirty_offset)
    assert log.segment_gap == ((BASES[1], BASES[2]) if is_loss else None)
    assert bool(compacted.warnings()) == is_loss
    log.check()


def test_gaps_are_known_one_by_one_until_each_is_explained() -> None:
    content = {
        **CONTENT,
        names.file_name(BASES[0], names.LOG): b"",
        names.file_name(BASES[1], names.LOG): b"",
    }
    log = restored(content).open()
    gaps = [(BASES[0], BASES[1]), (BASES[1], BASES[2])]
    assert log.segment_gap == gaps[0]
    log.head.epochs.assign(log.leader_epochs.latest_epoch + 1, log.end_offset)
    assert log.segment_gap == gaps[0]
    log.gaps.explain(BASES[0] + 1)
    assert log.segment_gap == (BASES[0] + 1, BASES[1])
    log.gaps.explain(BASES[1])
    assert log.segment_gap == gaps[1]
    log.advance_log_start(BASES[1] + 1)
    assert log.segment_gap == (BASES[1] + 1, BASES[2])
    log.advance_log_start(BASES[2])
    assert log.segment_gap is None


def test_missing_segment_in_the_middle_is_reported() -> None:
    content = dict(CONTENT)
    del content[names.file_name(BASES[1], names.LOG)]
    for was_clean in (True, False):
        folder = restored(content)
        log = folder.open(was_clean=was_clean)
        assert log.end_offset == ENDS[-1][1][0]
        assert log.segments.base_offsets == [base for base in BASES if base != BASES[1]]
        assert [text for text in folder.warnings() if "its segment has no .log file" in text]


def test_lower_leader_epoch_after_a_higher_one_is_kept_and_reported() -> None:
    folder = LogFolder()
    log = folder.open()
    append(log, batch(1), leader_epoch=4)
    file = folder.files.open(path(0, names.LOG))
    file.append((batch(2, base_offset=1, leader_epoch=3).view,))
    file.append((batch(3, base_offset=2, leader_epoch=3).view,))
    file.close()
    log.abandon()
    log = folder.open()
    assert log.end_offset == 3
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(4, 0)]
    assert [text for text in folder.warnings() if "the first at offset 1: 3 after 4" in text]


def test_transaction_that_is_repeated_counts_once() -> None:
    folder = LogFolder()
    log = folder.open()
    sent = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, sent, marker(producer_id=7, is_commit=False))
    path = log.segments.active.handle.path
    content = folder.files.read(path)
    folder.files.replace(path, content + content)
    log = folder.open()
    assert [text for text in folder.warnings() if "2 batches repeat offsets" in text]
    assert aborted_transactions(log.segments, 0, log.end_offset) == [(7, 0)]
    assert log.last_stable_offset == log.high_watermark
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=1, is_transactional=True))


def test_offsets_that_repeat_earlier_ones_are_kept_and_never_assigned_again() -> None:
    config = LogConfig(index_interval_bytes=1, segment_bytes=600)
    folder = LogFolder(config=config)
    log = folder.open()
    append(log, *[batch(1_000 + each) for each in range(4)])
    log.abandon()
    file = folder.files.open(path(0, names.LOG))
    for offset in (2, 3, 4, 2):
        file.append((batch(2_000 + offset, base_offset=offset, leader_epoch=0).view,))
    size = file.size()
    file.close()
    for start in ("killed", "stopped", "killed"):
        log = folder.open(was_clean=start == "stopped")
        assert (log.segments.size_bytes(), log.end_offset) == (size, 5)
        for offset in range(5):
            piece = log.read(offset, 1, up_to_offset=5)
            assert piece is not None
            assert RecordBatch(memoryview(piece.read())).base_offset == offset
            piece.release()
        if start == "killed":
            assert [text for text in folder.warnings() if "3 batches repeat offsets" in text]
        log.close(NOW_MS)
    log = folder.open(was_clean=True)
    assert append(log, batch(1))[0].base_offset == 5


def test_offsets_far_above_the_base_of_their_segment_are_kept() -> None:
    folder = LogFolder(config=LogConfig(index_interval_bytes=1))
    folder.open().abandon()
    far = 3 << 31
    file = folder.files.open(path(0, names.LOG))
    for offset in (0, 1, far, far + 1):
        file.append((batch(1_000 + offset % 7, base_offset=offset, leader_epoch=0).view,))
    size = file.size()
    file.close()
    for was_clean in (False, True):
        log = folder.open(was_clean=was_clean)
        assert (log.segments.size_bytes(), log.end_offset) == (size, far + 2)
        for start_offset, base_offset in ((0, 0), (1, 1), (2, far), (far, far), (far + 1, far + 1)):
            piece = log.read(start_offset, 1, up_to_offset=far + 2)
            assert piece is not None
            assert RecordBatch(memoryview(piece.read())).base_offset == base_offset
            piece.release()
        assert append(log, batch(1))[0].base_offset == far + 2
        truncate_log(log, far + 2, now_ms=NOW_MS)
        log.close(NOW_MS)


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("start_offset", [30, 5_000, 1 << 62])
def test_log_start_above_the_end_keeps_the_records_and_assigns_no_offset_twice(
    start_offset: int, was_clean: bool
) -> None:
    folder = restored(dict(CONTENT))
    log = folder.open(log_start_offset=start_offset, was_clean=was_clean)
    assert (log.log_start_offset, log.end_offset) == (0, start_offset)
    assert read_all(log) == ENDS[-1][1][-1]
    assert [text for text in folder.warnings() if f"offset {start_offset}, is above" in text]
    assert append(log, batch(1), leader_epoch=9)[0].base_offset == start_offset
    log.check()
    log.close(NOW_MS)
    again = folder.open(was_clean=True)
    assert read_all(again)[: len(ENDS[-1][1][-1])] == ENDS[-1][1][-1]
    assert again.end_offset == start_offset + 1


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("content", [CONTENT, {}])
def test_log_start_that_is_too_great_for_records_is_reported_and_ignored(
    content: dict[str, bytes], was_clean: bool
) -> None:
    folder = restored(dict(content))
    log = folder.open(log_start_offset=2**63 - 1, was_clean=was_clean)
    assert log.log_start_offset == 0
    assert log.end_offset < 2**32
    assert [text for text in folder.warnings() if f"offset {2**63 - 1}, is ignored" in text]
    append(log, batch(1), leader_epoch=9)
    log.check()


@pytest.mark.parametrize("was_clean", [True, False])
def test_file_whose_name_is_too_great_for_records_is_no_segment(was_clean: bool) -> None:
    log = restored({**CONTENT, "09223372036854775807.log": b""}).open(was_clean=was_clean)
    assert read_all(log) == ENDS[-1][1][-1]
    assert log.end_offset < 2**32
    append(log, batch(1), leader_epoch=9)
    log.check()


def test_log_without_a_record_begins_at_its_start() -> None:
    content = {names.file_name(3, names.LOG): b"", names.file_name(9, names.LOG): b""}
    log = restored(content).open(log_start_offset=5_000)
    assert (log.log_start_offset, log.end_offset, log.segments.base_offsets) == (
        5_000,
        5_000,
        [5_000],
    )
    log.check()
