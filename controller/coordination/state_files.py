"""The files of an embedded tree in one folder: snapshots, and journals of later transactions.

    coordination.snapshot.<zxid>   the whole tree after this transaction
    coordination.journal.<zxid>    the transactions from this one on

A zxid has 20 digits, as Kafka's segments have.  The layout of the contents is in `journal.py`.
`coordination.snapshot` and `coordination.journal`, without a number, are read as the oldest.

Two snapshots are kept, and the journals that continue the older one: if the newest snapshot cannot
be read, the older one and the journals result in the same tree.  A snapshot is written to a
temporary file, synced and renamed, after the journal that continues it was created.  So a tree that
was read is complete only if its zxid reaches the number in the name of every file; this detects a
missing file, and one that was cut at the end of a transaction.

Only the newest journal may end in the middle of an entry: a crash leaves it so.  In an older one,
or if a complete entry follows, it is damage, and nothing is cut.
Source: ZooKeeper's FileTxnSnapLog, which names its files and falls back in the same way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

from odradek.controller.coordination.journal import (
    JournalEntry,
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
from odradek.controller.coordination.tree import CLIENT_SESSION, Tree
from odradek.runtime.files import File, FileSystem

SNAPSHOT: Final = "coordination.snapshot"
JOURNAL: Final = "coordination.journal"
_DIGITS: Final = 20

REMEDIES: Final = (
    "restore the file from a backup, or rebuild the metadata from the folders of the topics: "
    "odradek recover-metadata"
)


class CoordinationDamaged(Exception):
    """The tree cannot be read; the text names the file, the position, and the remedies."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; {REMEDIES}")
        self.problem = problem


class StateFile(NamedTuple):
    """A snapshot or a journal."""

    path: str
    number: int
    """Snapshot: the zxid of its last transaction.  Journal: the zxid of its first one.  1 when the
    name has no number, which is the least possible."""

    @property
    def is_numbered(self) -> bool:
        return self.path.rpartition(".")[2].isdecimal()


class LoadedTree:
    """A tree and the files that it was read from."""

    __slots__ = (
        "entry_count",
        "good_bytes",
        "journals",
        "problems",
        "snapshot",
        "torn_bytes",
        "tree",
    )

    def __init__(
        self, tree: Tree, snapshot: StateFile | None, journals: list[StateFile], problems: list[str]
    ) -> None:
        self.tree = tree
        self.snapshot = snapshot
        """None: the journals begin with the first transaction."""
        self.journals = journals
        """All of the folder, oldest first."""
        self.good_bytes = 0
        """Bytes of the newest journal up to the end of its last complete entry."""
        self.torn_bytes = 0
        """Bytes of the newest journal that a crash left after that."""
        self.entry_count = 0
        """Complete entries in the newest journal."""
        self.problems = problems
        """Why newer snapshots were not used."""


def snapshot_path(folder: str, zxid: int) -> str:
    return f"{folder}/{SNAPSHOT}.{zxid:0{_DIGITS}d}"


def journal_path(folder: str, zxid: int) -> str:
    return f"{folder}/{JOURNAL}.{zxid:0{_DIGITS}d}"


def find_files(files: FileSystem, folder: str) -> tuple[list[StateFile], list[StateFile]]:
    """(snapshots, journals), oldest first.

    raises  OSError
    """
    names = files.list(folder)
    return _find(folder, names, SNAPSHOT), _find(folder, names, JOURNAL)


def _find(folder: str, names: Sequence[str], kind: str) -> list[StateFile]:
    files: list[StateFile] = []
    for name in names:
        digits = name[len(kind) + 1 :]
        if name == kind:
            files.append(StateFile(f"{folder}/{name}", 1))
        elif name.startswith(kind + ".") and len(digits) == _DIGITS and digits.isdecimal():
            files.append(StateFile(f"{folder}/{name}", int(digits)))
    return sorted(files, key=lambda file: file.number)


def read_tree(files: FileSystem, folder: str) -> LoadedTree:
    """Read the tree from the files in `folder`; an empty tree if there are none.

    Changes nothing on the disk.
    raises  CoordinationDamaged; OSError
    cost    a few microseconds for each node and each entry
    """
    snapshots, journals = find_files(files, folder)
    return read_from(files, snapshots, journals)


def read_from(
    files: FileSystem, snapshots: Sequence[StateFile], journals: Sequence[StateFile]
) -> LoadedTree:
    """Read the tree: the newest snapshot that can be read, and the journals after it.

    raises  CoordinationDamaged; OSError
    """
    problems: list[str] = []
    least_zxid = 0
    if snapshots:
        newest = snapshots[-1]
        least_zxid = newest.number
        if newest.is_numbered and all(journal.number != least_zxid + 1 for journal in journals):
            folder = newest.path.rpartition("/")[0]
            raise CoordinationDamaged(f"{journal_path(folder, least_zxid + 1)} is missing")
    for snapshot in (*reversed(snapshots), None):
        try:
            return _read_after(files, snapshot, journals, least_zxid, problems)
        except CoordinationDamaged as damaged:
            # The journals need not begin with the first transaction when there is a snapshot.
            if snapshot is not None or not problems:
                problems.append(damaged.problem)
    raise CoordinationDamaged("; ".join(dict.fromkeys(problems)))


