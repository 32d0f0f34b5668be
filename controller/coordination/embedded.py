"""The embedded coordination service: a tree in this process, stored in files, and its sessions.

For one machine: development, tests, and a node that runs alone.  The files (`state_files.py`) are
plain files in the given folder, which may be a log directory: Apache Kafka's LogManager reads the
folders in it only.

A tree has two phases.  While it *starts*, a write is done when its call returns, and nothing is
synced: the process has no clients yet.  `serve` syncs everything and begins the second phase.  From
then on the result of a write, its watch events and all later reads are held until the write is
durable; syncs run in a thread, each for all writes that are waiting (`commits.py`).

A write that the disk refuses is undone, in memory and in the file, and fails with StorageFailed;
later writes are tried again.  If it cannot be undone, or a sync fails (which is never repeated),
the tree is out of use: held results and all later calls fail with StorageFailed, and the process
must end.  The writes whose results were held may or may not be there at the next start.

Opening ends the sessions of an earlier process, which removes their ephemeral nodes.  Sessions of
clients over the network (`server/`) are kept when they are served again: they are resumed, or time
out.
Source: ZooKeeper's SyncRequestProcessor, FileTxnLog (forceSync).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from odradek.controller.coordination.commits import Commits, RunInThread
from odradek.controller.coordination.errors import (
    CoordinationError,
    MultiFailed,
    QuotaExceeded,
    StorageFailed,
)
from odradek.controller.coordination.journal import (
    JournalEntry,
    SessionClosing,
    SessionOpening,
    Transaction,
)
from odradek.controller.coordination.session import (
    ANY_VERSION,
    Create,
    Delete,
    EventCallback,
    SessionEvent,
    SessionState,
    SetData,
    Stat,
    ZkOperation,
    ZkResult,
)
from odradek.controller.coordination.state_files import (
    CannotRevert,
    CoordinationDamaged,
    JournalWriter,
    StateFile,
    fold,
    purge,
    read_tree,
    write_snapshot,
)
from odradek.controller.coordination.tree import CLIENT_SESSION, TreeChange
from odradek.runtime.clock import Clock
from odradek.runtime.files import FileSystem
from odradek.runtime.pending import Pending
from odradek.storage.files.disk_errors import is_full

T = TypeVar("T")

JOURNAL_ENTRIES_MAX: Final = 2_000
"""A journal is folded into a snapshot when it has more entries than this, and than the tree has
nodes: replaying stays cheap, and snapshots cost a few microseconds a write on average."""

CLIENT_TREE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Beyond it only sessions of this process may add to the tree.

Differs from ZooKeeper, whose quotas are set for each subtree.  A partition takes about 2 KiB.
"""

DEFAULT_TIMEOUT_MS: Final = 18_000
"""zookeeper.session.timeout.ms of Kafka; sessions in this process do not time out."""


def _ignore(_: str) -> None:
    """Before `serve`."""


def _no_free_space() -> bool:
    return False


