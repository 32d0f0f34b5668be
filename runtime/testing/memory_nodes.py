"""The nodes of `memory_files`: files and folders that know which of their changes are durable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from odradek.runtime.randomness import Randomness


class CrashOutcome(Protocol):
    """Decides what a power failure leaves of changes that were not synced.

    It is called for the changes of names first, in their order, then for each file.
    """

    def is_name_kept(self) -> bool:
        """Whether the next creation, rename or removal is durable.

        False: none that follows in the same folder is.
        """

    def changes_kept(self, count: int) -> int:
        """How many of the next file's `count` writes and truncations are durable, 0..`count`; the
        one after them is torn."""

    def torn(self, size: int) -> tuple[int, bool]:
        """What a torn write of `size` bytes leaves: (durable bytes, whether zeros follow)."""


class RandomOutcome:
    """Anything that is possible, by chance."""

    def __init__(self, rng: Randomness) -> None:
        self._rng = rng

    def is_name_kept(self) -> bool:
        """Two times of three."""
        return self._rng.below(3) != 0

    def changes_kept(self, count: int) -> int:
        """Any number."""
        return self._rng.below(count + 1)

    def torn(self, size: int) -> tuple[int, bool]:
        """Anywhere; XFS and ext4 may have extended the file before they write the blocks."""
        return self._rng.below(size), self._rng.below(4) == 0


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

    def copied(self, copies: dict[int, FileNode | Directory]) -> FileNode:
        """A copy with the same changes pending, once for each node in `copies`."""
        existing = copies.get(id(self))
        if isinstance(existing, FileNode):
            return existing
        copy = FileNode(self.modified_ms)
        copies[id(self)] = copy
        copy.content[:] = self.content
        copy._durable[:] = self._durable
        copy._pending[:] = self._pending
        return copy

    def crash(self, outcome: CrashOutcome) -> None:
        """Keep what is durable and a prefix of the changes since, the last one torn."""
        kept = outcome.changes_kept(len(self._pending))
        for change in self._pending[:kept]:
            _apply(self._durable, change)
        if kept < len(self._pending):
            torn = self._pending[kept]
            if isinstance(torn, _Write):
                size, has_zeros = outcome.torn(len(torn.data))
                written = torn.data[:size]
                if has_zeros:
                    written = written.ljust(len(torn.data), b"\0")
                if written:
                    _apply(self._durable, _Write(torn.position, written))
        self.content = bytearray(self._durable)
        self._pending.clear()


def _apply(content: bytearray, change: _Change) -> None:
    if isinstance(change, _Truncate):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    position, data = change
    if position == len(content):
        content += data
        return
    content.extend(bytes(max(0, position - len(content))))
    content[position : position + len(data)] = data


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

    def copied(self, copies: dict[int, FileNode | Directory]) -> Directory:
        """A copy (`FileNode.copied`)."""
        existing = copies.get(id(self))
        if isinstance(existing, Directory):
            return existing
        copy = Directory(self.modified_ms)
        copies[id(self)] = copy
        copy.entries = {name: node.copied(copies) for name, node in self.entries.items()}
        copy.durable_entries = {
            name: node.copied(copies) for name, node in self.durable_entries.items()
        }
        return copy

    def crash(self, outcome: CrashOutcome) -> None:
        """Go back to the durable names, and everything below to its durable content."""
        self.entries = dict(self.durable_entries)
        for _, node in sorted(self.entries.items()):
            node.crash(outcome)


class _EntryChange(NamedTuple):
    """Names to take away, then names to set; happens as a whole or not at all."""

    removed: tuple[tuple[Directory, str], ...]
    added: tuple[tuple[Directory, str, FileNode | Directory], ...]

    def directories(self) -> list[Directory]:
        """The folders in which it removes or adds names."""
        return [
            *(directory for directory, _ in self.removed),
            *(directory for directory, _, _ in self.added),
        ]

    def copied(self, copies: dict[int, FileNode | Directory]) -> _EntryChange:
        """This change, made to the copies."""
        return _EntryChange(
            tuple((directory.copied(copies), name) for directory, name in self.removed),
            tuple(
                (directory.copied(copies), name, node.copied(copies))
                for directory, name, node in self.added
            ),
        )

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

    def copied(self, copies: dict[int, FileNode | Directory]) -> Journal:
        """These changes, made to the copies."""
        copy = Journal()
        copy._pending = [change.copied(copies) for change in self._pending]
        return copy

    def unlink_tree(self, directory: Directory, name: str, before: Callable[[], None]) -> None:
        """Take a folder's name away, the names inside first; `before` is called before each."""
        node = directory.entries[name]
        if isinstance(node, Directory):
            for inner in sorted(node.entries):
                self.unlink_tree(node, inner, before)
        before()
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

    def crash(self, outcome: CrashOutcome) -> None:
        """Let a prefix of each folder's changes be durable after all."""
        cut: set[int] = set()
        for change in self._pending:
            places = [id(place) for place in change.directories()]
            if not cut.isdisjoint(places) or not outcome.is_name_kept():
                cut.update(places)
            else:
                change.apply_durable()
        self._pending.clear()
