"""A tree in this process, kept in two files, and sessions on it.

For one machine: development, tests, and a node that runs alone.  The layout of the files is in
`journal.py`; both lie directly in the folder that the caller names.  They are plain files, so the
first log directory will do: Apache Kafka's LogManager looks at folders only.

A write is answered after its journal entry reached the kernel, so a killed process loses nothing
that was answered.  `sync_writes` adds an fdatasync to each write, so that a power cut loses nothing
either; without it the last writes before a power cut may be missing, in order, from the end.  A
snapshot is always synced before the journal that it replaces is emptied.

When the disk refuses a write, the write is taken back, in memory and in the file, and fails with
StorageFailed; later ones are tried again.  When even that cannot be done (or a sync failed, which
must not be tried twice), every later write fails.

Sessions of an earlier process are ended at opening, with their ephemeral nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from controller.coordination.errors import (
    CoordinationError,
    MultiFailed,
    StorageFailed,
)
from controller.coordination.journal import (
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
from controller.coordination.pending import Pending
from controller.coordination.session import (
    ANY_VERSION,
    Create,
    Delete,
    Event,
    EventCallback,
    Operation,
    OperationResult,
    SessionState,
    SetData,
    Stat,
)
from controller.coordination.tree import Change, Tree
from runtime.clock import Clock
from runtime.files import FileSystem

T = TypeVar("T")

SNAPSHOT_NAME: Final = "coordination.snapshot"
JOURNAL_NAME: Final = "coordination.journal"
JOURNAL_ENTRIES_MAX: Final = 2_000
"""The journal is folded into a snapshot when it holds more than this and more than a node each:
replaying stays cheap, and snapshots cost a few microseconds per write on average."""

DEFAULT_TIMEOUT_MS: Final = 18_000
"""zookeeper.session.timeout.ms of Kafka; sessions in this process never fall silent."""


class EmbeddedTree:
    """The tree, its files, and the sessions of this process."""

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        clock: Clock,
        *,
        sync_writes: bool = False,
        journal_entries_max: int = JOURNAL_ENTRIES_MAX,
    ) -> None:
        """Open or create; reads both files whole.

        raises  OSError; SnapshotDamaged when the files do not belong together
        cost    a few microseconds per node
        """
        self._files = files
        self._clock = clock
        self._sync_writes = sync_writes
        self._snapshot_path = f"{folder}/{SNAPSHOT_NAME}"
        self._is_broken = False
        self._sessions: dict[int, EmbeddedSession] = {}
        self._events: deque[tuple[EmbeddedSession, Event]] = deque()
        self._is_delivering = False
        self.torn_bytes = 0
        """What a crash had left behind the last whole journal entry; it was cut off."""
        files.make_directory(folder)
        now_ms = clock.now_ms()
        if files.exists(self._snapshot_path):
            self.tree = decode_snapshot(files.read(self._snapshot_path), now_ms)
        else:
            self.tree = Tree()
        self._journal = files.open(f"{folder}/{JOURNAL_NAME}", create=True)
        if sync_writes:
            files.sync_directory(folder)
        self._journal_bytes = 0
        self._journal_entries = 0
        self._fold_above = self._journal_entries_max = journal_entries_max
        self._replay()
        for session_id in list(self.tree.sessions):
            self._end_session(session_id)

    def connect(
        self, on_event: EventCallback, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> EmbeddedSession:
        """Begin a session.

        raises  StorageFailed
        """
        return EmbeddedSession(self, on_event, timeout_ms)

    def close(self) -> None:
        """End all sessions, fold the journal into a snapshot, close the files."""
        for session_id in list(self._sessions):
            self._sessions.pop(session_id)
            self._end_session(session_id)
        if self._journal_entries and not self._is_broken:
            self._fold()
        self._journal.close()
        self._is_broken = True

    def expire(self, session_id: int) -> None:
        """End a session as a service does whose client fell silent."""
        session = self._sessions.pop(session_id)
        self._end_session(session_id)
        session.is_expired = True
        self._deliver([(session, SessionState.EXPIRED)])

    def begin_session(self, session: EmbeddedSession) -> int:
        """A new session's id.

        raises  StorageFailed
        """
        now_ms = self._clock.now_ms()
        change = self.tree.open_session(session.timeout_ms, now_ms)
        session_id = self.tree.last_session_id
        self._append(SessionOpening(change.zxid, now_ms, session_id, session.timeout_ms), change)
        self._sessions[session_id] = session
        return session_id

    def leave(self, session_id: int) -> None:
        """End a session at its owner's wish."""
        self._sessions.pop(session_id, None)
        self._end_session(session_id)

    def write(self, session_id: int, operations: Sequence[Operation]) -> list[OperationResult]:
        """Do and keep all operations, then tell the watchers.

        raises  MultiFailed, SessionExpired, StorageFailed
        """
        now_ms = self._clock.now_ms()
        change = self.tree.transact(session_id, operations, now_ms)
        if change.steps:
            self._append(Transaction(change.zxid, now_ms, session_id, operations), change)
            self._tell(change)
        else:
            self.tree.undo(change)
        return change.results

    def _end_session(self, session_id: int) -> None:
        if session_id not in self.tree.sessions:
            return
        change = self.tree.close_session(session_id)
        self._append(SessionClosing(change.zxid, self._clock.now_ms(), session_id), change)
        self._tell(change)

    def _replay(self) -> None:
        content = self._files.read(self._journal.path)
        tree = self.tree
        good = 0
        for end, entry in decode_entries(content):
            good = end
            self._journal_entries += 1
            if entry.zxid <= tree.zxid:
                continue
            if entry.zxid != tree.zxid + 1:
                raise SnapshotDamaged("the journal does not continue the snapshot")
            match entry:
                case SessionOpening():
                    tree.open_session(entry.timeout_ms, entry.now_ms)
                    assert tree.last_session_id == entry.session_id, "replayed in order"
                case SessionClosing():
                    tree.close_session(entry.session_id)
                case Transaction():
                    tree.transact(entry.session_id, entry.operations, entry.now_ms)
        self._journal_bytes = good
        self.torn_bytes = len(content) - good
        if holds_entry(content, good + 1):
            raise SnapshotDamaged(
                f"{self._journal.path} is damaged at byte {good} and goes on behind it; restore "
                "it, or remove both coordination files to start without topics"
            )
        if self.torn_bytes:
            self._journal.truncate(good)

    def _append(self, entry: Entry, change: Change) -> None:
        if self._is_broken:
            self.tree.undo(change)
            raise StorageFailed("an earlier write could not be taken back")
        encoded = encode_entry(entry)
        try:
            self._journal.append((encoded,))
        except OSError as error:
            self.tree.undo(change)
            self._take_back()
            raise StorageFailed(str(error)) from error
        if self._sync_writes:
            try:
                self._journal.sync()
            except OSError as error:
                self.tree.undo(change)
                self._take_back()
                self._is_broken = True
                raise StorageFailed(str(error)) from error
        self._journal_bytes += len(encoded)
        self._journal_entries += 1
        if self._journal_entries > max(self._fold_above, len(self.tree.nodes)):
            self._fold()

    def _take_back(self) -> None:
        try:
            self._journal.truncate(self._journal_bytes)
        except OSError:
            self._is_broken = True

    def _fold(self) -> None:
        try:
            self._files.replace(self._snapshot_path, encode_snapshot(self.tree))
            self._journal.truncate(0)
        except OSError:
            # The journal holds everything still; a full disk is asked again much later.
            self._fold_above = 2 * self._journal_entries
            return
        self._journal_bytes = 0
        self._journal_entries = 0
        self._fold_above = self._journal_entries_max

    def _tell(self, change: Change) -> None:
        fired = self.tree.fire(change)
        self._deliver(
            [(self._sessions[owner], event) for owner, event in fired if owner in self._sessions]
        )

    def _deliver(self, events: Sequence[tuple[EmbeddedSession, Event]]) -> None:
        """Hand over in order, also when a callback's write causes more."""
        self._events.extend(events)
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._events:
                session, event = self._events.popleft()
                session.on_event(event)
        finally:
            self._is_delivering = False