class EmbeddedTree:
    """The tree, its files, and the sessions of this process."""

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        clock: Clock,
        *,
        journal_entries_max: int = JOURNAL_ENTRIES_MAX,
        free_space: Callable[[], bool] = _no_free_space,
        serves_clients: bool = False,
    ) -> None:
        """Open or create; reads the newest snapshot and the journals after it.

        free_space  called when the disk is full; whether it freed some space, so that the write is
                    repeated
        serves_clients  whether sessions of clients over the network are kept
        raises      OSError; CoordinationDamaged
        cost        a few microseconds for each node
        """
        self._files = files
        self._folder = folder
        self._clock = clock
        self._failure: str | None = None
        self._commits: Commits | None = None
        # `serve` sets these three.  Before, at the start, nothing runs in a thread, and the caller
        # of a write that fails gets the error: there is no loop yet that could be stopped.
        self._run_in_thread: RunInThread | None = None
        self._on_failure: Callable[[str], None] = _ignore
        self._on_problem: Callable[[str], None] = _ignore
        self._sessions: dict[int, EmbeddedSession] = {}
        self._receivers: dict[int, EventCallback] = {}
        self._events: deque[tuple[EventCallback, SessionEvent]] = deque()
        self._is_delivering = False
        self._is_folding = False
        self._fold_above = self._journal_entries_max = journal_entries_max
        files.make_directory(folder)
        loaded = read_tree(files, folder)
        self.tree = loaded.tree
        self._snapshot = loaded.snapshot
        self._journal = JournalWriter(files, folder, loaded)
        self._free_space = free_space
        self.warnings = list(loaded.problems)
        """For the operator, one line each: what was wrong with the files."""
        if loaded.problems:
            source = f"{loaded.snapshot.path} and " if loaded.snapshot is not None else ""
            self.warnings.append(
                f"the metadata were read from {source}the journals instead; nothing is lost"
            )
        if loaded.torn_bytes:
            self.warnings.append(
                f"{self._journal.path} ends with {loaded.torn_bytes} bytes of a transaction that "
                f"was not acknowledged; cut off at byte {loaded.good_bytes}"
            )
        if loaded.entry_count:
            # A process that was killed may not have synced these entries.  What this start writes
            # because of them must not survive a power failure without them.
            self._journal.sync()
        for session_id in list(self.tree.sessions):
            if not (serves_clients and session_id & CLIENT_SESSION):
                self._end_session(session_id)

    # Phases.

    def serve(
        self,
        run_in_thread: RunInThread,
        *,
        on_failure: Callable[[str], None],
        on_warning: Callable[[str], None],
    ) -> None:
        """Sync what the start has written; from now on a write is durable when it is done.

        on_failure  called with the reason when the tree is out of use; the process must stop
        on_warning  called with a line for the operator
        raises      StorageFailed
        cost        two fsyncs, within the call
        """
        assert self._commits is None, "a tree begins to serve once"
        self._check_failure()
        try:
            self._journal.sync()
        except OSError as error:
            self._on_sync_failed(error)
            self._check_failure()
        self._run_in_thread = run_in_thread
        self._on_failure = on_failure
        self._on_problem = on_warning
        self._commits = Commits(
            self._journal.sync,
            run_in_thread,
            on_settled=self._fold_when_due,
            on_failed=self._on_sync_failed,
        )

    def close(self) -> None:
        """End the sessions of this process, write a snapshot, close the files.

        Must not be called while a thread works for the tree.
        """
        self._commits = None
        for session_id in list(self._sessions):
            self.leave(session_id)
        if self._journal.entry_count and self._failure is None:
            self._fold_now()
        self._journal.close()
        self._failure = self._failure or "it is closed"

    # Sessions.

    def connect(
        self, on_event: EventCallback, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> EmbeddedSession:
        """Begin a session.

        raises  StorageFailed
        """
        return EmbeddedSession(self, on_event, timeout_ms)

    def expire(self, session_id: int) -> None:
        """End a session as after its time-out."""
        session = self._sessions[session_id]
        self.leave(session_id)
        session.is_expired = True
        self.hold_events([(session.on_event, SessionState.EXPIRED)])

    def begin_session(self, session: EmbeddedSession) -> int:
        """Begin a session of this process; its id.

        raises  StorageFailed
        """
        session_id = self._begin(session.timeout_ms, is_client=False)
        self._sessions[session_id] = session
        self._receivers[session_id] = session.on_event
        return session_id

    def begin_client_session(self, timeout_ms: int) -> int:
        """Begin a session of a client over the network; its id.

        raises  StorageFailed
        """
        return self._begin(timeout_ms, is_client=True)

    def attach(self, session_id: int, on_event: EventCallback) -> None:
        """Deliver the events of a client's session to its connection from now on."""
        self._receivers[session_id] = on_event

    def detach(self, session_id: int) -> None:
        """The connection of a client's session is closed: its watches are removed."""
        if self._receivers.pop(session_id, None) and session_id in self.tree.sessions:
            self.tree.drop_watches(session_id)

    def leave(self, session_id: int) -> None:
        """End a session; no error when it has ended.

        The connection of a client gets the events of its own nodes; a session of this process does
        not.
        raises  StorageFailed; then the session goes on
        """
        own = self._sessions.pop(session_id, None)
        if own is not None:
            self._receivers.pop(session_id)
        try:
            self._end_session(session_id)
        except StorageFailed:
            if own is not None:
                self._sessions[session_id] = own
                self._receivers[session_id] = own.on_event
            raise
        self._receivers.pop(session_id, None)

    def _begin(self, timeout_ms: int, *, is_client: bool) -> int:
        self._check_failure()
        now_ms = self._clock.now_ms()
        change = self.tree.open_session(timeout_ms, is_client=is_client)
        session_id = self.tree.last_session_id | (CLIENT_SESSION if is_client else 0)
        self._append(SessionOpening(change.zxid, now_ms, session_id, timeout_ms), change)
        return session_id

    # Calls.

    def call(self, act: Callable[[], T]) -> Pending[T]:
        """Call `act` now; the pending is completed when all writes so far are durable."""
        outcome: Pending[T]
        try:
            self._check_failure()
            outcome = Pending.of(act())
        except CoordinationError as error:
            outcome = Pending.failed(error)
        commits = self._commits
        if commits is None or commits.is_idle:
            return outcome
        held: Pending[T] = Pending()

        def release(failure: OSError | None) -> None:
            if failure is None:
                held.settle_as(outcome)
            else:
                held.fail(StorageFailed(str(failure)))

        commits.hold(release)
        return held

    def write(self, session_id: int, operations: Sequence[ZkOperation]) -> list[ZkResult]:
        """Do all operations, append them to the journal, and then fire the watches.

        raises  MultiFailed, SessionExpired, StorageFailed
        """
        now_ms = self._clock.now_ms()
        former_bytes = self.tree.size_bytes
        change = self.tree.transact(session_id, operations, now_ms)
        if former_bytes < self.tree.size_bytes and session_id & CLIENT_SESSION:
            self._check_size(change)
        if change.steps:
            self._append(Transaction(change.zxid, now_ms, session_id, operations), change)
            self._report(change)
        else:
            self.tree.undo(change)
        return change.results

    def _check_size(self, change: TreeChange) -> None:
        """Undo what a client over the network has added to a tree that is full.

        raises  MultiFailed
        """
        if self.tree.size_bytes > CLIENT_TREE_BYTES_MAX:
            self.tree.undo(change)
            count = len(change.results)
            text = f"the tree has {CLIENT_TREE_BYTES_MAX} bytes"
            raise MultiFailed(count - 1, QuotaExceeded(text), count)

    def _end_session(self, session_id: int) -> None:
        if session_id not in self.tree.sessions:
            return
        change = self.tree.close_session(session_id)
        self._append(SessionClosing(change.zxid, self._clock.now_ms(), session_id), change)
        self._report(change)

    def _append(self, entry: JournalEntry, change: TreeChange) -> None:
        try:
            self._append_to_journal(entry)
        except CannotRevert as error:
            self.tree.undo(change)
            self._fail(f"{self._journal.path} has a torn end that cannot be cut off: {error}")
            raise StorageFailed(str(error)) from error
        except OSError as error:
            self.tree.undo(change)
            raise StorageFailed(f"{self._journal.path}: {error.strerror}") from error
        if self._commits is not None:
            self._commits.note_write()

    def _append_to_journal(self, entry: JournalEntry) -> None:
        while True:
            try:
                self._journal.append(entry)
            except OSError as error:
                if not (is_full(error) and self._free_space()):
                    raise
            else:
                return

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise StorageFailed(f"the embedded tree is out of use: {self._failure}")

    def _on_sync_failed(self, error: OSError) -> None:
        self._fail(f"{self._journal.path} cannot be synced: {error}")

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = reason
            self._on_failure(reason)

    # Events.

    def _report(self, change: TreeChange) -> None:
        fired = self.tree.fire(change)
        if fired:
            receivers = self._receivers
            self.hold_events(
                [(receivers[owner], event) for owner, event in fired if owner in receivers]
            )

    def hold_events(self, events: Sequence[tuple[EventCallback, SessionEvent]]) -> None:
        """Deliver each event to its callback when all writes so far are durable."""
        commits = self._commits
        if commits is None or commits.is_idle:
            self._deliver(events)
            return

        def release(failure: OSError | None) -> None:
            if failure is None:
                self._deliver(events)

        commits.hold(release)

    def _deliver(self, events: Sequence[tuple[EventCallback, SessionEvent]]) -> None:
        """Call the callbacks in order, also when a callback causes further events."""
        self._events.extend(events)
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._events:
                receive, event = self._events.popleft()
                receive(event)
        finally:
            self._is_delivering = False

    # Snapshots.

    def _fold_when_due(self) -> None:
        """Called when everything is durable and no sync runs: the journal may be closed then."""
        limit = max(self._fold_above, len(self.tree.nodes))
        if self._is_folding or self._journal.entry_count <= limit:
            return
        try:
            self._journal.rotate(self.tree.zxid + 1)
        except OSError as error:
            self._put_off(error)
            return
        self._is_folding = True
        outcome: StateFile | CoordinationDamaged | None = None

        def work() -> None:
            nonlocal outcome
            try:
                outcome = fold(self._files, self._folder)
            except CoordinationDamaged as error:
                outcome = error

        def done(error: OSError | None) -> None:
            self._is_folding = False
            if isinstance(outcome, StateFile):
                self._snapshot = outcome
                self._fold_above = self._journal_entries_max
            else:
                failure = error or outcome
                assert failure is not None, "work has ended one way or the other"
                self._put_off(failure)

        assert self._run_in_thread is not None, "the tree serves"
        self._run_in_thread(work, done)

    def _put_off(self, error: Exception) -> None:
        """The journals still contain everything; the next attempt is at twice their length."""
        self._fold_above = 2 * max(self._fold_above, self._journal.entry_count)
        self._on_problem(f"the metadata journal cannot be folded into a snapshot: {error}")

    def _fold_now(self) -> None:
        try:
            self._journal.sync()
            self._journal.rotate(self.tree.zxid + 1)
            written = write_snapshot(self._files, self._folder, self.tree)
            purge(self._files, self._folder, written, self._snapshot)
        except OSError as error:
            self._put_off(error)


class EmbeddedSession:
    """A `CoordinationSession`; before `EmbeddedTree.serve` its pendings are done at once."""

    def __init__(self, tree: EmbeddedTree, on_event: EventCallback, timeout_ms: int) -> None:
        self._embedded = tree
        self._tree = tree.tree
        self.on_event = on_event
        self.timeout_ms = timeout_ms
        self.is_expired = False
        self._session_id = tree.begin_session(self)

    @property
    def session_id(self) -> int:
        return self._session_id

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Pending[str]:
        operation = Create(path, data, ephemeral, sequential)
        return self._embedded.call(lambda: str(self._write_one(operation)))

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        return self._embedded.call(lambda: _nothing(self._write_one(Delete(path, version))))

    def get(self, path: str, *, watch: bool = False) -> Pending[tuple[bytes | None, Stat]]:
        return self._embedded.call(lambda: self._tree.get(self._session_id, path, watch=watch))

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        def act() -> Stat:
            stat = self._write_one(SetData(path, data, version))
            assert isinstance(stat, Stat), "SetData results in a stat"
            return stat

        return self._embedded.call(act)

    def exists(self, path: str, *, watch: bool = False) -> Pending[Stat | None]:
        return self._embedded.call(lambda: self._tree.exists(self._session_id, path, watch=watch))

    def children(self, path: str, *, watch: bool = False) -> Pending[list[str]]:
        return self._embedded.call(lambda: self._tree.children(self._session_id, path, watch=watch))

    def multi(self, operations: Sequence[ZkOperation]) -> Pending[list[ZkResult]]:
        return self._embedded.call(lambda: self._embedded.write(self._session_id, operations))

    def reopen(self) -> Pending[None]:
        assert self.is_expired, "only an expired session is opened again"

        def act() -> None:
            self._session_id = self._embedded.begin_session(self)
            self.is_expired = False

        return self._embedded.call(act)

    def close(self) -> Pending[None]:
        return self._embedded.call(lambda: self._embedded.leave(self._session_id))

    def _write_one(self, operation: ZkOperation) -> ZkResult:
        try:
            return self._embedded.write(self._session_id, (operation,))[0]
        except MultiFailed as failed:
            raise failed.error from None


def _nothing(result: ZkResult) -> None:
    assert result is None, "Delete has no result"
