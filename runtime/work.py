"""Work that waits, without asyncio: coroutines that are advanced in slices of the event loop.

    await pending        a result from elsewhere (`runtime/pending.py`)
    await pause()        a unit of work: the slice may end here
    await in_thread(f)   what `f` returns in a thread

State may change at each of them, as it may between two requests: what was checked before an
`await` must be checked again after it.  `Work` advances a coroutine; when it is advanced is up to
a schedule: `runtime/scheduler.py` shares slices out, `SerialQueue` runs one coroutine at a time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from odradek.runtime.pending import Pending

T = TypeVar("T")

Later = Coroutine[Any, Any, T]
"""A value that is made in units, or after what it waits for."""
if TYPE_CHECKING:
    CoroutineObject = Coroutine
else:
    CoroutineObject = CoroutineType
"""For `isinstance`: the check of the abstract class costs 0.2 us more."""
Step = Pending[Any] | int
"""What a coroutine of ours yields: a result that it waits for, or a number of units of work."""
Defer = Callable[[Callable[[], None]], object]
"""Calls a function once, in a later turn of the event loop."""

UNIT_ITEMS: Final = 64
"""Items that make up a unit, if each takes some microseconds."""
TURN_UNITS: Final = 64
"""Units of the procedures of a queue in one turn of the event loop: 1 to 2 ms."""

logger = logging.getLogger("odradek.work")


@coroutine
def pause(units: int = 1) -> Generator[int, None, None]:
    """Let the slice end here; 0.1 us.

    units  of work that follow: a `SerialQueue` counts them, others look at the clock
    """
    yield units


@coroutine
def in_thread(function: Callable[[], T]) -> Generator[Step, None, T]:
    """Run `function` in a thread: for a library that releases the interpreter's lock, or for what
    cannot be divided into units.

    raises  what `function` raises
    """
    call = ThreadCall(function)
    yield call
    return call.result()


@coroutine
def resumed(waiting: Coroutine[Any, Any, T], step: Step) -> Generator[Step, None, T]:
    """The rest of a coroutine that has been advanced up to `step`."""
    while True:
        yield step
        try:
            step = waiting.send(None)
        except StopIteration as stop:
            value: T = stop.value
            return value


def shares(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """At most `TURN_UNITS` of the items at a time; `pause` is awaited before each share."""
    for start in range(0, len(items), TURN_UNITS):
        yield items[start : start + TURN_UNITS]


async def collect(items: Iterable[T]) -> tuple[T, ...]:
    """A tuple of the items, which are made one by one."""
    collected: list[T] = []
    for item in items:
        collected.append(item)
        if len(collected) % UNIT_ITEMS == 0:
            await pause()
    return tuple(collected)


async def in_units(units: Iterator[None]) -> None:
    """Run steps that know nothing of waiting, with a pause after each."""
    for _ in units:
        await pause()


async def value_of(units: Generator[None, None, T]) -> T:
    """The value of steps that know nothing of waiting, with a pause after each."""
    while True:
        try:
            next(units)
        except StopIteration as stop:
            value: T = stop.value
            return value
        await pause()


class ThreadCall(Pending[T]):
    """What `function` returns in a thread; a schedule begins it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], T]) -> None:
        super().__init__()
        self.function = function


class Runnable(Protocol):
    """What has slices."""

    def run_slice(self, deadline_ns: int) -> bool:
        """Work until about `deadline_ns` of the monotonic clock; True asks for another slice."""

    def abandon(self, error: Exception) -> None:
        """A slice has failed: release what is held."""


class Schedule(Protocol):
    """When work is advanced."""

    def passes(self, units: int, deadline_ns: int) -> bool:
        """Whether a slice is over before so many units of work."""

    def first_deadline_ns(self) -> int:
        """The end of a slice that begins now, in the call that begins the work."""

    def add_first(self, runnable: Runnable) -> None:
        """Give a slice to what has waited for a result."""

    def add(self, runnable: Runnable) -> None:
        """Give one more slice."""

    def call_in_thread(self, call: ThreadCall[Any]) -> None:
        """Run a function in a thread, and complete the call on the loop."""


def raise_failure(done: Pending[Any] | None) -> None:
    """Raise what work has failed with in the caller of its last slice."""
    if done is not None:
        done.result()


