from __future__ import annotations

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.files.descriptors import Descriptors, FileSlice, Handle
from odradek.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, LogFolder, append, batch, read_all

SIZE = batch(1).size


def handles(count: int, open_max: int) -> tuple[Descriptors, list[Handle]]:
    files = MemoryFileSystem()
    shared = Descriptors(files, open_max=open_max)
    made = []
    for number in range(count):
        files.open(f"/{number}", create=True).close()
        made.append(Handle(shared, f"/{number}"))
    return shared, made


def is_open(handle: Handle) -> bool:
    return handle.file is not None


def test_no_more_files_are_open_than_allowed() -> None:
    shared, made = handles(10, 3)
    for handle in made * 2:
        assert handle.use().path == handle.path
        assert shared.open_count <= 3


def test_file_used_since_the_last_look_is_passed_over_once() -> None:
    _, (first, second, third, fourth) = handles(4, 3)
    for handle in (first, second, third):
        handle.use()
    fourth.use()
    assert first.file is None
    second.use()
    first.use()
    assert second.file is not None
    assert third.file is None


def test_files_of_slices_stay_open_until_the_last_slice_is_released() -> None:
    shared, (first, second, third) = handles(3, 1)
    of_first = [FileSlice(first, 0, 1) for _ in range(2)]
    of_second = FileSlice(second, 0, 1)
    third.use()
    assert shared.open_count == 3
    first.close()
    of_first[0].release()
    assert is_open(first)
    of_first[0].release()
    assert is_open(first), "a second release of the same slice changes nothing"
    of_first[1].release()
    assert not is_open(first)
    of_second.release()
    assert is_open(second), "not closed by its owner: it waits for its turn"


def test_five_hundred_segments_need_few_descriptors() -> None:
    folder = LogFolder(
        config=LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=0), open_max=20
    )
    log = folder.open()
    for each in range(1_500):
        append(log, batch(NOW_MS + each))
    assert len(log.segments) == 500
    everything = read_all(log)
    assert folder.descriptors.open_count <= 20
    log.close(NOW_MS)
    log = folder.open(was_clean=True)
    assert folder.descriptors.open_count <= 2
    assert read_all(log) == everything
    for offset in range(0, 1_500, 17):
        position = log.offset_for_timestamp(NOW_MS + offset, up_to_offset=1_500)
        assert position == (offset, NOW_MS + offset, 0)
    assert folder.descriptors.open_count <= 20
    held = [log.read(offset, 1, up_to_offset=1_500) for offset in range(0, 1_500, 30)]
    assert folder.descriptors.open_count <= 20 + len(held)
    for piece in held:
        assert piece is not None
        assert len(piece.read()) == SIZE
        piece.release()
    log.abandon()
    assert folder.descriptors.open_count == 0
