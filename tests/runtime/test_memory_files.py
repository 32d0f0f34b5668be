"""The file system in memory: crashes, and failures of chosen operations."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness

SEEDS = range(60)


def file_system(capacity_bytes: int = 1 << 62) -> MemoryFileSystem:
    return MemoryFileSystem(folders=("/data",), capacity_bytes=capacity_bytes)


def test_synced_content_survives_every_crash() -> None:
    for seed in SEEDS:
        files = file_system()
        file = files.open("/data/log", create=True)
        file.append([b"durable"])
        file.sync()
        files.sync_directory("/data")
        file.append([b" and not"])
        files.crash(SeededRandomness(seed))
        assert files.read("/data/log").startswith(b"durable")


def test_crash_keeps_a_prefix_of_the_writes_and_may_tear_the_last() -> None:
    seen = set()
    for seed in range(300):
        files = file_system()
        file = files.open("/data/log", create=True)
        files.sync_directory("/data")
        file.append([b"aaaa"])
        file.append([b"bbbb"])
        files.crash(SeededRandomness(seed))
        seen.add(files.read("/data/log"))
    assert {b"", b"a", b"aa", b"aaa", b"aaaa", b"aaaab", b"aaaabbb", b"aaaabbbb"} <= seen
    # Blocks that were claimed and not written read as zeros.
    assert b"aa\0\0" in seen
    assert b"aaaa\0\0\0\0" in seen
    assert all(
        content.rstrip(b"\0") == b"aaaabbbb"[: len(content.rstrip(b"\0"))] for content in seen
    )


def test_same_seed_crashes_the_same_way() -> None:
    def content(seed: int) -> list[tuple[str, bytes]]:
        files = file_system()
        for name in "abcdef":
            file = files.open(f"/data/{name}", create=True)
            file.append([name.encode() * 100])
        files.crash(SeededRandomness(seed))
        return [(name, files.read(f"/data/{name}")) for name in files.list("/data")]

    assert [content(seed) for seed in SEEDS] == [content(seed) for seed in SEEDS]
    assert len({str(content(seed)) for seed in SEEDS}) > 10


def test_synced_file_in_an_unsynced_folder_may_be_lost() -> None:
    seen = set()
    for seed in SEEDS:
        files = file_system()
        file = files.open("/data/log", create=True)
        file.append([b"x"])
        file.sync()
        files.crash(SeededRandomness(seed))
        seen.add(files.exists("/data/log"))
    assert seen == {True, False}


def test_new_folder_is_lost_unless_its_parent_was_synced() -> None:
    seen = set()
    for seed in SEEDS:
        files = file_system()
        files.make_directory("/data/topic-0")
        files.sync_directory("/data/topic-0")
        files.crash(SeededRandomness(seed))
        assert files.is_directory("/data")
        seen.add(files.exists("/data/topic-0"))
    assert seen == {True, False}


def test_rename_is_kept_whole_or_not_at_all() -> None:
    seen = set()
    for seed in SEEDS:
        files = file_system()
        files.replace("/data/checkpoint", b"old")
        file = files.open("/data/checkpoint.tmp", create=True)
        file.append([b"new"])
        file.sync()
        files.sync_directory("/data")
        files.rename("/data/checkpoint.tmp", "/data/checkpoint")
        files.crash(SeededRandomness(seed))
        seen.add((tuple(files.list("/data")), files.read("/data/checkpoint")))
    assert seen == {(("checkpoint",), b"new"), (("checkpoint", "checkpoint.tmp"), b"old")}


def test_move_between_folders_never_loses_the_file() -> None:
    for seed in SEEDS:
        files = MemoryFileSystem(folders=("/one", "/two"))
        file = files.open("/one/log", create=True)
        file.append([b"x"])
        file.sync()
        files.sync_directory("/one")
        files.open("/two/other", create=True).close()
        files.rename("/one/log", "/two/log")
        if seed % 2:
            files.sync_directory("/one")
            assert files.exists("/two/log")
        files.crash(SeededRandomness(seed))
        assert files.exists("/one/log") != files.exists("/two/log")
        if seed % 2:
            assert files.exists("/two/log")


def test_removed_name_may_come_back_with_its_durable_content() -> None:
    seen = set()
    for seed in SEEDS:
        files = file_system()
        files.replace("/data/log", b"content")
        files.remove("/data/log")
        files.crash(SeededRandomness(seed))
        seen.add(files.read("/data/log") if files.exists("/data/log") else None)
    assert seen == {b"content", None}


def test_replace_is_durable_when_it_returns() -> None:
    for seed in SEEDS:
        files = file_system()
        files.replace("/data/checkpoint", b"one")
        files.replace("/data/checkpoint", b"two")
        files.crash(SeededRandomness(seed))
        assert files.read("/data/checkpoint") == b"two"
        assert files.list("/data") == ["checkpoint"]


def test_replace_that_fails_anywhere_leaves_old_or_new_after_a_crash() -> None:
    for operation in range(1, 7):
        for seed in range(10):
            files = file_system()
            files.replace("/data/checkpoint", b"old")
            files.fail_operation(operation, OSError(errno.EIO, "failed"))
            with pytest.raises(OSError, match="failed"):
                files.replace("/data/checkpoint", b"new")
            files.crash(SeededRandomness(seed))
            assert files.read("/data/checkpoint") in (b"old", b"new")


def test_nth_operation_fails_and_only_that() -> None:
    files = file_system()
    file = files.open("/data/log", create=True)
    assert files.operations == 1
    files.fail_operation(2, OSError(errno.EIO, "failed"))
    file.append([b"first"])
    with pytest.raises(OSError, match="failed"):
        file.append([b"half", b"lost"])
    file.append([b"third"])
    assert files.operations == 4
    assert files.read("/data/log") == b"firsthalfthird"


def test_fail_operation_raises_the_given_error() -> None:
    files = file_system()
    files.fail_operation(1, PermissionError(errno.EACCES, "not yours"))
    with pytest.raises(PermissionError) as caught:
        files.open("/data/log", create=True)
    assert caught.value.errno == errno.EACCES
    assert caught.value.filename == "/data/log"
    assert not files.exists("/data/log")


def test_writes_before_a_failed_sync_are_never_durable() -> None:
    for seed in SEEDS:
        files = file_system()
        file = files.open("/data/log", create=True)
        files.sync_directory("/data")
        file.append([b"lost"])
        files.fail_operation(1, OSError(errno.EIO, "failed"))
        with pytest.raises(OSError, match="failed"):
            file.sync()
        assert file.read_at(0, 10) == b"lost"
        file.append([b"kept"])
        file.sync()
        files.crash(SeededRandomness(seed))
        assert files.read("/data/log") == b"\0\0\0\0kept"


def test_full_disk_keeps_what_fits_and_accepts_writes_when_there_is_space() -> None:
    files = file_system(capacity_bytes=10)
    file = files.open("/data/log", create=True)
    file.append([b"12345678"])
    assert files.space("/data") == (10, 2)
    with pytest.raises(OSError, match="No space") as caught:
        file.append([b"abc", b"def"])
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(0, 100) == b"12345678ab"
    file.truncate(8)
    file.write_at(0, b"overwrite")
    assert file.size() == 9
    with pytest.raises(OSError, match="No space"):
        file.truncate(11)
    files.capacity_bytes = 20
    file.append([b"abcdef"])
    assert files.read("/data/log") == b"overwriteabcdef"


def test_removed_file_uses_space_until_it_is_closed() -> None:
    files = file_system(capacity_bytes=10)
    file = files.open("/data/log", create=True)
    file.append([b"123456"])
    files.remove("/data/log")
    assert files.used_bytes() == 6
    file.close()
    assert files.used_bytes() == 0


def test_crash_ends_open_files_and_locks() -> None:
    files = file_system()
    file = files.open("/data/log", create=True)
    files.lock("/data/.lock")
    files.crash(SeededRandomness(1))
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append([b"from the dead"])
    files.lock("/data/.lock").release()


def test_times_of_change_come_from_the_given_clock() -> None:
    now = [1000]
    files = MemoryFileSystem(folders=("/data",), now_ms=lambda: now[0])
    file = files.open("/data/log", create=True)
    now[0] = 2000
    file.append([b"x"])
    assert files.modified_ms("/data/log") == 2000


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.binary(max_size=9)),
            st.tuples(st.just("write"), st.tuples(st.integers(0, 12), st.binary(max_size=5))),
            st.tuples(st.just("truncate"), st.integers(0, 20)),
            st.tuples(st.just("sync"), st.none()),
        ),
        max_size=20,
    ),
    st.integers(0, 1000),
)
def test_after_a_crash_a_file_is_what_it_was_after_some_change_since_the_sync(
    acts: list[tuple[str, object]], seed: int
) -> None:
    files = file_system()
    file = files.open("/data/log", create=True)
    files.sync_directory("/data")
    possible = [b""]
    for kind, argument in acts:
        if kind == "append":
            assert isinstance(argument, bytes)
            file.append([argument])
        elif kind == "write":
            assert isinstance(argument, tuple)
            file.write_at(*argument)
        elif kind == "truncate":
            assert isinstance(argument, int)
            file.truncate(argument)
        else:
            file.sync()
            possible.clear()
        possible.append(file.read_at(0, 1000))
    files.crash(SeededRandomness(seed))
    content = files.read("/data/log")
    # A torn write shows a prefix of the new bytes, then those of before or zeros.
    assert content in possible or any(
        _is_between(content, before, after) for before, after in pairwise(possible)
    )


def _is_between(content: bytes, before: bytes, after: bytes) -> bool:
    if not min(len(before), len(after)) <= len(content) <= max(len(before), len(after)):
        return False
    return all(
        byte in (before[index : index + 1] or b"\0")
        or byte in (after[index : index + 1] or b"\0")
        or byte == 0
        for index, byte in enumerate(content)
    )
