"""Threads that run when a test says so: what is given to `EmbeddedTree.serve`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Work = Callable[[], None]
Done = Callable[[OSError | None], None]


def at_once(work: Work, done: Done) -> None:
    """The thread has done its work when the call returns."""
    error: OSError | None = None
    try:
        work()
    except OSError as raised:
        error = raised
    done(error)


class HeldThreads:
    """Work waits until it is let run, and its end until it is reported."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Work, Done]] = deque()
        self._ended: deque[tuple[Done, OSError | None]] = deque()

    def __call__(self, work: Work, done: Done) -> None:
        """Take work."""
        self._waiting.append((work, done))

    @property
    def is_busy(self) -> bool:
        """Whether anything waits, or has ended without a report."""
        return bool(self._waiting or self._ended)

    def work(self) -> bool:
        """The oldest work is done, not yet reported; False when there is none."""
        if not self._waiting:
            return False
        work, done = self._waiting.popleft()
        at_once(work, lambda error: self._ended.append((done, error)))
        return True

    def report(self) -> bool:
        """The oldest end is reported; False when there is none."""
        if not self._ended:
            return False
        done, error = self._ended.popleft()
        done(error)
        return True

    def settle(self) -> None:
        """Everything is worked off and reported."""
        while self.work() or self.report():
            pass