class Work(Generic[T]):
    """A coroutine on its way.

    on_end  called once: with the result, done or failed, or with None when the work was cancelled
    """

    __slots__ = (
        "_coroutine",
        "_in_thread",
        "_is_cancelled",
        "_is_running",
        "_on_end",
        "_schedule",
        "awaits_result",
    )

    def __init__(
        self,
        schedule: Schedule,
        waiting: Coroutine[Any, Any, T],
        on_end: Callable[[Pending[T] | None], None] = raise_failure,
    ) -> None:
        self._schedule = schedule
        self._coroutine: Coroutine[Any, Any, T] | None = waiting
        self._on_end = on_end
        self._in_thread = False
        self._is_running = False
        self._is_cancelled = False
        self.awaits_result = False
        """Whether it waits for what others complete, however long that takes."""

    def start(self) -> None:
        """Run the first slice now."""
        if self.run_slice(self._schedule.first_deadline_ns()):
            self._schedule.add(self)

    def run_slice(self, deadline_ns: int) -> bool:
        """Run units until the deadline, or until a result is awaited."""
        waiting = self._coroutine
        if waiting is None:
            return False  # it was cancelled
        passes = self._schedule.passes
        self._is_running = True
        step: Step = 0
        done: Pending[T] | None = None
        try:
            while isinstance(step := waiting.send(None), int):
                if passes(step, deadline_ns):
                    break
        except StopIteration as stop:
            done = Pending.of(stop.value)
        except Exception as error:  # noqa: BLE001 - `on_end` handles it
            done = Pending.failed(error)
        finally:
            self._is_running = False
        if done is not None:
            self._coroutine = None
            self._on_end(done)
            return False
        if self._is_cancelled:
            self._close()
            return False
        if isinstance(step, int):
            return True
        self._wait_for(step)
        return False

    def _wait_for(self, step: Pending[Any]) -> None:
        if type(step) is ThreadCall:
            self._in_thread = True
            try:
                self._schedule.call_in_thread(step)
            except Exception as error:  # noqa: BLE001 - the coroutine gets it
                step.fail(error)
        else:
            self.awaits_result = True
        step.on_done(self._resume)

    def _resume(self, done: Pending[Any]) -> None:
        self._in_thread = self.awaits_result = False
        if self._is_cancelled:
            self._close()
        else:
            self._schedule.add_first(self)

    def abandon(self, error: Exception) -> None:
        """Raise what `on_end` has raised: the work has ended."""
        raise error

    def cancel(self) -> None:
        """End now, or when the unit or the thread that runs has ended."""
        if not self._is_cancelled:
            self._is_cancelled = True
            if not (self._is_running or self._in_thread):
                self._close()

    def _close(self) -> None:
        waiting, self._coroutine = self._coroutine, None
        if waiting is None:
            return
        try:
            waiting.close()
        except Exception:
            logger.exception("work that was cancelled failed")
        finally:
            self._on_end(None)


Procedure = Callable[[], Coroutine[Any, Any, T]]


class SerialQueue:
    """Runs procedures one at a time, in order: Kafka's controller event thread, without a thread.

    Since no two interleave, the memory that a procedure has read does not change until it ends;
    what other nodes may change meanwhile is guarded by versions.  A procedure goes on within the
    call that completes what it waits for.

    expected  exceptions that end a procedure and fail its pending; any other is a bug and is raised
              in the caller

    The queue is bounded by its sources: a one-shot watch adds one procedure, and the broker bounds
    the requests that it admits.
    """

    __slots__ = ("_defer", "_expected", "_is_running", "_left", "_units", "_waiting")

    def __init__(self, *expected: type[Exception]) -> None:
        self._expected = expected
        self._defer: Defer | None = None
        self._units = 0
        """Units of work in this turn of the loop."""
        self._left = 0
        """Units of the last pause."""
        self._waiting: deque[tuple[Procedure[Any], Pending[Any]]] = deque()
        self._is_running = False

    def serve(self, defer: Defer) -> None:
        """Clients are served from now on: long procedures are divided.

        Before, at the start, a procedure that waits for nothing else is done when `submit` returns.
        """
        self._defer = defer

    def submit(self, procedure: Procedure[T], *, is_urgent: bool = False) -> Pending[T]:
        """Run after the waiting procedures; an urgent one before them, after the running one."""
        pending: Pending[T] = Pending()
        if is_urgent:
            self._waiting.appendleft((procedure, pending))
        else:
            self._waiting.append((procedure, pending))
        if not self._is_running:
            self._units = 0
            self._run()
        return pending

    def _run(self) -> None:
        while self._waiting and not self._is_running:
            procedure, pending = self._waiting.popleft()
            self._is_running = True
            self._begin(procedure(), pending)

    def _begin(self, waiting: Coroutine[Any, Any, T], pending: Pending[T]) -> None:
        is_in_loop = True

        def on_end(done: Pending[T] | None) -> None:
            assert done is not None, "procedures are not cancelled"
            self._is_running = False
            with suppress(*self._expected):
                done.result()
            pending.settle_as(done)
            if not is_in_loop:
                self._run()

        Work(self, waiting, on_end).start()
        is_in_loop = False

    # `Schedule`: turns of so many units, since decisions have no clock.

    def passes(self, units: int, deadline_ns: int) -> bool:
        """Count the units; whether they are left to a later turn."""
        self._left = units
        self._units += units
        return self._units > TURN_UNITS and self._defer is not None

    def first_deadline_ns(self) -> int:
        """Not used: units are counted."""
        return 0

    def add_first(self, runnable: Runnable) -> None:
        """Go on now, within the call that completes what was awaited."""
        self._units = 0
        if runnable.run_slice(0):
            self.add(runnable)

    def add(self, runnable: Runnable) -> None:
        """Go on in a later turn, with the units that this one has left to it."""
        assert self._defer is not None, "no turn ends before clients are served"

        def go_on() -> None:
            self._units = self._left
            if runnable.run_slice(0):
                self.add(runnable)

        self._defer(go_on)

    def call_in_thread(self, call: ThreadCall[Any]) -> None:
        """Decisions have no threads."""
        raise AssertionError("a procedure awaits no thread")
