"""Transaction indexes that were deleted or damaged while no broker ran are right after a start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from odradek.storage.files import names
from odradek.storage.indexes.txn_index import ENTRY
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from tests.support.logs import FOLDER, NOW_MS, LogFolder, append, batch, flush, marker

CONFIG: Final = LogConfig(segment_bytes=900, index_interval_bytes=200)
PRODUCERS: Final = 5
ROUNDS: Final = 9

Damage = Callable[[bytes], bytes | None]
DAMAGES: Final[dict[str, Damage]] = {
    "junk": lambda data: b"\xff" * 999,
    "a first entry of an unknown version": lambda data: b"#" + data[1:],
    "cut within an entry": lambda data: data[:-1],
    "bytes after the entries": lambda data: data + b"#" * 11,
    "zeros": lambda data: bytes(len(data)),
    "a repeated entry": lambda data: data + data[-ENTRY.size :],
    "a marker below the segment": lambda data: data[: -ENTRY.size] + ENTRY.pack(0, 1, 0, -5, 0),
    "a marker below its transaction": lambda data: ENTRY.pack(0, 1, 1 << 60, 1 << 59, 0) + data,
}


def written() -> tuple[LogFolder, Log]:
    """Overlapping transactions over many segments; most are aborted, some in a later segment."""
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    sequences = dict.fromkeys(range(PRODUCERS), 0)
    for number in range(ROUNDS):
        for producer_id in sequences:
            for _ in range(1 + (number + producer_id) % 3):
                append(
                    log,
                    batch(
                        producer_id=producer_id,
                        producer_epoch=0,
                        base_sequence=sequences[producer_id],
                        is_transactional=True,
                    ),
                )
                sequences[producer_id] += 1
            append(log, batch(), batch())
        for producer_id in sequences:
            if (number + producer_id) % 3:
                is_commit = (number + producer_id) % 4 == 0
                append(log, marker(producer_id=producer_id, is_commit=is_commit))
    log.advance_high_watermark(log.end_offset)
    flush(log)
    log.close(NOW_MS)
    return folder, log


def path_of(base_offset: int, suffix: str) -> str:
    return f"{FOLDER}/{names.file_name(base_offset, suffix)}"


def indexes_of(folder: LogFolder) -> dict[int, bytes]:
    """The transaction indexes on disk, by the base of their segment."""
    return {
        parsed[0]: folder.files.read(f"{FOLDER}/{name}")
        for name in folder.files.list(FOLDER)
        if (parsed := names.parse_file_name(name)) is not None and parsed[1] == names.TXN_INDEX
    }


def aborted_of(log: Log) -> list[tuple[int, ...]]:
    return [tuple(entry) for entry in aborted_transactions(log.segments, 0, log.end_offset)]


def test_history_has_aborted_transactions_that_begin_in_earlier_segments() -> None:
    folder, log = written()
    stored = indexes_of(folder)
    assert len(stored) > 4
    bases = log.segments.base_offsets
    assert any(
        entry[2] < base
        for base, data in stored.items()
        for entry in ENTRY.iter_unpack(data)
        if base > bases[1]
    )


@pytest.mark.parametrize("with_snapshots", [True, False], ids=["snapshots", "no snapshots"])
@pytest.mark.parametrize(
    "suffixes",
    [
        (names.TXN_INDEX, names.OFFSET_INDEX),
        (names.TXN_INDEX, names.TIME_INDEX),
        (names.TXN_INDEX, names.OFFSET_INDEX, names.TIME_INDEX),
    ],
    ids=["index", "timeindex", "both"],
)
@pytest.mark.parametrize("was_clean", [True, False], ids=["clean", "killed"])
def test_deleted_transaction_indexes_of_any_segment_are_rebuilt(
    was_clean: bool, suffixes: tuple[str, ...], with_snapshots: bool
) -> None:
    folder, log = written()
    expected, bases = aborted_of(log), log.segments.base_offsets
    stored, end_offset = indexes_of(folder), log.end_offset
    for chosen in ([bases[0]], [bases[3]], bases[2:5], [bases[-2]], [bases[-1]], bases[::2], bases):
        folder, _ = written()
        for base_offset in chosen:
            for suffix in suffixes:
                path = path_of(base_offset, suffix)
                if folder.files.exists(path):
                    folder.files.remove(path)
        if not with_snapshots:
            for name in folder.files.list(FOLDER):
                if name.endswith(names.SNAPSHOT):
                    folder.files.remove(f"{FOLDER}/{name}")
        log = folder.open(was_clean=was_clean, recovery_point=end_offset)
        assert aborted_of(log) == expected, chosen
        reported = [event.place for event in folder.events if "rebuilt from" in event.text]
        # The last segment is checked after a kill, which rebuilds its indexes anyway.
        rebuilt = chosen if was_clean else [each for each in chosen if each != bases[-1]]
        assert reported == [path_of(each, names.TXN_INDEX) for each in rebuilt if each in stored]
        log.check()
        log.close(NOW_MS)
        assert indexes_of(folder) == stored
        folder.open(was_clean=True)
        assert not folder.warnings()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("was_clean", [True, False], ids=["clean", "killed"])
def test_damaged_transaction_index_of_any_segment_is_rebuilt(was_clean: bool, damage: str) -> None:
    folder, log = written()
    expected, stored = aborted_of(log), indexes_of(folder)
    for chosen in ([each] for each in stored):
        folder, log = written()
        for base_offset in chosen:
            changed = DAMAGES[damage](stored[base_offset])
            assert changed is not None
            assert changed != stored[base_offset]
            folder.files.replace(path_of(base_offset, names.TXN_INDEX), changed)
        log = folder.open(was_clean=was_clean, recovery_point=log.end_offset)
        assert aborted_of(log) == expected, chosen
        log.close(NOW_MS)
        assert indexes_of(folder) == stored


def test_crash_at_any_step_of_a_rebuild_is_finished_by_the_next_start() -> None:
    folder, log = written()
    expected = aborted_of(log)
    lost, torn = [*indexes_of(folder)][1:3]
    for number in range(1, 1_000):
        folder, _ = written()
        folder.files.remove(path_of(lost, names.TXN_INDEX))
        folder.files.remove(path_of(lost, names.OFFSET_INDEX))
        folder.files.replace(path_of(torn, names.TXN_INDEX), b"#" * ENTRY.size)
        folder.files.fail_operation(number, OSError(5, "refused"))
        was_refused = False
        try:
            folder.open(was_clean=True)
        except OSError:
            was_refused = True
        folder.files._failures.clear()
        assert aborted_of(folder.open(was_clean=True)) == expected, number
        if not was_refused:
            break
    assert number > 20


def test_batches_that_repeat_offsets_do_not_keep_a_transaction_index_from_being_rebuilt() -> None:
    folder, log = written()
    expected, base = aborted_of(log), [*indexes_of(folder)][1]
    path = path_of(base, names.LOG)
    folder.files.replace(path, folder.files.read(path) * 2)
    folder.files.replace(path_of(base, names.TXN_INDEX), b"#")
    assert aborted_of(folder.open(was_clean=True)) == expected
