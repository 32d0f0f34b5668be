"""Runs procedures one at a time, in order: Kafka's controller event thread, without a thread.

A procedure is an `async def` function that awaits `runtime.pending.Pending` and nothing else.
This is not asyncio, and needs no event loop: `_step` sends into the coroutine, and a pending that
is awaited calls the next step when it is done.  Awaiting a done pending never suspends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.errors import BrokerError
from odradek.runtime.pending import Pending

T = TypeVar("T")

Procedure = Callable[[], Coroutine[Pending[Any], None, T]]


class SerialExecutor:
    """Runs procedures one at a time, in order.

    Since no two interleave, the memory that a procedure has read does not change until it ends;
    what other nodes may change meanwhile is guarded by versions.  A CoordinationError or a
    BrokerError ends the procedure and fails its pending; any other exception is a bug and is raised
    in the caller.

    The queue is bounded by its sources: a one-shot watch adds one procedure, and the broker bounds
    the requests that it admits.
    """

    __slots__ = ("_is_running", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Coroutine[Any, Any, Any]], Pending[Any]]] = deque()
        self._is_running = False

    def submit(self, procedure: Procedure[T], *, is_urgent: bool = False) -> Pending[T]:
        """Run after the waiting procedures; an urgent one before them, after the running one."""
        pending: Pending[T] = Pending()
        if is_urgent:
            self._waiting.appendleft((procedure, pending))
        else:
            self._waiting.append((procedure, pending))
        if not self._is_running:
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

        def resume(_: Pending[Any]) -> None:
            self._step(coroutine, pending)
            self._run()

        waits_for.on_done(resume)