def _read_after(
    files: FileSystem,
    snapshot: StateFile | None,
    journals: Sequence[StateFile],
    least_zxid: int,
    problems: list[str],
) -> LoadedTree:
    tree = Tree() if snapshot is None else read_snapshot(files, snapshot)
    loaded = LoadedTree(tree, snapshot, list(journals), problems)
    needed = [
        earlier
        for earlier, later in zip_longest(journals, journals[1:])
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


def read_snapshot(files: FileSystem, snapshot: StateFile) -> Tree:
    """Read the tree of one snapshot.

    raises  CoordinationDamaged; OSError
    """
    content = files.read(snapshot.path)
    try:
        return decode_snapshot(content)
    except SnapshotDamaged as error:
        raise CoordinationDamaged(
            f"{snapshot.path} ({len(content)} bytes) is damaged: {error}"
        ) from None


def _replay(files: FileSystem, journal: StateFile, loaded: LoadedTree, *, is_newest: bool) -> None:
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
    problem = _end_problem(journal, content, good, is_newest=is_newest)
    if problem is not None:
        raise CoordinationDamaged(problem)
    loaded.good_bytes = good
    loaded.torn_bytes = len(content) - good
    loaded.entry_count = count


def _end_problem(journal: StateFile, content: bytes, good: int, *, is_newest: bool) -> str | None:
    """Why a journal may not end after its complete entries, `good` bytes."""
    if good == len(content) or (is_newest and not holds_entry(content, good + 1)):
        return None
    return (
        f"{journal.path} ({len(content)} bytes) is damaged at byte {good}, and transactions "
        "that were acknowledged come after it"
    )


def journal_problem(files: FileSystem, journal: StateFile, *, is_newest: bool) -> str | None:
    """Why a journal cannot be read to its end; a crash may have torn that of the newest one.

    raises  OSError
    """
    content = files.read(journal.path)
    good = max((end for end, _ in decode_entries(content)), default=0)
    return _end_problem(journal, content, good, is_newest=is_newest)


def replay_entry(tree: Tree, entry: JournalEntry) -> None:
    """Apply the commands of an entry."""
    match entry:
        case SessionOpening():
            is_client = entry.session_id & CLIENT_SESSION != 0
            tree.open_session(entry.timeout_ms, is_client=is_client)
            assert entry.session_id in tree.sessions, "replayed in order"
        case SessionClosing():
            tree.close_session(entry.session_id)
        case Transaction():
            tree.transact(entry.session_id, entry.operations, entry.now_ms)


class JournalWriter:
    """The newest journal, open for more entries."""

    def __init__(self, files: FileSystem, folder: str, loaded: LoadedTree) -> None:
        """Open or create the newest journal; truncates a torn end.

        raises  OSError
        """
        self._files = files
        self._folder = folder
        # Also when the file exists: the process that created it may have been killed before the
        # folder was synced.
        self._is_folder_synced = False
        path = loaded.journals[-1].path if loaded.journals else journal_path(folder, 1)
        self._file: File = files.open(path, create=True)
        self._size_bytes = loaded.good_bytes
        self.entry_count = loaded.entry_count
        if loaded.torn_bytes:
            self._file.truncate(loaded.good_bytes)

    @property
    def path(self) -> str:
        return self._file.path

    def append(self, entry: JournalEntry) -> None:
        """Append an entry; a failure leaves the file as it was.

        raises  OSError; CannotRevert when the file could not be truncated either
        """
        encoded = encode_entry(entry)
        try:
            self._file.append((encoded,))
        except OSError as error:
            try:
                self._file.truncate(self._size_bytes)
            except OSError as second:
                raise CannotRevert(str(second)) from error
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
        """Continue in a new file; the caller has synced everything that was appended.

        raises  OSError; then the old file stays in use
        """
        new_file = self._files.open(journal_path(self._folder, first_zxid), create=True)
        assert new_file.size() == 0, "no earlier journal has begun with this transaction"
        self._file.close()
        self._file = new_file
        self._is_folder_synced = False
        self._size_bytes = 0
        self.entry_count = 0

    def close(self) -> None:
        self._file.close()


class CannotRevert(Exception):
    """A failed write left bytes in the journal that could not be truncated."""


def fold(files: FileSystem, folder: str) -> StateFile:
    """Read all files but the newest journal, and write their tree as a new snapshot.

    May run in a thread while the newest journal is appended to.
    raises  OSError, CoordinationDamaged; then all files stay
    cost    as `read_tree`, and two fsyncs
    """
    snapshots, journals = find_files(files, folder)
    loaded = read_from(files, snapshots, journals[:-1])
    if loaded.tree.zxid != journals[-1].number - 1:
        raise CoordinationDamaged(
            f"the files before {journals[-1].path} end with transaction {loaded.tree.zxid}"
        )
    written = write_snapshot(files, folder, loaded.tree)
    purge(files, folder, written, loaded.snapshot)
    return written


def write_snapshot(files: FileSystem, folder: str, tree: Tree) -> StateFile:
    """Write a snapshot; the journal that continues it exists already.

    raises  OSError
    """
    files.sync_directory(folder)
    written = StateFile(snapshot_path(folder, tree.zxid), tree.zxid)
    files.replace(written.path, encode_snapshot(tree))
    return written


def purge(files: FileSystem, folder: str, newest: StateFile, base: StateFile | None) -> None:
    """Remove the files that neither the newest snapshot nor its predecessor needs.

    base    the snapshot that the newest one was made from, which could be read
    raises  OSError when the folder cannot be listed; a file that cannot be removed stays
    """
    snapshots, journals = find_files(files, folder)
    obsolete = [snapshot.path for snapshot in snapshots if snapshot not in (newest, base)]
    least_zxid = 0 if base is None else base.number
    obsolete += [
        journal.path for journal, later in pairwise(journals) if later.number <= least_zxid + 1
    ]
    for path in obsolete:
        with contextlib.suppress(OSError):
            files.remove(path)
