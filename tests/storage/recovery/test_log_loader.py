"""Loading after a crash: a cut at every byte, every other file good, missing, short or torn."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.checkpoints.leader_epochs import LEADER_EPOCH_FILE
from odradek.storage.files import names
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from odradek.storage.recovery.torn_segments import UnsupportedFormat
from tests.support.logs import FOLDER, NOW_MS, LogFolder, append, batch, flush, marker, read_all

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=120)


def path(base_offset: int, suffix: str) -> str:
    return f"{FOLDER}/{names.file_name(base_offset, suffix)}"


def snapshot_of(files: MemoryFileSystem) -> dict[str, bytes]:
    return {name: files.read(f"{FOLDER}/{name}") for name in files.list(FOLDER)}


def restored(content: dict[str, bytes], config: LogConfig = CONFIG) -> LogFolder:
    # The batches are from the year 1970 and their producers must not be forgotten.
    folder = LogFolder(config=replace(config, producer_id_expiration_ms=2 * NOW_MS))
    for name, data in content.items():
        file = folder.files.open(f"{FOLDER}/{name}", create=True)
        file.append((data,))
        file.close()
    return folder


def producer_facts(log: Log) -> dict[int, tuple[int, int, int]]:
    return {
        producer_id: (entry.last_sequence, entry.last_offset, entry.current_txn_first_offset)
        for producer_id, entry in log.producer_states.entries.items()
    }


def facts(log: Log) -> tuple[object, ...]:
    """Everything that must follow from the batches alone, all of them being replicated."""
    log.producer_states.on_high_watermark(log.end_offset)
    return (
        log.end_offset,
        log.leader_epochs.entries,
        producer_facts(log),
        log.producer_states.first_unstable_offset,
        aborted_transactions(log.segments, log.segments.base_offsets[0], log.end_offset),
        log.max_timestamp(),
        read_all(log),
    )


def transaction(producer_id: int, sequence: int, *timestamps_ms: int) -> RecordBatch:
    return batch(
        *timestamps_ms,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )


def written() -> tuple[dict[str, bytes], list[tuple[int, tuple[object, ...]]]]:
    """A log of several segments as a kill leaves it, and the facts after each of its last batches.

    The list holds (bytes of the last segment, facts).
    """
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    states = []
    batches = [
        batch(1_000 + each, 1_000 - each, producer_id=3, producer_epoch=0, base_sequence=2 * each)
        for each in range(8)
    ]
    batches += [
        transaction(5, 0, 2_000),
        batch(3_000),
        marker(producer_id=5, is_commit=False),
        transaction(5, 1, 500),
        batch(4_000, codec=3),
        marker(producer_id=5, is_commit=True),
        transaction(6, 0, 100, 200),
    ]
    for number, each in enumerate(batches):
        append(log, each, leader_epoch=number // 3)
        states.append((len(log.segments), log.segments.active.size, facts(log)))
    log.segments.active.write_indexes(is_last=False)
    last = len(log.segments)
    ends = [(size, fact) for count, size, fact in states if count == last]
    before = [fact for count, _, fact in states if count < last][-1]
    return snapshot_of(folder.files), [(0, before), *ends]


CONTENT, ENDS = written()
LAST_BASE = max(
    parsed[0]
    for name in CONTENT
    if (parsed := names.parse_file_name(name)) is not None and parsed[1] == names.LOG
)
LAST_LOG = names.file_name(LAST_BASE, names.LOG)

Damage = Callable[[bytes], bytes | None]
DAMAGES: dict[str, Damage] = {
    "good": lambda data: data,
    "missing": lambda data: None,
    "short": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "garbage": lambda data: bytes(each ^ 0x5A for each in data) + b"#!",
    "zeros": lambda data: data + bytes(120),
}


def damaged(content: dict[str, bytes], suffixes: tuple[str, ...], damage: str) -> dict[str, bytes]:
    mended = {}
    for name, data in content.items():
        if name.endswith(suffixes):
            changed = DAMAGES[damage](data)
            if changed is not None:
                mended[name] = changed
        else:
            mended[name] = data
    return mended


def check_cut(content: dict[str, bytes], cut: int, recovery_point: int) -> None:
    expected = [fact for size, fact in ENDS if size <= cut][-1]
    folder = restored(content)
    log = folder.open(recovery_point=recovery_point)
    log.check()
    assert facts(log) == expected
    append(log, batch(9_000), leader_epoch=50)
    log.close(NOW_MS)
    again = folder.open(was_clean=True)
    again.check()
    assert again.end_offset == expected[0] + 1  # type: ignore[operator]


def test_log_of_these_tests_has_all_kinds_of_batches() -> None:
    assert len(CONTENT[LAST_LOG]) > 250
    assert len(ENDS) > 3
    assert LAST_BASE > 10
    assert len(CONTENT[names.file_name(LAST_BASE, names.OFFSET_INDEX)]) > 0


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "suffixes",
    [
        (".index",),
        (".timeindex",),
        (".txnindex",),
        (".snapshot",),
        (LEADER_EPOCH_FILE,),
        (".index", ".timeindex", ".txnindex", ".snapshot", LEADER_EPOCH_FILE),
    ],
    ids=["index", "timeindex", "txnindex", "snapshot", "epochs", "all"],
)
def test_tear_at_every_byte_leaves_the_whole_batches(
    suffixes: tuple[str, ...], damage: str
) -> None:
    content = damaged(CONTENT, suffixes, damage)
    whole = CONTENT[LAST_LOG]
    step = 1 if damage == "good" and len(suffixes) > 1 else 7
    for cut in range(0, len(whole) + 1, step):
        content[LAST_LOG] = whole[:cut]
        check_cut(content, cut, recovery_point=0)


@pytest.mark.parametrize("damage", DAMAGES)
def test_tear_at_every_byte_of_the_last_batch_with_all_other_files_damaged(damage: str) -> None:
    content = damaged(
        CONTENT, (".index", ".timeindex", ".txnindex", ".snapshot", LEADER_EPOCH_FILE), damage
    )
    whole = CONTENT[LAST_LOG]
    for cut in range(ENDS[-2][0], len(whole) + 1):
        content[LAST_LOG] = whole[:cut]
        check_cut(content, cut, recovery_point=0)


def test_only_segments_after_the_recovery_point_are_read() -> None:
    content = dict(CONTENT)
    first = names.file_name(0, names.LOG)
    content[first] = content[first][:80] + b"#" + content[first][81:]
    whole = CONTENT[LAST_LOG]
    content[LAST_LOG] = whole[:-1]
    log = restored(content).open(recovery_point=LAST_BASE)
    assert log.end_offset == ENDS[-2][1][0]
    assert log.segments.base_offsets[0] == 0
    assert log.segments.size_bytes() > len(whole)
    log = restored(content).open(recovery_point=0)
    assert (log.end_offset, len(log.segments)) == (0, 1)


@pytest.mark.parametrize(
    "tail",
    [
        bytes(1),
        bytes(17),
        bytes(60),
        bytes(8_192),
        b"\xff" * 100,
        b"\0" * 8 + b"\x7f\xff\xff\xff" + b"\2" * 70,
        b"\0" * 8 + b"\0\0\0\x40" + b"\0" * 100,
        CONTENT[names.file_name(0, names.LOG)][:200],
    ],
    ids=["zero", "17 zeros", "60 zeros", "page of zeros", "ones", "huge", "old magic", "older"],
)
def test_garbage_at_the_end_is_truncated(tail: bytes) -> None:
    content = dict(CONTENT)
    content[LAST_LOG] += tail
    check_cut(content, len(CONTENT[LAST_LOG]), recovery_point=0)


def test_flipped_bit_in_a_header_truncates_the_log_there_unless_no_checksum_covers_it() -> None:
    whole = CONTENT[LAST_LOG]
    start = ENDS[-2][0]
    without = ENDS[-2][1]
    for bit in range(61 * 8):
        torn = bytearray(whole)
        torn[start + bit // 8] ^= 0x80 >> bit % 8
        content = dict(CONTENT)
        content[LAST_LOG] = bytes(torn)
        folder = restored(content)
        log = folder.open()
        if log.segments.size_bytes() == sum(map(len, log_files(CONTENT))):
            # Base offset and leader epoch may be anything; a base that cannot be is no batch.
            assert bit < 8 * 8 or 12 * 8 <= bit < 16 * 8, bit
            continue
        log.check()
        assert facts(log) == without, bit
        assert len(folder.warnings()) == 1
        assert f"torn at byte {start}" in folder.warnings()[0]


def log_files(content: dict[str, bytes]) -> list[bytes]:
    return [data for name, data in content.items() if name.endswith(names.LOG)]


def test_compaction_may_leave_holes_between_segments_and_batches() -> None:
    config = LogConfig(
        segment_bytes=300, index_interval_bytes=120, cleanup_delete=False, cleanup_compact=True
    )
    folder = LogFolder(config=config)
    log = folder.open()
    for offset in (0, 5, 9, 30, 31, 77):
        data = batch(NOW_MS, base_offset=offset, leader_epoch=1).view
        log.append_as_follower(data, now_ms=NOW_MS)
    expected = facts(log)
    log.abandon()
    log = folder.open()
    log.check()
    assert facts(log) == expected


def test_new_folder_becomes_an_empty_log_at_its_start_offset() -> None:
    for was_clean in (True, False):
        folder = LogFolder()
        log = folder.open(was_clean=was_clean, log_start_offset=7)
        assert (log.log_start_offset, log.end_offset, log.flush_state.recovery_point) == (7, 7, 7)
        assert folder.files.list(FOLDER) == [
            names.file_name(7, suffix) for suffix in (".index", ".log", ".timeindex")
        ]
        log.check()


def test_start_of_the_log_is_kept_inside_its_first_segment() -> None:
    log = restored(dict(CONTENT)).open(log_start_offset=3)
    assert (log.log_start_offset, log.segments.base_offsets[0]) == (3, 0)
    assert log.leader_epochs.entries[0].start_offset == 3


def test_clean_stop_is_trusted_and_costs_few_operations() -> None:
    folder = restored(dict(CONTENT))
    log = folder.open()
    expected = facts(log)
    log.close(NOW_MS)
    before = folder.files.operations
    log = folder.open(was_clean=True)
    # List, open and read .log, epochs, snapshot; the last batches of three small segments, and the
    # last transaction index: its last entry, then all.
    assert folder.files.operations - before <= 13
    assert facts(log) == expected
    assert log.flush_state.recovery_point == log.end_offset
    before = folder.files.operations
    log.close(NOW_MS)
    assert folder.files.operations == before, "an idle log is closed without touching the disk"


@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
def test_after_a_clean_stop_the_last_five_batches_are_recognised_when_sent_again(
    segment_bytes: int,
) -> None:
    folder = LogFolder(config=replace(CONFIG, segment_bytes=segment_bytes))
    log = folder.open()
    sent = [
        batch(NOW_MS, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        for sequence in range(8)
        for producer_id in (3, 4)
    ]
    stored = append(log, *sent)
    before = dict(log.producer_states.entries)
    log.close(NOW_MS)
    log = folder.open(was_clean=True)
    assert log.producer_states.entries == before
    again = append(log, *sent[-10:])
    assert all(result.is_duplicate for result in again)
    assert [result.base_offset for result in again] == [
        result.base_offset for result in stored[-10:]
    ]


def test_batches_of_an_older_epoch_are_not_recalled() -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    append(log, batch(NOW_MS, producer_id=3, producer_epoch=0, base_sequence=0))
    append(log, batch(NOW_MS, producer_id=3, producer_epoch=1, base_sequence=0))
    append(log, batch(NOW_MS, producer_id=3, producer_epoch=1, base_sequence=1))
    before = dict(log.producer_states.entries)
    log.close(NOW_MS)
    assert folder.open(was_clean=True).producer_states.entries == before


@pytest.mark.parametrize("damage", ["missing", "short", "garbage", "empty"])
@pytest.mark.parametrize("suffix", [".index", ".snapshot", LEADER_EPOCH_FILE])
def test_missing_files_are_rebuilt_after_a_clean_stop(suffix: str, damage: str) -> None:
    folder = restored(dict(CONTENT))
    log = folder.open()
    expected = facts(log)
    log.close(NOW_MS)
    log = restored(damaged(snapshot_of(folder.files), (suffix,), damage)).open(was_clean=True)
    log.check()
    assert facts(log) == expected


def test_torn_end_is_found_after_a_clean_stop() -> None:
    folder = restored(dict(CONTENT))
    folder.open().close(NOW_MS)
    content = snapshot_of(folder.files)
    content[LAST_LOG] = content[LAST_LOG][:-3]
    log = restored(content).open(was_clean=True)
    assert facts(log) == ENDS[-2][1]
    log.check()


def test_indexes_at_apaches_full_size_are_read_after_a_kill_and_after_a_stop() -> None:
    content = {
        name: data.ljust(
            10_485_760 // 12 * 12 if name.endswith(".timeindex") else 10_485_760, b"\0"
        )
        if name.endswith(("index",)) and not name.endswith(".txnindex")
        else data
        for name, data in CONTENT.items()
    }
    for recovery_point, was_clean in ((0, False), (LAST_BASE, False), (LAST_BASE, True)):
        log = restored(content).open(recovery_point=recovery_point, was_clean=was_clean)
        assert log.offset_for_timestamp(1_003, up_to_offset=log.end_offset) is not None
        assert read_all(log) == ENDS[-1][1][-1]
        append(log, batch(9_000), leader_epoch=50)
        log.roll(now_ms=NOW_MS)
        log.check()
        sizes = [log.shared.files.size(path(LAST_BASE, suffix)) for suffix in (".index", ".log")]
        assert sizes[0] < 100
        log.close(NOW_MS)
        assert log.shared.files.size(path(LAST_BASE, ".timeindex")) < 100


def test_preallocated_log_file_ends_where_its_zeros_begin() -> None:
    content = dict(CONTENT)
    content[LAST_LOG] = content[LAST_LOG].ljust(5_000, b"\0")
    for was_clean in (False, True):
        log = restored(content).open(was_clean=was_clean)
        assert facts(log) == ENDS[-1][1]
        log.check()


def legacy_entry(offset: int, magic: int) -> bytes:
    body = bytes([magic, 0]) + (bytes(8) if magic == 1 else b"")
    body += b"\xff\xff\xff\xff" + b"\0\0\0\x05hello"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    return offset.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_never_taken_for_a_torn_tail(magic: int) -> None:
    data = legacy_entry(0, magic) + legacy_entry(1, magic)
    content = {names.file_name(0, names.LOG): data}
    with pytest.raises(UnsupportedFormat):
        restored(content).open()
    log = restored(content).open(was_clean=True)
    assert log.end_offset == 2
    piece = log.read(1, 100, up_to_offset=2)
    assert piece is not None
    assert piece.read() == legacy_entry(1, magic)
    append(log, batch(1))
    assert log.end_offset == 3


@pytest.mark.parametrize("damage", [b"", b"#" * 33, b"#" * 34, b"\0" * 35])
def test_damaged_transaction_index_does_not_keep_a_log_from_being_appended_to(
    damage: bytes,
) -> None:
    name = names.file_name(LAST_BASE, names.TXN_INDEX)
    folder = restored(dict(CONTENT))
    log = folder.open()
    expected = aborted_transactions(log.segments, 0, log.end_offset)
    assert expected
    log.close(NOW_MS)
    path = f"{FOLDER}/{name}"
    folder.files.replace(path, folder.files.read(path) + damage)
    log = folder.open(was_clean=True)
    assert bool(folder.warnings()) == bool(damage)
    assert aborted_transactions(log.segments, 0, log.end_offset) == expected
    append(log, batch(NOW_MS), leader_epoch=log.leader_epochs.latest_epoch)
    log.close(NOW_MS)


def test_any_damaged_entry_of_the_last_transaction_index_is_found_after_a_clean_stop() -> None:
    folder = LogFolder()
    log = folder.open()
    for sequence in range(3):
        append(
            log,
            batch(producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True),
        )
        append(log, marker(producer_id=7, is_commit=False))
    expected = aborted_transactions(log.segments, 0, log.end_offset)
    log.close(NOW_MS)
    path = f"{FOLDER}/{names.file_name(0, names.TXN_INDEX)}"
    folder.files.replace(path, b"#" + folder.files.read(path)[1:])
    log = folder.open(was_clean=True)
    assert folder.warnings()
    assert aborted_transactions(log.segments, 0, log.end_offset) == expected


def test_index_files_without_a_segment_are_removed() -> None:
    content = dict(CONTENT)
    content[names.file_name(99, ".index")] = b"\0" * 8
    content[names.file_name(99, ".txnindex")] = b""
    folder = restored(content)
    folder.open()
    assert not [name for name in folder.files.list(FOLDER) if "099" in name]


def test_crash_at_any_step_of_the_recovery_is_recovered() -> None:
    content = damaged(CONTENT, (".index", ".snapshot", LEADER_EPOCH_FILE), "short")
    content[LAST_LOG] = content[LAST_LOG][:-1]
    folder = restored(content)
    folder.open()
    steps = folder.files.operations
    for number in range(1, steps + 1, 3):
        folder = restored(content)
        before = folder.files.operations
        folder.files.fail_operation(number, OSError(5, "failure"))
        try:
            folder.open()
        except OSError:
            assert folder.files.operations > before
        folder.files._failures.clear()
        log = folder.open()
        log.check()
        assert facts(log) == ENDS[-2][1], number


def test_flush_moves_the_recovery_point_just_inside_the_active_segment() -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    append(log, *[batch(each) for each in range(5)])
    assert log.unflushed_messages() == 5
    flush(log)
    assert (log.flush_state.recovery_point, log.unflushed_messages()) == (4, 0)
    log.roll(now_ms=NOW_MS)
    assert log.flush_state.is_due(log.end_offset, log.config, NOW_MS)
    flush(log)
    assert log.flush_state.recovery_point == 5
    assert not log.flush_state.is_due(log.end_offset, log.config, NOW_MS)
    log.config = LogConfig(flush_messages=2, flush_ms=1_000)
    append(log, batch(1))
    assert not log.flush_state.is_due(log.end_offset, log.config, NOW_MS)
    assert log.flush_state.is_due(log.end_offset, log.config, NOW_MS + 1_000)
    append(log, batch(1))
    assert log.flush_state.is_due(log.end_offset, log.config, NOW_MS)
