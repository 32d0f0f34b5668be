"""Slices of the event loop for work that does not fit into one, so that the loop serves others.

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

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from time import monotonic_ns
from typing import Any, Final, TypeVar

from odradek.runtime.clock import Clock
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.work import Defer as Defer
from odradek.runtime.work import Procedure, Runnable, ThreadCall, Work, pause

T = TypeVar("T")

SLICE_NS: Final = 2_000_000
"""How long one work may keep the loop from the others."""
SHORT_SLICE_NS: Final = 200_000
"""How long a first slice lasts while others wait for theirs."""
ROUND_NS: Final = 4_000_000
MARK_SLICES: Final = 250
"""Further slices of each that waits, before a mark is passed: some 100 ms of work."""


class QueueMark:
    """Goes through the queues behind all that wait when it is made."""

    __slots__ = ("_queues", "is_passed")

    def __init__(self, *queues: OrderedDict[Runnable, None]) -> None:
        self._queues = iter(queues)
        self.is_passed = False
        """Whether those before it have had a first slice, and further ones if they needed them."""

    def run_slice(self, deadline_ns: int) -> bool:
        """All before it in a queue have had a slice."""
        queue = next(self._queues, None)
        if queue is None:
            self.is_passed = True
        else:
            queue[self] = None
        return False

    def abandon(self, error: Exception) -> None:
        """No slice of it fails."""
        raise AssertionError("a mark") from error


class Scheduler:
    """The queue of those that wait for a slice.

    defer           calls a round
    name            what has slices, for the log of `LoopWatch`
    now_ns          the clock of slices
    watch           counts how long slices take
    call_in_thread  begins what waits for a thread
    """

    def __init__(
        self,
        defer: Defer,
        name: str,
        *,
        now_ns: Callable[[], int] = monotonic_ns,
        watch: LoopWatch | None = None,
        call_in_thread: Callable[[ThreadCall[Any]], None] | None = None,
    ) -> None:
        def run_round() -> None:
            self._run()

        run_round.__qualname__ = f"{Scheduler.__qualname__}({name})"  # `LoopWatch` logs it
        self._defer = defer
        self._round = run_round
        self._name = name
        self.now_ns = now_ns
        self._watch = watch
        self._call_in_thread = call_in_thread
        self._known: OrderedDict[Runnable, None] = OrderedDict()
        """Runnables that wait for a first slice which is likely to be short."""
        self._first: OrderedDict[Runnable, None] = OrderedDict()
        """Runnables that wait for their first slice, which may be long."""
        self._waiting: OrderedDict[Runnable, None] = OrderedDict()
        """Runnables that have used up a slice."""
        self._is_scheduled = False
        self._spent_ns = 0
        """What first slices have taken in this iteration of the loop."""

    def __len__(self) -> int:
        return len(self._known) + len(self._first) + len(self._waiting)

    def run(self, waiting: Coroutine[Any, Any, T]) -> None:
        """Run the first slice now, and the others in rounds.

        raises  what the first slice raises; what a later one raises reaches the caller of the
                deferred function
        """
        Work(self, waiting).start()

    def run_later(self, procedure: Procedure[object]) -> None:
        """Run the first slice in the next round, too."""

        async def begin() -> None:
            await pause()
            await procedure()

        waiting = begin()
        waiting.send(None)  # a coroutine that never began warns when the loop ends before it
        self.add_first(Work(self, waiting))

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

    def mark(self) -> QueueMark:
        """A mark behind all that wait now; what is queued later does not hold it up."""
        mark = QueueMark(self._first, *[self._waiting] * MARK_SLICES)
        self.add_first(mark, is_known=True)
        return mark

    def is_waiting(self, runnable: Runnable) -> bool:
        """Whether it is queued for one more slice."""
        return runnable in self._waiting

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._defer(self._round)

    def spent(self, took_ns: int) -> None:
        """A first slice ended that took more than a short one."""
        self._spent_ns += took_ns
        self._schedule()  # to begin the next iteration with 0

    def is_over(self) -> bool:
        """Whether first slices have taken what they may in this iteration of the loop."""
        return self._spent_ns >= ROUND_NS

    def passes(self, units: int, deadline_ns: int) -> bool:
        """Whether a slice is over."""
        return self.now_ns() >= deadline_ns

    def first_deadline_ns(self) -> int:
        """The end of a first slice, which begins now and outside the rounds."""
        is_short = self._waiting or self.is_over()
        return self.now_ns() + (SHORT_SLICE_NS if is_short else SLICE_NS)

    def _run(self) -> None:
        now_ns = self.now_ns()
        # Those that wait behind many others wait for short slices.
        slice_ns = min(SLICE_NS, max(2 * SHORT_SLICE_NS, ROUND_NS // (len(self) or 1)))
        try:
            self._serve(self._known, now_ns + ROUND_NS // 4, slice_ns)
            self._serve(self._first, now_ns + ROUND_NS * 3 // 4, slice_ns)
            self._serve(self._waiting, now_ns + ROUND_NS, slice_ns)
        finally:
            self._spent_ns = 0
            self._is_scheduled = False
            if self:
                self._schedule()

    def _serve(self, queue: OrderedDict[Runnable, None], end_ns: int, slice_ns: int) -> None:
        """Give a slice to each, to one at least, until `end_ns`."""
        now_ns = self.now_ns()
        for _ in range(len(queue)):
            runnable, _ = queue.popitem(last=False)
            began_ns = monotonic_ns()
            try:
                if runnable.run_slice(min(end_ns, now_ns + slice_ns)):
                    self._waiting[runnable] = None
            except Exception as error:  # noqa: BLE001 - it is the runnable's
                runnable.abandon(error)
            if self._watch is not None:
                self._watch.ran(began_ns, self._name)
            now_ns = self.now_ns()
            if now_ns >= end_ns or not queue:
                break

    def call_in_thread(self, call: ThreadCall[Any]) -> None:
        """Run a function in a thread, and complete the call on the loop."""
        assert self._call_in_thread is not None, f"{self._name}: no threads"
        self._call_in_thread(call)


def scheduler_of(
    clock: Clock, defer: Defer, name: str, watch: LoopWatch | None = None
) -> Scheduler:
    """Slices by a clock that a test may set."""
    return Scheduler(defer, name, now_ns=lambda: clock.monotonic_ms() * 1_000_000, watch=watch)