class EmbeddedSession:
    """A `Session` whose pendings are always done."""

    def __init__(self, tree: EmbeddedTree, on_event: EventCallback, timeout_ms: int) -> None:
        self._embedded = tree
        self._tree = tree.tree
        self.on_event = on_event
        self.timeout_ms = timeout_ms
        self.is_expired = False
        self._session_id = tree.begin_session(self)

    @property
    def session_id(self) -> int:
        """The owner of this session's ephemeral nodes."""
        return self._session_id

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Pending[str]:
        """Make a node."""
        operation = Create(path, data, ephemeral, sequential)
        return _attempt(lambda: str(self._write_one(operation)))

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        """Remove a node."""
        return _attempt(lambda: _nothing(self._write_one(Delete(path, version))))

    def get(self, path: str, *, watch: bool = False) -> Pending[tuple[bytes | None, Stat]]:
        """Data and stat."""
        return _attempt(lambda: self._tree.get(self._session_id, path, watch=watch))

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        """Replace the data."""

        def act() -> Stat:
            stat = self._write_one(SetData(path, data, version))
            assert isinstance(stat, Stat), "setting data gives a stat"
            return stat

        return _attempt(act)

    def exists(self, path: str, *, watch: bool = False) -> Pending[Stat | None]:
        """The stat, or None."""
        return _attempt(lambda: self._tree.exists(self._session_id, path, watch=watch))

    def children(self, path: str, *, watch: bool = False) -> Pending[list[str]]:
        """Names of the children, sorted."""
        return _attempt(lambda: self._tree.children(self._session_id, path, watch=watch))

    def multi(self, operations: Sequence[Operation]) -> Pending[list[OperationResult]]:
        """All or nothing."""
        return _attempt(lambda: self._embedded.write(self._session_id, operations))

    def reopen(self) -> Pending[None]:
        """A new session after the old one expired."""
        assert self.is_expired, "only an expired session is opened anew"

        def act() -> None:
            self._session_id = self._embedded.begin_session(self)
            self.is_expired = False

        return _attempt(act)

    def close(self) -> Pending[None]:
        """End the session."""
        return _attempt(lambda: self._embedded.leave(self._session_id))

    def _write_one(self, operation: Operation) -> OperationResult:
        try:
            return self._embedded.write(self._session_id, (operation,))[0]
        except MultiFailed as failed:
            raise failed.error from None


def _attempt(act: Callable[[], T]) -> Pending[T]:
    try:
        return Pending.of(act())
    except CoordinationError as error:
        return Pending.failed(error)


def _nothing(result: OperationResult) -> None:
    assert result is None, "deleting gives nothing"
