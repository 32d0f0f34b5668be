"""What an interrupted cleaning left: (Kafka's swap protocol, step by step)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.records.batch import iterate_batches
from odradek.storage.files import names
from odradek.storage.log_config import LogConfig
from tests.support.logs import FOLDER, NOW_MS, LogFolder, append, batch, read_all

SIZE = batch(1).size
CONFIG = LogConfig(
    segment_bytes=4 * SIZE, index_interval_bytes=SIZE, cleanup_delete=False, cleanup_compact=True
)


def folder_with_segments() -> LogFolder:
    """Segments 0, 4, 8 and, in use, 12."""
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    for each in range(14):
        append(log, batch(each))
    log.close(NOW_MS)
    return folder


def put(folder: LogFolder, name: str, data: bytes) -> None:
    file = folder.files.open(f"{FOLDER}/{name}", create=True)
    file.append((data,))
    file.close()


def cleaned(*offsets: int) -> bytes:
    return b"".join(
        bytes(batch(offset, base_offset=offset, leader_epoch=0).view) for offset in offsets
    )


def log_name(base_offset: int, ending: str = "") -> str:
    return names.file_name(base_offset, names.LOG) + ending


def test_files_of_unfinished_cleanings_and_deletions_are_removed() -> None:
    folder = folder_with_segments()
    put(folder, log_name(0, names.CLEANED), cleaned(1, 5))
    put(folder, names.file_name(0, names.OFFSET_INDEX) + names.CLEANED, b"")
    put(folder, log_name(99, names.DELETED), b"rubbish")
    log = folder.open(was_clean=True)
    assert log.segments.base_offsets == [0, 4, 8, 12]
    assert not [name for name in folder.files.list(FOLDER) if name.count(".") > 1]


def set_aside(folder: LogFolder, base_offsets: Sequence[int]) -> None:
    for base_offset in base_offsets:
        path = f"{FOLDER}/{log_name(base_offset)}"
        folder.files.rename(path, path + names.DELETED)


@pytest.mark.parametrize("gone", [(0,), (0, 4)])
@pytest.mark.parametrize("was_clean", [True, False])
def test_finished_cleaning_takes_the_place_of_the_segments_that_are_gone(
    gone: tuple[int, ...], was_clean: bool
) -> None:
    folder = folder_with_segments()
    put(folder, log_name(0, names.SWAP), cleaned(1, 5, 7))
    put(folder, names.file_name(0, names.TIME_INDEX) + names.SWAP, b"")
    set_aside(folder, gone)
    log = folder.open(was_clean=was_clean)
    assert log.segments.base_offsets == [
        base for base in (0, 4, 8, 12) if base == 0 or base not in gone
    ]
    kept = cleaned(1, 5, 7) if gone == (0, 4) else cleaned(1)
    assert log.segments[0].size == len(kept)
    assert read_all(log)[: len(kept)] == kept
    assert log.end_offset == 14
    assert not [text for text in folder.warnings() if names.SWAP in text or "segments" in text]
    log.check()


# Of a cleaning that kept the offsets 1, 5 and 7: cut after each batch, and of another topic.
SWAPS = {
    **{f"{count} batches": cleaned(*(1, 5, 7)[:count]) for count in range(4)},
    "another topic": b"".join(
        bytes(batch(offset, value=b"other", base_offset=offset, leader_epoch=0).view)
        for offset in range(8)
    ),
}


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("gone", [(), (0,), (0, 4)])
@pytest.mark.parametrize("swap", SWAPS)
def test_segment_that_is_there_is_never_replaced_whatever_the_swap_holds(
    swap: str, gone: tuple[int, ...], was_clean: bool
) -> None:
    folder = folder_with_segments()
    folder.open(was_clean=True)
    former = {base: folder.files.read(f"{FOLDER}/{log_name(base)}") for base in (0, 4, 8, 12)}
    put(folder, log_name(0, names.SWAP), SWAPS[swap])
    put(folder, names.file_name(0, names.OFFSET_INDEX) + names.SWAP, b"")
    set_aside(folder, gone)
    log = folder.open(was_clean=was_clean, recovery_point=14)
    for base in former:
        if base not in gone:
            assert folder.files.read(f"{FOLDER}/{log_name(base)}") == former[base]
    if gone:
        first = folder.files.read(f"{FOLDER}/{log_name(0)}")
        assert SWAPS[swap].startswith(first)
        limit = 4 if gone == (0,) else 8
        assert [each.base_offset for each in iterate_batches(memoryview(SWAPS[swap]))][
            len(list(iterate_batches(memoryview(first)))) :
        ] == [
            each.base_offset
            for each in iterate_batches(memoryview(SWAPS[swap]))
            if each.base_offset >= limit
        ]
    assert log.end_offset == 14
    assert not [name for name in folder.files.list(FOLDER) if name.endswith(names.SWAP)]


@given(st.data())
def test_no_cut_of_a_swap_takes_records_from_segments_that_are_there(data: st.DataObject) -> None:
    folder = folder_with_segments()
    bases = [0, 4, 8]
    group = data.draw(st.integers(1, 3), "segments of the group")
    kept = sorted(data.draw(st.sets(st.integers(0, 4 * group - 1)), "offsets kept"))
    gone = bases[: data.draw(st.integers(0, group), "segments set aside")]
    whole = cleaned(*kept)
    size = data.draw(
        st.one_of(st.integers(0, len(kept)).map(SIZE.__mul__), st.integers(0, len(whole))),
        "bytes of the swap",
    )
    put(folder, log_name(0, names.SWAP), whole[:size])
    set_aside(folder, gone)
    log = folder.open(was_clean=data.draw(st.booleans(), "clean"), recovery_point=14)
    limit = 4 * len(gone)
    contents = [folder.files.read(segment.handle.path) for segment in log.segments]
    offsets = [
        each.base_offset
        for content in contents
        for each in iterate_batches(memoryview(content)[: len(content) // SIZE * SIZE])
    ]
    count = size // SIZE
    assert [offset for offset in offsets if offset >= limit] == list(range(limit, 14))
    assert [offset for offset in offsets if offset < limit] == [
        offset for offset in kept[:count] if offset < limit
    ]
    assert log.end_offset == 14


def test_segment_that_an_interrupted_start_of_kafka_left_is_replaced_with_a_warning() -> None:
    folder = folder_with_segments()
    put(folder, log_name(0, names.SWAP), cleaned(1, 5, 7, 9))
    folder.files.remove(f"{FOLDER}/{log_name(4)}")
    log = folder.open(was_clean=True)
    assert log.segments.base_offsets == [0, 8, 12]
    assert folder.files.read(f"{FOLDER}/{log_name(0)}") == cleaned(1, 5, 7)
    assert folder.warnings() == ["replaces segments (0): none has offset 7"]


def test_swap_that_was_renamed_but_for_an_index_is_finished() -> None:
    folder = folder_with_segments()
    put(folder, names.file_name(4, names.TIME_INDEX) + names.SWAP, b"\0" * 7 + b"\5" + b"\0\0\0\1")
    put(folder, names.file_name(77, names.OFFSET_INDEX) + names.SWAP, b"")
    log = folder.open(was_clean=True)
    log.segments[1].load_indexes()
    assert log.segments[1].indexes.times.newest == (5, 5)
    assert not [name for name in folder.files.list(FOLDER) if name.endswith(names.SWAP)]


def test_swap_of_an_unfinished_split_is_dropped() -> None:
    folder = folder_with_segments()
    put(folder, log_name(4, names.CLEANED), cleaned(4))
    put(folder, log_name(8, names.SWAP), cleaned(8))
    log = folder.open(was_clean=True)
    assert log.segments.base_offsets == [0, 4, 8, 12]
    assert log.segments[2].size == 4 * SIZE


def test_crash_at_any_step_is_finished_by_the_next_start() -> None:
    number = 0
    while True:
        number += 1
        folder = folder_with_segments()
        put(folder, log_name(0, names.SWAP), cleaned(1, 5, 7))
        put(folder, names.file_name(0, names.OFFSET_INDEX) + names.SWAP, b"")
        put(folder, log_name(50, names.CLEANED), b"half")
        set_aside(folder, (0, 4))
        folder.files.fail_operation(number, OSError(5, "refused"))
        try:
            folder.open()
            was_refused = False
        except OSError:
            was_refused = True
        folder.files._failures.clear()
        log = folder.open()
        log.check()
        assert log.segments.base_offsets == [0, 8, 12], number
        assert read_all(log)[: 3 * SIZE] == cleaned(1, 5, 7)
        if not was_refused:
            break
    assert number > 8


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :]


# Of three batches, with the offsets 1, 5 and 7; the first two, or all of them, are not damaged.
FLAWS: dict[str, tuple[Callable[[bytes], bytes], bytes]] = {
    "a record": (lambda data: flipped(data, -3), cleaned(1, 5)),
    "the length": (lambda data: flipped(data, 2 * SIZE + 9), cleaned(1, 5)),
    "a great base offset": (lambda data: flipped(data, 2 * SIZE), cleaned(1, 5)),
    "an offset in the active segment": (lambda data: data[:-SIZE] + cleaned(12), cleaned(1, 5)),
    "an offset again": (lambda data: data[:-SIZE] + cleaned(5), cleaned(1, 5)),
    "the end": (lambda data: data[:-1], cleaned(1, 5)),
    "zeros after the end": (lambda data: data + bytes(100), cleaned(1, 5, 7)),
    "the first batch": (lambda data: flipped(data, 70), b""),
    "another format": (lambda data: flipped(data, SIZE + 16), cleaned(1)),
}


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("gone", [(), (4,)])
@pytest.mark.parametrize("flaw", FLAWS)
def test_damaged_swap_replaces_no_segment(
    flaw: str, gone: tuple[int, ...], was_clean: bool
) -> None:
    folder = folder_with_segments()
    former = read_all(folder.open(was_clean=True))
    put(folder, log_name(0, names.SWAP), FLAWS[flaw][0](cleaned(1, 5, 7)))
    put(folder, names.file_name(0, names.OFFSET_INDEX) + names.SWAP, b"")
    put(folder, names.file_name(0, names.TXN_INDEX) + names.SWAP, b"")
    for base_offset in gone:
        # Not what an interrupted cleaning leaves: what is there stays all the same.
        folder.files.remove(f"{FOLDER}/{log_name(base_offset)}")
    log = folder.open(was_clean=was_clean, recovery_point=14)
    assert log.segments.base_offsets == [each for each in (0, 4, 8, 12) if each not in gone]
    if not gone:
        assert read_all(log) == former
    assert not [name for name in folder.files.list(FOLDER) if name.endswith(names.SWAP)]
    # A checksum is compared only if segments would be replaced.
    is_warned = bool(gone) or flaw not in ("a record", "the first batch")
    assert [
        (event.place, event.is_warning) for event in folder.events if " stay" in event.text
    ] == [(f"{FOLDER}/{log_name(0, names.SWAP)}", is_warned)]


@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("gone", [(0,), (0, 4)])
def test_damaged_swap_is_used_when_what_it_was_made_of_is_gone(
    gone: tuple[int, ...], flaw: str
) -> None:
    folder = folder_with_segments()
    data = FLAWS[flaw][0](cleaned(1, 5, 7))
    put(folder, log_name(0, names.SWAP), data)
    set_aside(folder, gone)
    log = folder.open(was_clean=True, recovery_point=14)
    assert log.segments.base_offsets == [0, *(base for base in (4, 8, 12) if base not in gone)]
    assert folder.files.read(f"{FOLDER}/{log_name(0)}") in (data, data[:SIZE])
    is_used_whole = folder.files.read(f"{FOLDER}/{log_name(0)}") == data
    assert is_used_whole or gone == (0,)
    is_warned = any("nothing else is left" in text for text in folder.warnings())
    assert is_warned == (is_used_whole or flaw == "the first batch")


@pytest.mark.parametrize("flaw", ["none", "flawed", "old segment"])
def test_swaps_of_a_split(flaw: str) -> None:
    folder = folder_with_segments()
    second = cleaned(6, 7)
    put(folder, log_name(4, names.SWAP), cleaned(4, 5))
    put(folder, log_name(6, names.SWAP), flipped(second, -3) if flaw == "flawed" else second)
    put(folder, names.file_name(6, names.TIME_INDEX) + names.SWAP, b"")
    if flaw != "old segment":
        set_aside(folder, (4,))
    log = folder.open(was_clean=True)
    assert log.segments.base_offsets == (
        [0, 4, 8, 12] if flaw == "old segment" else [0, 4, 6, 8, 12]
    )
    assert len(folder.warnings()) == (flaw == "flawed")
    assert not [name for name in folder.files.list(FOLDER) if name.endswith(names.SWAP)]


def test_second_swap_of_a_split_is_used_when_the_first_has_its_name_already() -> None:
    folder = folder_with_segments()
    set_aside(folder, (4,))
    put(folder, log_name(4), cleaned(4, 5))
    put(folder, names.file_name(4, names.TIME_INDEX) + names.SWAP, b"\0" * 7 + b"\5" + b"\0\0\0\1")
    put(folder, log_name(6, names.SWAP), cleaned(6, 7))
    log = folder.open(was_clean=True)
    assert log.segments.base_offsets == [0, 4, 6, 8, 12]
    log.segments[1].load_indexes()
    assert log.segments[1].indexes.times.newest == (5, 5)


def test_swap_stays_beside_an_unfinished_file_when_what_it_was_made_of_is_gone() -> None:
    folder = folder_with_segments()
    put(folder, log_name(4, names.CLEANED), b"half")
    put(folder, log_name(4, names.SWAP), cleaned(4, 6))
    folder.files.remove(f"{FOLDER}/{log_name(4)}")
    log = folder.open(was_clean=True)
    assert log.segments.base_offsets == [0, 4, 8, 12]
    assert folder.files.read(f"{FOLDER}/{log_name(4)}") == cleaned(4, 6)
    assert not [name for name in folder.files.list(FOLDER) if name.count(".") > 1]
