"""Work that did not fit into its first slice, in rounds between which the loop serves the others.

A round is one callback of the loop: it gives one slice to each that waits, in the order of arrival,
until the time of the round is over: a quarter of it to connections whose last turns were about
short, a half to others that had no slice yet.  So the time that a connection waits for others grows
with their number and not with the size of their requests.

The loop calls each connection that has received something once an iteration, whatever the others
have taken: the first slices of hundreds would add up.  So the time that they take in one iteration
is counted; when it reaches that of a round, the connections whose last turns were not short are put
off into the rounds, too.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, Future
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns
from typing import Any, Final

from odradek.broker.handlers.handler import Awaited, Steps
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.pending import Pending
from odradek.runtime.work import Runnable

SLICE_NS: Final = 2_000_000
"""How long one connection may keep the loop from the others."""
SHORT_SLICE_NS: Final = 200_000
"""The same of a first slice while others wait for theirs."""
ROUND_NS: Final = 4_000_000
REQUEST_THREADS: Final = 2
"""Each may decompress one batch at a time, of up to 64 MiB."""

logger = logging.getLogger("odradek.server")


class Rounds:
    """The queue of those that wait for a slice."""

    def __init__(self, loop: AbstractEventLoop, watch: LoopWatch | None = None) -> None:
        """watch  counts how long slices take"""
        self._loop = loop
        self._watch = watch
        # A pool of its own: requests must not keep disk jobs waiting.
        self._executor = ThreadPoolExecutor(REQUEST_THREADS, thread_name_prefix="request")
        self._known: OrderedDict[Runnable, None] = OrderedDict()
        """Those that wait for a first slice which is likely to be short."""
        self._first: OrderedDict[Runnable, None] = OrderedDict()
        """Others that wait for their first slice."""
        self._waiting: OrderedDict[Runnable, None] = OrderedDict()
        """Those that have used up a slice."""
        self._is_scheduled = False
        self._spent_ns = 0
        """What first slices have taken in this iteration of the loop."""

    def __len__(self) -> int:
        return len(self._known) + len(self._first) + len(self._waiting)

    def add_first(self, runnable: Runnable, *, is_known: bool = False) -> None:
        """Queue for a first slice, however often it is called before that.

        is_known  it is likely to be short: it comes before the others
        """
        (self._known if is_known else self._first)[runnable] = None
        self._schedule()

    def add(self, runnable: Runnable) -> None:
        """Queue for one more slice, however often it is called before that."""
        self._waiting[runnable] = None
        self._schedule()

    def is_waiting(self, runnable: Runnable) -> bool:
        """Whether it is queued for one more slice."""
        return runnable in self._waiting

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def spent(self, took_ns: int) -> None:
        """A first slice ended that took more than a short one."""
        self._spent_ns += took_ns
        self._schedule()  # to begin the next iteration with 0

    def is_over(self) -> bool:
        """Whether first slices have taken what they may in this iteration of the loop."""
        return self._spent_ns >= ROUND_NS

    def first_deadline_ns(self) -> int:
        """The end of a first slice, which begins now and outside the rounds."""
        is_short = self._waiting or self.is_over()
        return monotonic_ns() + (SHORT_SLICE_NS if is_short else SLICE_NS)

    def _run(self) -> None:
        now_ns = monotonic_ns()
        # Those that wait behind many others wait for short slices.
        slice_ns = min(SLICE_NS, max(2 * SHORT_SLICE_NS, ROUND_NS // (len(self) or 1)))
        self._serve(self._known, now_ns + ROUND_NS // 4, slice_ns)
        self._serve(self._first, now_ns + ROUND_NS * 3 // 4, slice_ns)
        self._serve(self._waiting, now_ns + ROUND_NS, slice_ns)
        self._spent_ns = 0
        if self:
            self._loop.call_soon(self._run)
        else:
            self._is_scheduled = False

    def _serve(self, queue: OrderedDict[Runnable, None], end_ns: int, slice_ns: int) -> None:
        """Give a slice to each, to one at least, until `end_ns`."""
        now_ns = monotonic_ns()
        for _ in range(len(queue)):
            runnable, _ = queue.popitem(last=False)
            try:
                if runnable.run_slice(min(end_ns, now_ns + slice_ns)):
                    self._waiting[runnable] = None
            except Exception as error:
                logger.exception("a slice of work failed")
                runnable.abandon(error)
            if self._watch is not None:
                self._watch.ran(now_ns, "a slice of requests")
            now_ns = monotonic_ns()
            if now_ns >= end_ns or not queue:
                break

    def run_in_thread(self, work: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        """Run `work` off the loop, then `done` on it."""
        self._loop.run_in_executor(self._executor, work).add_done_callback(done)

    def close(self) -> None:
        """End the threads; what they do now is not awaited."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class SlicedSteps:
    """Steps that are run in slices.

    on_end     called once, when they have ended, failed or were cancelled
    on_failed  called before it with what they raised
    """

    __slots__ = (
        "_error",
        "_is_cancelled",
        "_is_running",
        "_is_suspended",
        "_on_end",
        "_on_failed",
        "_rounds",
        "_steps",
        "_value",
    )

    def __init__(
        self,
        rounds: Rounds,
        steps: Steps[None],
        on_failed: Callable[[Exception], None],
        on_end: Callable[[], None],
    ) -> None:
        self._rounds = rounds
        self._steps = steps
        self._on_failed = on_failed
        self._on_end = on_end
        self._value: Any = None
        self._error: BaseException | None = None
        self._is_cancelled = False
        self._is_suspended = False
        self._is_running = False

    def start(self) -> None:
        """Run the first slice; what it leaves is run in the rounds."""
        if self.run_slice(self._rounds.first_deadline_ns()):
            self._rounds.add(self)

    def start_later(self) -> None:
        """Run the first slice in the next round; raises nothing, whatever fails."""
        try:
            self._rounds.add_first(self)
        except Exception as error:  # noqa: BLE001 - no other callback would come
            self.abandon(error)

    def run_slice(self, deadline_ns: int) -> bool:
        """Run steps until the deadline."""
        if self._is_cancelled:
            return False
        self._is_running = True
        try:
            step = self._resume()
            while step is None:
                if monotonic_ns() >= deadline_ns:
                    return self._goes_on()
                step = next(self._steps)
            self._is_suspended = True
            if type(step) is Awaited:
                step.pending.on_done(self._on_result)
            else:
                self._rounds.run_in_thread(step.work, self._on_worked)
        except StopIteration:
            self._on_end()
        except Exception as error:  # noqa: BLE001 - the owner handles it
            self._is_suspended = False
            self.abandon(error)
        finally:
            self._is_running = False
        return False

    def _resume(self) -> Any:
        error, self._error = self._error, None
        if error is not None:
            return self._steps.throw(error)
        value, self._value = self._value, None
        return self._steps.send(value)

    def abandon(self, error: Exception) -> None:
        """Report the failure and end."""
        try:
            self._on_failed(error)
        finally:
            self._on_end()

    def _on_worked(self, future: Future[Any]) -> None:
        self._is_suspended = False
        if future.cancelled() or self._is_cancelled:
            self._end_cancelled()
            return
        self._error = future.exception()
        if self._error is None:
            self._value = future.result()
        self.start_later()

    def _on_result(self, pending: Pending[Any]) -> None:
        self._is_suspended = False
        if self._is_cancelled:
            self._end_cancelled()
            return
        try:
            self._value = pending.result()
        except Exception as error:  # noqa: BLE001 - the steps get it
            self._error = error
        self.start_later()

    def cancel(self) -> None:
        """End now, or when the step, the thread or the result that it waits for has ended."""
        if not self._is_cancelled:
            self._is_cancelled = True
            if not (self._is_suspended or self._is_running):
                self._end_cancelled()

    def _goes_on(self) -> bool:
        if self._is_cancelled:
            self._end_cancelled()
        return not self._is_cancelled

    def _end_cancelled(self) -> None:
        try:
            self._steps.close()
        except Exception:
            logger.exception("work that was cancelled failed")
        finally:
            self._on_end()
