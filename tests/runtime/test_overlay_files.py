"""An overlay behaves as the file system below it would, and leaves that as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.overlay_files import REMOVED, RENAMED, TRUNCATED, WRITTEN, OverlayFileSystem
from odradek.runtime.read_only_files import ReadOnlyFileSystem
from odradek.runtime.testing.memory_files import MemoryFileSystem

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), names, st.binary(max_size=9)),
        st.tuples(st.just("truncate"), names, st.integers(0, 30)),
        st.tuples(st.just("replace"), names, st.binary(max_size=20)),
        st.tuples(st.just("remove"), names),
        st.tuples(st.just("rename"), names, names),
        st.tuples(st.just("create"), names),
        st.tuples(st.just("move folder")),
    ),
    max_size=12,
)


def overlay_of(files: MemoryFileSystem) -> OverlayFileSystem:
    return OverlayFileSystem(files, MemoryFileSystem().open("/spill", create=True))


def given_files() -> MemoryFileSystem:
    files = MemoryFileSystem(folders=("/d",))
    files.replace("/d/a", b"0123456789")
    files.replace("/d/b", b"")
    return files


def perform(files: MemoryFileSystem | OverlayFileSystem, words: tuple[object, ...]) -> object:
    """The outcome of one operation: None, or the type of its error."""
    folder = "/d" if files.is_directory("/d") else "/e"
    kind, *rest = words
    paths = [f"{folder}/{name}" for name in rest if isinstance(name, str)]
    try:
        match kind, rest:
            case "append", [_, bytes(data)]:
                files.open(paths[0]).append([data, b"!"])
            case "truncate", [_, int(size)]:
                files.open(paths[0]).truncate(size)
            case "replace", [_, bytes(data)]:
                files.replace(paths[0], data)
            case "remove", _:
                files.remove(paths[0])
            case "rename", _:
                files.rename(*paths)
            case "create", _:
                files.open(paths[0], create=True)
            case _:
                files.rename(folder, "/e" if folder == "/d" else "/d")
    except FileNotFoundError as error:
        return type(error)
    return None


def state(files: MemoryFileSystem | OverlayFileSystem) -> dict[str, tuple[int, bytes, bytes]]:
    """Per path: size, content, and some bytes of the middle."""
    folder = "/d" if files.is_directory("/d") else "/e"
    contents = {}
    for name in files.list(folder):
        path = f"{folder}/{name}"
        assert files.exists(path)
        contents[path] = (files.size(path), files.read(path), files.open(path).read_at(3, 8))
    assert [name for name in NAMES if files.exists(f"{folder}/{name}")] == files.list(folder)
    assert files.list_files(folder) == (files.list(folder), [])
    return contents


@given(operations)
def test_overlay_reads_as_a_file_system_that_was_changed(steps: list[tuple[object, ...]]) -> None:
    base, changed = given_files(), given_files()
    overlay = overlay_of(base)
    for step in steps:
        if step[0] == "rename" and step[1] == step[2]:
            continue
        assert perform(overlay, step) == perform(changed, step), step
        assert state(overlay) == state(changed)
    assert state(base) == state(given_files())


def test_changes_are_listed_in_their_order() -> None:
    overlay = overlay_of(given_files())
    overlay.open("/d/a").truncate(4)
    overlay.open("/d/a").append([b"xy"])
    overlay.open("/d/a").append([b"z"])
    overlay.rename("/d/a", "/d/c")
    overlay.remove("/d/b")
    changes = [
        (change.kind, change.path, change.size, change.former_size) for change in overlay.changes
    ]
    assert changes == [
        (TRUNCATED, "/d/a", 4, 10),
        (WRITTEN, "/d/a", 7, 0),
        (RENAMED, "/d/a", 0, 0),
        (REMOVED, "/d/b", 0, 0),
    ]
    assert overlay.read("/d/c") == b"0123xyz"


def test_read_only_file_system_refuses_every_change(tmp_path: object) -> None:
    files = ReadOnlyFileSystem()
    path = f"{tmp_path}/a"
    changes = (
        lambda: files.open(path, create=True),
        lambda: files.replace(path, b"x"),
        lambda: files.make_directory(path),
        lambda: files.remove(path),
        lambda: files.remove_tree(path),
        lambda: files.rename(path, f"{path}b"),
        lambda: files.set_modified_ms(path, 1),
    )
    for change in changes:
        with pytest.raises(OSError, match="Read-only file system"):
            change()
    assert files.list(str(tmp_path)) == []
