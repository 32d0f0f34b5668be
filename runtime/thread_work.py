"""Work for threads whose end is reported on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

Work = Callable[[], None]
Done = Callable[[OSError | None], None]


class ThreadWork:
    """Runs work in threads; `coordination.commits.RunInThread`.

    after     called on the loop after each report
    on_broken given an exception of `work` that is no OSError, or one of `done`: a bug
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        *,
        after: Callable[[], None],
        on_broken: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._after = after
        self._on_broken = on_broken
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_running(self) -> bool:
        """Whether work has begun that is not reported yet."""
        return self._running > 0

    def __call__(self, work: Work, done: Done) -> None:
        """Run `work` in a thread after the current callback of the loop, then `done` on the loop.

        done  is given the OSError that `work` raised, or None
        """
        self._running += 1
        self._idle.clear()
        # What this callback of the loop goes on to write is then covered by the same sync.
        self._loop.call_soon(self._start, work, done)

    def _start(self, work: Work, done: Done) -> None:
        future = self._loop.run_in_executor(self._executor, work)
        future.add_done_callback(lambda ended: self._report(ended, done))

    def _report(self, ended: asyncio.Future[None], done: Done) -> None:
        try:
            error = ended.exception()
            if error is not None and not isinstance(error, OSError):
                raise error
            done(error)
            self._after()
        except Exception as bug:  # noqa: BLE001 - reported: the broker stops
            self._on_broken(bug)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def finish(self) -> None:
        """Wait until nothing runs, what was begun by reports included."""
        await self._idle.wait()
