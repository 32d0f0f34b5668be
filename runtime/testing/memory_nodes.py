"""The nodes of `memory_files`: files and folders that know which of their changes are durable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.runtime.randomness import Randomness


class _Write(NamedTuple):
    position: int
    data: bytes


class _Truncate(NamedTuple):
    size: int


_Change = _Write | _Truncate


class FileNode:
    """The content of a file, as written and as durable."""

    __slots__ = ("_durable", "_pending", "content", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.content = bytearray()
        self.modified_ms = modified_ms
        self._durable = bytearray()
        self._pending: list[_Change] = []

    def write(self, position: int, data: bytes) -> None:
        """Change the content; not durable yet."""
        if data:
            self._change(_Write(position, data))

    def truncate(self, size: int) -> None:
        """Cut or extend with zeros; not durable yet."""
        self._change(_Truncate(size))

    def _change(self, change: _Change) -> None:
        _apply(self.content, change)
        self._pending.append(change)

    def sync(self) -> None:
        """All changes are durable."""
        for change in self._pending:
            _apply(self._durable, change)
        self._pending.clear()

    def forget_changes(self) -> None:
        """Earlier changes will never be durable; they stay visible until a crash."""
        self._pending.clear()

    def crash(self, rng: Randomness) -> None:
        """Keep what is durable and a prefix of the changes since, the last one torn."""
        kept = rng.below(len(self._pending) + 1)
        for change in self._pending[:kept]:
            _apply(self._durable, change)
        if kept < len(self._pending):
            torn = self._pending[kept]
            if isinstance(torn, _Write):
                written = torn.data[: rng.below(len(torn.data))]
                # XFS and ext4 may have extended the file before they write the blocks.
                if rng.below(4) == 0:
                    written = written.ljust(len(torn.data), b"\0")
                if written:
                    _apply(self._durable, _Write(torn.position, written))
        self.content = bytearray(self._durable)
        self._pending.clear()


def _apply(content: bytearray, change: _Change) -> None:
    if isinstance(change, _Truncate):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
    else:
        content.extend(bytes(max(0, change.position - len(content))))
        content[change.position : change.position + len(change.data)] = change.data


class Directory:
    """The names in a folder, as they are and as they are on the disk."""

    __slots__ = ("durable_entries", "entries", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.entries: dict[str, FileNode | Directory] = {}
        self.durable_entries: dict[str, FileNode | Directory] = {}
        self.modified_ms = modified_ms

    def files(self) -> Iterator[FileNode]:
        """All files below."""
        for node in self.entries.values():
            if isinstance(node, Directory):
                yield from node.files()
            else:
                yield node

    def crash(self, rng: Randomness) -> None:
        """Go back to the durable names, and everything below to its durable content."""
        self.entries = dict(self.durable_entries)
        for _, node in sorted(self.entries.items()):
            node.crash(rng)


class _EntryChange(NamedTuple):
    """Names to take away, then names to set; happens as a whole or not at all."""

    removed: tuple[tuple[Directory, str], ...]
    added: tuple[tuple[Directory, str, FileNode | Directory], ...]

    def directories(self) -> list[Directory]:
        """The folders it touches."""
        return [
            *(directory for directory, _ in self.removed),
            *(directory for directory, _, _ in self.added),
        ]

    def apply_durable(self) -> None:
        """Let it have reached the disk."""
        for directory, name in self.removed:
            directory.durable_entries.pop(name, None)
        for directory, name, node in self.added:
            directory.durable_entries[name] = node


class Journal:
    """Changes of names since their folders were synced, in order."""

    def __init__(self) -> None:
        self._pending: list[_EntryChange] = []

    def link(self, directory: Directory, name: str, node: FileNode | Directory) -> None:
        """Give a new node its name."""
        directory.entries[name] = node
        self._pending.append(_EntryChange((), ((directory, name, node),)))

    def unlink(self, directory: Directory, name: str) -> None:
        """Take a name away."""
        del directory.entries[name]
        self._pending.append(_EntryChange(((directory, name),), ()))

    def unlink_tree(self, directory: Directory, name: str) -> None:
        """Take a folder's name away, the names inside first."""
        node = directory.entries[name]
        if isinstance(node, Directory):
            for inner in sorted(node.entries):
                self.unlink_tree(node, inner)
        self.unlink(directory, name)

    def rename(self, source: Directory, old: str, target: Directory, new: str) -> None:
        """Move a name; a folder may hold both."""
        node = source.entries.pop(old)
        target.entries[new] = node
        self._pending.append(_EntryChange(((source, old),), ((target, new, node),)))

    def sync(self, directory: Directory) -> None:
        """What happened in the folder is durable, with all that came before it there."""
        touched = {id(directory)}
        kept: list[_EntryChange] = []
        left: list[_EntryChange] = []
        # Backwards, so that a move between two folders brings along what the other one did before.
        for change in reversed(self._pending):
            places = [id(place) for place in change.directories()]
            if touched.isdisjoint(places):
                left.append(change)
            else:
                touched.update(places)
                kept.append(change)
        for change in reversed(kept):
            change.apply_durable()
        self._pending = left[::-1]

    def sync_all(self) -> None:
        """What happened in any folder is durable."""
        for change in self._pending:
            change.apply_durable()
        self._pending.clear()

    def crash(self, rng: Randomness) -> None:
        """Let a prefix of each folder's changes be durable after all."""
        cut: set[int] = set()
        for change in self._pending:
            places = [id(place) for place in change.directories()]
            if not cut.isdisjoint(places) or rng.below(3) == 0:
                cut.update(places)
            else:
                change.apply_durable()
        self._pending.clear()
