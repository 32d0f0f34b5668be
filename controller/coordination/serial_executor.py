"""Runs procedures one at a time, in order: Kafka's controller event thread, without a thread.

A procedure is an `async def` function that awaits `runtime.pending.Pending` and nothing else.
This is not asyncio, and needs no event loop: `_step` sends into the coroutine, and a pending that
is awaited calls the next step when it is done.  Awaiting a done pending never suspends.

A procedure of thousands of equal steps awaits `Work` before each of them, so that the event loop
serves its clients meanwhile: after `TURN_UNITS` the rest runs in a later turn of the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from typing import Any, Final, TypeVar

from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.errors import BrokerError
from odradek.runtime.pending import Pending

T = TypeVar("T")

Procedure = Callable[[], Coroutine[Pending[Any], None, T]]
Defer = Callable[[Callable[[], None]], None]
"""Calls a function once, in a later turn of the event loop."""

TURN_UNITS: Final = 64
"""Units of `Work` in one turn of the event loop: 1 to 2 ms."""


class Work(Pending[None]):
    """Awaited before `units` of work: a unit is a partition that is decided, written or encoded.

    No other procedure of the executor runs in between.  What is not a procedure may: callbacks, and
    the procedures of other executors.  0.3 us.
    """

    __slots__ = ("units",)

    def __init__(self, units: int = 1) -> None:
        super().__init__()
        self.units = units

    def __await__(self) -> Generator[Pending[Any], None, None]:
        yield self


def shares(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """At most `TURN_UNITS` of the items at a time; `Work` is awaited before each share."""
    for start in range(0, len(items), TURN_UNITS):
        yield items[start : start + TURN_UNITS]


class SerialExecutor:
    """Runs procedures one at a time, in order.

    Since no two interleave, the memory that a procedure has read does not change until it ends;
    what other nodes may change meanwhile is guarded by versions.  A CoordinationError or a
    BrokerError ends the procedure and fails its pending; any other exception is a bug and is raised
    in the caller.

    The queue is bounded by its sources: a one-shot watch adds one procedure, and the broker bounds
    the requests that it admits.
    """

    __slots__ = ("_defer", "_is_running", "_units", "_waiting")

    def __init__(self) -> None:
        self._defer: Defer | None = None
        self._units = 0
        """Work in this turn of the loop."""
        self._waiting: deque[tuple[Callable[[], Coroutine[Any, Any, Any]], Pending[Any]]] = deque()
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
            self._step(procedure(), pending)

    def _step(self, coroutine: Coroutine[Pending[Any], None, T], pending: Pending[T]) -> None:
        suspended = False
        try:
            waits_for = coroutine.send(None)
            while isinstance(waits_for, Work) and not self._ends_turn(waits_for):
                waits_for = coroutine.send(None)
            suspended = True
        except StopIteration as stop:
            value = stop.value
        except (CoordinationError, BrokerError) as error:
            self._is_running = False
            pending.fail(error)
            return
        finally:
            if not suspended:
                self._is_running = False
        if not suspended:
            pending.resolve(value)
            return

        def resume() -> None:
            self._units = waits_for.units if isinstance(waits_for, Work) else 0
            self._step(coroutine, pending)
            self._run()

        if isinstance(waits_for, Work) and self._defer is not None:
            self._defer(resume)
        else:
            waits_for.on_done(lambda _: resume())

    def _ends_turn(self, work: Work) -> bool:
        """Count the work; whether it is left to a later turn."""
        self._units += work.units
        return self._units > TURN_UNITS and self._defer is not None
