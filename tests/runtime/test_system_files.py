"""File systems: the tests of both, the host's and the one in memory; then those of the host's."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.runtime.files import FileSystem
from odradek.runtime.system_files import SystemFileSystem
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.unsynced_files import UnsyncedFileSystem


@pytest.fixture(params=["system", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system and an empty folder in it."""
    if request.param == "system":
        return SystemFileSystem(), str(tmp_path)
    return MemoryFileSystem(folders=("/data",)), "/data"


def test_appends_are_read_back_at_any_position(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    file = files.open(f"{folder}/log", create=True)
    assert file.append([b"abc"]) == 3
    assert file.append([bytearray(b"de"), memoryview(b"fgh"), b""]) == 5
    assert file.size() == 8 == files.size(f"{folder}/log")
    assert file.read_at(2, 3) == b"cde"
    assert file.read_at(6, 100) == b"gh"
    assert file.read_at(8, 1) == b""
    assert files.read(f"{folder}/log") == b"abcdefgh"
    assert file.append([]) == 0
    file.close()


def test_more_chunks_than_one_system_call_takes_are_all_written(
    place: tuple[FileSystem, str],
) -> None:
    files, folder = place
    file = files.open(f"{folder}/log", create=True)
    chunks = [bytes([number % 256]) * (number % 3) for number in range(5000)]
    assert file.append(chunks) == sum(map(len, chunks))
    assert files.read(f"{folder}/log") == b"".join(chunks)
    file.close()


def test_opened_file_keeps_its_content_and_is_appended_to(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    first = files.open(f"{folder}/log", create=True)
    first.append([b"one"])
    second = files.open(f"{folder}/log")
    second.append([b"two"])
    assert first.size() == 6
    assert first.read_at(0, 6) == b"onetwo"
    assert first.path == f"{folder}/log"
    first.close()
    second.close()


def test_truncate_cuts_and_extends_with_zeros(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    file = files.open(f"{folder}/index", create=True)
    file.append([b"abcdef"])
    file.truncate(2)
    file.append([b"x"])
    file.truncate(5)
    assert file.read_at(0, 10) == b"abx\0\0"
    file.close()


def test_open_file_is_usable_after_rename_and_removal(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    file = files.open(f"{folder}/log", create=True)
    file.append([b"before"])
    files.rename(f"{folder}/log", f"{folder}/log.deleted")
    file.append([b" renamed"])
    assert files.read(f"{folder}/log.deleted") == b"before renamed"
    files.remove(f"{folder}/log.deleted")
    file.append([b" removed"])
    file.sync()
    assert file.read_at(0, 100) == b"before renamed removed"
    assert not files.exists(f"{folder}/log.deleted")
    file.close()


def test_closing_twice_is_allowed_and_using_a_closed_file_is_not(
    place: tuple[FileSystem, str],
) -> None:
    files, folder = place
    file = files.open(f"{folder}/log", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        file.append([b"late"])
    assert caught.value.errno == errno.EBADF
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()


def test_absent_path_raises_file_not_found(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    missing = f"{folder}/missing"
    acts: list[Callable[[], object]] = [
        lambda: files.open(missing),
        lambda: files.open(f"{missing}/below", create=True),
        lambda: files.size(missing),
        lambda: files.modified_ms(missing),
        lambda: files.set_modified_ms(missing, 5),
        lambda: files.list(missing),
        lambda: files.list_files(missing),
        lambda: files.rename(missing, f"{folder}/other"),
        lambda: files.remove(missing),
        lambda: files.remove_tree(missing),
        lambda: files.sync_directory(missing),
        lambda: files.read(missing),
        lambda: files.replace(f"{missing}/below", b""),
    ]
    for act in acts:
        with pytest.raises(FileNotFoundError):
            act()
    assert not files.exists(missing)
    assert not files.is_directory(missing)


def test_is_directory_is_true_for_folders_only(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    files.make_directory(f"{folder}/topic-0/inner")
    files.make_directory(f"{folder}/topic-0")
    files.open(f"{folder}/file", create=True).close()
    assert files.list(folder) == ["file", "topic-0"]
    assert files.list_files(folder) == (["file"], ["topic-0"])
    assert files.list(f"{folder}/topic-0") == ["inner"]
    assert files.list_files(f"{folder}/topic-0") == ([], ["inner"])
    assert files.is_directory(f"{folder}/topic-0")
    assert files.exists(f"{folder}/file")
    assert not files.is_directory(f"{folder}/file")
    with pytest.raises(IsADirectoryError):
        files.open(f"{folder}/topic-0", create=True)
    with pytest.raises(OSError, match="directory"):
        files.remove(f"{folder}/topic-0")
    with pytest.raises(NotADirectoryError):
        files.list(f"{folder}/file")
    with pytest.raises(NotADirectoryError):
        files.sync_directory(f"{folder}/file")
    with pytest.raises(NotADirectoryError):
        files.remove_tree(f"{folder}/file")
    with pytest.raises(FileExistsError):
        files.make_directory(f"{folder}/file")


def test_rename_replaces_a_file_and_moves_a_folder_with_its_content(
    place: tuple[FileSystem, str],
) -> None:
    files, folder = place
    for name in ("a", "b"):
        with_name = files.open(f"{folder}/{name}", create=True)
        with_name.append([name.encode()])
        with_name.close()
    files.rename(f"{folder}/a", f"{folder}/b")
    assert files.list(folder) == ["b"]
    assert files.read(f"{folder}/b") == b"a"
    files.make_directory(f"{folder}/topic-0")
    files.rename(f"{folder}/b", f"{folder}/topic-0/log")
    files.rename(f"{folder}/topic-0", f"{folder}/topic-0.x-delete")
    assert files.read(f"{folder}/topic-0.x-delete/log") == b"a"
    files.make_directory(f"{folder}/full")
    with pytest.raises(OSError, match="not empty"):
        files.rename(f"{folder}/full", f"{folder}/topic-0.x-delete")
    with pytest.raises(NotADirectoryError):
        files.rename(f"{folder}/full", f"{folder}/topic-0.x-delete/log")
    files.remove_tree(f"{folder}/topic-0.x-delete")
    assert files.list(folder) == ["full"]


def test_times_of_change_can_be_set(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    file = files.open(f"{folder}/log", create=True)
    file.close()
    files.set_modified_ms(f"{folder}/log", 1_234_567_890_123)
    assert files.modified_ms(f"{folder}/log") == 1_234_567_890_123
    file = files.open(f"{folder}/log")
    file.append([b"x"])
    file.close()
    assert files.modified_ms(f"{folder}/log") != 1_234_567_890_123


def test_second_lock_raises_blocking_io_error(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    lock = files.lock(f"{folder}/.lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{folder}/.lock")
    lock.release()
    lock.release()
    files.lock(f"{folder}/.lock").release()
    assert files.list(folder) == [".lock"]


TRY_LOCK = """
import fcntl, os, sys
fd = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
try:
    getattr(fcntl, sys.argv[1])(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(3)
"""


def is_free(path: Path, how: str) -> bool:
    """Whether another process can lock the file, `lockf` as the JVM does or `flock`."""
    done = subprocess.run([sys.executable, "-I", "-c", TRY_LOCK, how, str(path)], check=False)
    assert done.returncode in (0, 3)
    return done.returncode == 0


def test_lock_excludes_record_locks_and_flocks_of_other_processes(tmp_path: Path) -> None:
    files, path = SystemFileSystem(), tmp_path / ".lock"
    lock = files.lock(str(path))
    assert not is_free(path, "lockf")
    assert not is_free(path, "flock")
    for _ in range(2):
        with pytest.raises(BlockingIOError):
            files.lock(str(path))
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(BlockingIOError):
        files.lock(str(tmp_path / "link"))
    assert not is_free(path, "lockf"), "a refused attempt in this process has dropped the lock"
    lock.release()
    assert is_free(path, "lockf")
    assert is_free(path, "flock")


@pytest.mark.parametrize("how", ["lockf", "flock"])
def test_lock_raises_when_another_process_has_a_record_lock_or_flock(
    tmp_path: Path, how: str
) -> None:
    path = tmp_path / ".lock"
    hold = TRY_LOCK + "print(flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-I", "-c", hold, how, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        with pytest.raises(BlockingIOError):
            SystemFileSystem().lock(str(path))
        assert owner.stdin is not None
        owner.stdin.close()
        assert owner.wait() == 0
    SystemFileSystem().lock(str(path)).release()


def test_child_processes_neither_release_a_lock_nor_inherit_it(tmp_path: Path) -> None:
    files, path = SystemFileSystem(), tmp_path / ".lock"
    lock = files.lock(str(path))
    subprocess.run([sys.executable, "-I", "-c", ""], check=True)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert not is_free(path, "lockf")
    with subprocess.Popen(
        [sys.executable, "-I", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as child_process:
        lock.release()
        assert is_free(path, "flock")
        assert is_free(path, "lockf")
        assert child_process.stdin is not None
        child_process.stdin.close()


def test_lock_is_taken_again_when_the_file_was_removed_meanwhile(tmp_path: Path) -> None:
    """Apache Kafka removes its file when it stops."""
    files, path = SystemFileSystem(), tmp_path / ".lock"
    first = files.lock(str(path))
    path.unlink()
    second = files.lock(str(path))
    first.release()
    assert not is_free(path, "lockf")
    second.release()


def test_replace_leaves_one_file_with_the_new_content(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    files.replace(f"{folder}/checkpoint", b"one")
    stale = files.open(f"{folder}/checkpoint.tmp", create=True)
    stale.append([b"what an earlier attempt left, longer than the next"])
    stale.close()
    files.replace(f"{folder}/checkpoint", b"two")
    assert files.read(f"{folder}/checkpoint") == b"two"
    assert files.list(folder) == ["checkpoint"]


def test_space_returns_total_and_usable_bytes(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    total, usable = files.space(folder)
    assert 0 < usable <= total


def test_only_host_files_have_a_descriptor(place: tuple[FileSystem, str]) -> None:
    files, folder = place
    file = files.open(f"{folder}/log", create=True)
    file.append([b"abc"])
    if isinstance(files, SystemFileSystem):
        assert os.pread(file.fileno(), 3, 0) == b"abc"
    else:
        assert file.fileno() == -1
    file.close()


def test_failed_replace_leaves_the_old_content_and_nothing_aside(tmp_path: Path) -> None:
    files = SystemFileSystem()
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(OSError, match="directory"):
        files.replace(str(tmp_path / "checkpoint"), b"new")
    assert files.list(str(tmp_path)) == ["checkpoint"]


def test_failed_write_of_a_replace_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    (tmp_path / "checkpoint.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        SystemFileSystem().replace(str(path), b"new")
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_short_write_is_continued_until_its_error_is_raised(tmp_path: Path) -> None:
    """In a child process: the limit of a file's size cannot be raised again."""
    code = (
        "import resource, signal, sys\n"
        "from odradek.runtime.system_files import SystemFileSystem\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "file = SystemFileSystem().open(sys.argv[1], create=True)\n"
        "for chunks in ([b'a' * 600], [b'b' * 300, b'c' * 300]):\n"
        "    try:\n"
        "        file.append(chunks)\n"
        "    except OSError as error:\n"
        "        print(error.errno, file.size())\n"
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        capture_output=True,
        check=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split() == [str(errno.EFBIG), "1000"]


def test_unsynced_files_sync_nothing_and_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise AssertionError("synced")

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "fdatasync", refuse)
    files, path = UnsyncedFileSystem(), str(tmp_path / "log")
    file = files.open(path, create=True)
    file.append([b"abc"])
    file.sync()
    file.close()
    files.sync_directory(str(tmp_path))
    assert files.read(path) == b"abc"
    files.replace(path, b"de")
    assert files.read(path) == b"de"
    with pytest.raises(AssertionError, match="synced"):
        SystemFileSystem().replace(path, b"fg")


def test_what_is_not_a_regular_file_is_listed_apart(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "link-to-folder").symlink_to(tmp_path / "folder")
    (tmp_path / "dangling").symlink_to(tmp_path / "missing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        others = ["dangling", "folder", "link-to-folder", "loop", "pipe", "socket"]
        assert SystemFileSystem().list_files(str(tmp_path)) == (["file", "link"], others)
