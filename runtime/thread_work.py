"""Work in threads, with its end reported on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

Function = Callable[[], None]
Done = Callable[[OSError | None], None]


class ThreadWork:
    """Runs work in threads; used as `coordination.commits.RunInThread`.

    after      called on the loop after each `done`
    on_broken  called with an exception of `work` that is not an OSError, or one of `done`: a bug
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
        """Whether there is work whose `done` has not returned."""
        return self._running > 0

    def __call__(self, work: Function, done: Done) -> None:
        """Run `work` in a thread, from after the loop's current callback, then `done` on the loop.

        done  is called with the OSError that `work` raised, or None
        """
        self._running += 1
        self._idle.clear()
        # Later, so that the sync covers what the current callback still writes.
        self._loop.call_soon(self._start, work, done)

    def _start(self, work: Function, done: Done) -> None:
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
        """Wait until no work runs, including work that a `done` begins."""
        await self._idle.wait()
