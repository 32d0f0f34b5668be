"""Group commit: the result of a write is reported only when the write is durable.

Writes are numbered in their order.  Everything that shows the tree to its users (results of writes
and reads, errors, watch events) is held here until the writes before it are durable, and released
in the order of the calls.  One sync at a time runs in a thread, and covers all writes that were
made before it began.

    visible to a caller    all writes, its own and those of others, in one order, once durable
    a failed sync          is not repeated: the kernel has dropped the pages.  Held results fail

Source: ZooKeeper's SyncRequestProcessor of a standalone server (forceSync=yes), where a read that
finds transactions to be flushed waits for them as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

RunInThread = Callable[[Callable[[], None], Callable[[OSError | None], None]], None]
"""(work, done): run `work` in a thread, soon but not within the call, or at once in tests; then
`done` in the thread of the caller, with the OSError that it raised."""

Release = Callable[[OSError | None], None]
"""Given the error of the sync that failed, or None."""


class Commits:
    """The results that are held, in order.

    Bounded by the callers: the controller's procedures await their writes one after the other.
    """

    __slots__ = (
        "_durable",
        "_failure",
        "_held",
        "_is_releasing",
        "_is_syncing",
        "_on_failed",
        "_on_settled",
        "_run",
        "_sync",
        "_written",
    )

    def __init__(
        self,
        sync: Callable[[], None],
        run: RunInThread,
        *,
        on_settled: Callable[[], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        """sync        makes all writes durable; runs in the thread
        on_settled  called when all writes are durable and no sync is under way
        on_failed   called when a sync has failed; both before anything is released
        """
        self._sync = sync
        self._run = run
        self._on_settled = on_settled
        self._on_failed = on_failed
        self._written = 0
        self._durable = 0
        self._held: deque[tuple[int, Release]] = deque()
        self._is_syncing = False
        self._is_releasing = False
        self._failure: OSError | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all writes are durable and nothing is held: a result may be returned at once."""
        return not self._held and not self._is_releasing and self._written == self._durable

    def note_write(self) -> None:
        """A write was appended to the journal."""
        self._written += 1
        if not self._is_syncing and self._failure is None:
            self._start()

    def hold(self, release: Release) -> None:
        """Call `release` once all writes so far are durable, after what was held before."""
        self._held.append((self._written, release))
        self._release()

    def _start(self) -> None:
        self._is_syncing = True
        covered = 0

        def work() -> None:
            nonlocal covered
            # Read in the thread: the later it is read, the more writes this sync covers.
            covered = self._written
            self._sync()

        def done(error: OSError | None) -> None:
            self._is_syncing = False
            if error is not None:
                self._failure = error
                self._on_failed(error)
            else:
                self._durable = covered
                if self._written > covered:
                    self._start()
                else:
                    self._on_settled()
            self._release()

        self._run(work, done)

    def _release(self) -> None:
        if self._is_releasing:
            return
        self._is_releasing = True
        try:
            while self._held and (self._failure is not None or self._held[0][0] <= self._durable):
                _, release = self._held.popleft()
                release(self._failure)
        finally:
            self._is_releasing = False
