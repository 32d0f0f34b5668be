"""The files of an embedded tree in one folder: snapshots, and journals of what came after them.

    coordination.snapshot.<zxid>   the whole tree after this transaction
    coordination.journal.<zxid>    the transactions from this one on

A zxid has 20 digits, as Kafka's segments have.  The layout of the contents is in `journal.py`.
`coordination.snapshot` and `coordination.journal`, without a number, are read as the oldest.

Two snapshots are kept, and the journals that continue the older one: where the newest snapshot
cannot be read, the older one and the journals give the same tree.  A snapshot is written aside,
synced and renamed, after the journal that continues it was created.  Hence a tree that was read is
whole only if it reaches every number that a file bears; a file that is missing, or one that was cut
at the end of a transaction, is noticed by that.

Only the newest journal may end in the middle of an entry: that is what a crash leaves.  In an older
one, or where a whole entry comes after the damaged bytes, it is damage, and nothing is cut.
Source: ZooKeeper's FileTxnSnapLog, which names its files and falls back in the same way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Final

from odradek.controller.coordination.journal import (
    Entry,
    SessionClosing,
    SessionOpening,
    SnapshotDamaged,
    Transaction,
    decode_entries,
    decode_snapshot,
    encode_entry,
    encode_snapshot,
    holds_entry,
)
from odradek.controller.coordination.tree import Tree
from odradek.runtime.files import File, FileSystem

SNAPSHOT: Final = "coordination.snapshot"
JOURNAL: Final = "coordination.journal"
_DIGITS: Final = 20

WAYS_OUT: Final = (
    "restore the file from a backup, or rebuild the metadata from the folders of the topics: "
    "odradek recover-metadata"
)


class CoordinationDamaged(Exception):
    """The files do not give the tree; says which one, where, and what can be done."""

    def __init__(self, complaint: str) -> None:
        super().__init__(f"{complaint}; {WAYS_OUT}")
        self.complaint = complaint


@dataclass(frozen=True, slots=True)
class StateFile:
    """A snapshot, or a journal."""

    path: str
    number: int
    """Snapshot: the zxid of its last transaction.  Journal: that of its first one.  Without a
    number in the name: 1, which is the least that it can be."""

    @property
    def is_numbered(self) -> bool:
        """Whether the name has the number."""
        return self.path.rpartition(".")[2].isdecimal()


@dataclass(slots=True)
class Loaded:
    """A tree and the files that it was read from."""

    tree: Tree
    snapshot: StateFile | None
    """None: the journals begin with the first transaction."""
    journals: list[StateFile]
    """All that are there, oldest first."""
    good_bytes: int = 0
    """In the newest journal: up to the end of its last whole entry."""
    torn_bytes: int = 0
    """In the newest journal: what a crash has left after that."""
    entry_count: int = 0
    """Whole entries in the newest journal."""
    complaints: list[str] = field(default_factory=list)
    """Why a newer snapshot was passed over."""


def snapshot_path(folder: str, zxid: int) -> str:
    """Where the tree after a transaction is kept."""
    return f"{folder}/{SNAPSHOT}.{zxid:0{_DIGITS}d}"


def journal_path(folder: str, zxid: int) -> str:
    """Where the transactions from this one on are kept."""
    return f"{folder}/{JOURNAL}.{zxid:0{_DIGITS}d}"


def find_files(files: FileSystem, folder: str) -> tuple[list[StateFile], list[StateFile]]:
    """(snapshots, journals), oldest first.

    raises  OSError
    """
    names = files.list(folder)
    return _find(folder, names, SNAPSHOT), _find(folder, names, JOURNAL)


def _find(folder: str, names: Sequence[str], kind: str) -> list[StateFile]:
    found: list[StateFile] = []
    for name in names:
        digits = name[len(kind) + 1 :]
        if name == kind:
            found.append(StateFile(f"{folder}/{name}", 1))
        elif name.startswith(kind + ".") and len(digits) == _DIGITS and digits.isdecimal():
            found.append(StateFile(f"{folder}/{name}", int(digits)))
    return sorted(found, key=lambda one: one.number)


def read_tree(files: FileSystem, folder: str, now_ms: int) -> Loaded:
    """The tree that the files in `folder` hold; an empty one where there are none.

    Nothing is changed on the disk.
    raises  CoordinationDamaged; OSError
    cost    a few microseconds a node, and an entry
    """
    snapshots, journals = find_files(files, folder)
    return read_from(files, snapshots, journals, now_ms)


def read_from(
    files: FileSystem, snapshots: Sequence[StateFile], journals: Sequence[StateFile], now_ms: int
) -> Loaded:
    """The tree of these files: the newest snapshot that can be read, and the journals after it.

    raises  CoordinationDamaged; OSError
    """
    complaints: list[str] = []
    least_zxid = 0
    if snapshots:
        newest = snapshots[-1]
        least_zxid = newest.number
        if newest.is_numbered and all(one.number != least_zxid + 1 for one in journals):
            folder = newest.path.rpartition("/")[0]
            raise CoordinationDamaged(f"{journal_path(folder, least_zxid + 1)} is missing")
    for snapshot in (*reversed(snapshots), None):
        try:
            return _read_after(files, snapshot, journals, least_zxid, now_ms, complaints)
        except CoordinationDamaged as damaged:
            # That the journals do not begin with the first transaction says nothing new.
            if snapshot is not None or not complaints:
                complaints.append(damaged.complaint)
    raise CoordinationDamaged("; ".join(dict.fromkeys(complaints)))


def _read_after(
    files: FileSystem,
    snapshot: StateFile | None,
    journals: Sequence[StateFile],
    least_zxid: int,
    now_ms: int,
    complaints: list[str],
) -> Loaded:
    tree = Tree() if snapshot is None else read_snapshot(files, snapshot, now_ms)
    loaded = Loaded(tree, snapshot, list(journals), complaints=complaints)
    needed = [
        one
        for one, later in zip_longest(journals, journals[1:])
        if later is None or later.number > tree.zxid + 1
    ]
    for journal in needed:
        _replay(files, journal, loaded, is_newest=journal is needed[-1])
    if tree.zxid < least_zxid:
        last = needed[-1].path if needed else "nothing"
        raise CoordinationDamaged(
            f"{last} ends with transaction {tree.zxid}, and there was a snapshot of {least_zxid}"
        )
    return loaded


def read_snapshot(files: FileSystem, snapshot: StateFile, now_ms: int) -> Tree:
    """The tree that one snapshot holds.

    raises  CoordinationDamaged; OSError
    """
    content = files.read(snapshot.path)
    try:
        return decode_snapshot(content, now_ms)
    except SnapshotDamaged as error:
        raise CoordinationDamaged(
            f"{snapshot.path} ({len(content)} bytes) is damaged: {error}"
        ) from None


def _replay(files: FileSystem, journal: StateFile, loaded: Loaded, *, is_newest: bool) -> None:
    tree = loaded.tree
    if journal.number > tree.zxid + 1:
        raise CoordinationDamaged(
            f"transactions {tree.zxid + 1} to {journal.number - 1}, which come before "
            f"{journal.path}, are missing"
        )
    content = files.read(journal.path)
    good = count = 0
    for end, entry in decode_entries(content):
        if entry.zxid > tree.zxid + 1:
            raise CoordinationDamaged(
                f"{journal.path} does not continue the snapshot: transaction {entry.zxid} at byte "
                f"{good}, expected {tree.zxid + 1}"
            )
        if entry.zxid == tree.zxid + 1:
            replay_entry(tree, entry)
        good = end
        count += 1
    if good < len(content) and (not is_newest or holds_entry(content, good + 1)):
        raise CoordinationDamaged(
            f"{journal.path} ({len(content)} bytes) is damaged at byte {good}, and transactions "
            "that were acknowledged come after it"
        )
    loaded.good_bytes = good
    loaded.torn_bytes = len(content) - good
    loaded.entry_count = count


def replay_entry(tree: Tree, entry: Entry) -> None:
    """Do what an entry says."""
    match entry:
        case SessionOpening():
            tree.open_session(entry.timeout_ms, entry.now_ms)
            assert tree.last_session_id == entry.session_id, "replayed in order"
        case SessionClosing():
            tree.close_session(entry.session_id)
        case Transaction():
            tree.transact(entry.session_id, entry.operations, entry.now_ms)


class JournalWriter:
    """The newest journal, open for more entries."""

    def __init__(self, files: FileSystem, folder: str, loaded: Loaded) -> None:
        """Open or create; cuts a torn end off.

        raises  OSError
        """
        self._files = files
        self._folder = folder
        # Also of a file that is there: the process that created it may have been killed before.
        self._is_folder_synced = False
        path = loaded.journals[-1].path if loaded.journals else journal_path(folder, 1)
        self._file: File = files.open(path, create=True)
        self._size_bytes = loaded.good_bytes
        self.entry_count = loaded.entry_count
        if loaded.torn_bytes:
            self._file.truncate(loaded.good_bytes)

    @property
    def path(self) -> str:
        """The file."""
        return self._file.path

    def append(self, entry: Entry) -> None:
        """Write an entry; on failure the file is as it was.

        raises  OSError; CannotTakeBack when the file could not be cut back
        """
        encoded = encode_entry(entry)
        try:
            self._file.append((encoded,))
        except OSError as error:
            try:
                self._file.truncate(self._size_bytes)
            except OSError as second:
                raise CannotTakeBack(str(second)) from error
            raise
        self._size_bytes += len(encoded)
        self.entry_count += 1

    def sync(self) -> None:
        """Make everything appended so far durable; may run in a thread.

        raises  OSError, after which it must not be called again
        """
        self._file.sync()
        if not self._is_folder_synced:
            self._files.sync_directory(self._folder)
            self._is_folder_synced = True

    def rotate(self, first_zxid: int) -> None:
        """Go on in a new file; everything appended was synced.

        raises  OSError; the old file is kept in use then
        """
        fresh = self._files.open(journal_path(self._folder, first_zxid), create=True)
        assert fresh.size() == 0, "no earlier journal has begun with this transaction"
        self._file.close()
        self._file = fresh
        self._is_folder_synced = False
        self._size_bytes = 0
        self.entry_count = 0

    def close(self) -> None:
        """Release the file."""
        self._file.close()


class CannotTakeBack(Exception):
    """A failed write has left bytes in the journal that could not be cut off."""


def fold(files: FileSystem, folder: str, now_ms: int) -> StateFile:
    """Read all files but the newest journal, and write what they hold as a snapshot: the new one.

    May run in a thread while the newest journal is appended to.

    raises  OSError, CoordinationDamaged; what is there is then kept
    cost    that of a start, and two fsyncs
    """
    snapshots, journals = find_files(files, folder)
    loaded = read_from(files, snapshots, journals[:-1], now_ms)
    if loaded.tree.zxid != journals[-1].number - 1:
        raise CoordinationDamaged(
            f"the files before {journals[-1].path} end with transaction {loaded.tree.zxid}"
        )
    written = write_snapshot(files, folder, loaded.tree)
    purge(files, folder, written, loaded.snapshot)
    return written


def write_snapshot(files: FileSystem, folder: str, tree: Tree) -> StateFile:
    """Write a snapshot; the journal that continues it is there already.

    raises  OSError
    """
    files.sync_directory(folder)
    written = StateFile(snapshot_path(folder, tree.zxid), tree.zxid)
    files.replace(written.path, encode_snapshot(tree))
    return written


def purge(files: FileSystem, folder: str, newest: StateFile, base: StateFile | None) -> None:
    """Remove what neither the newest snapshot nor its predecessor needs.

    base    the snapshot that the newest one was made from: it could be read
    raises  OSError; a file that cannot be removed stays
    """
    snapshots, journals = find_files(files, folder)
    superfluous = [one.path for one in snapshots if one not in (newest, base)]
    least_zxid = 0 if base is None else base.number
    superfluous += [one.path for one, later in pairwise(journals) if later.number <= least_zxid + 1]
    for path in superfluous:
        with contextlib.suppress(OSError):
            files.remove(path)
