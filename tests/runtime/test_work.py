"""Work that waits: results, pauses and threads, in slices that the test gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.runtime.pending import Pending
from odradek.runtime.scheduler import SLICE_NS, Scheduler
from odradek.runtime.work import SerialQueue, ThreadCall, Work, in_thread, pause, resumed


class Turns:
    """Turns of a loop, on a clock that stands still, and threads that end when the test says."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._deferred: list[Callable[[], None]] = []
        self.calls: list[ThreadCall[Any]] = []
        self.scheduler = Scheduler(
            self._deferred.append,
            "tests",
            now_ns=lambda: self.now_ns,
            call_in_thread=self.calls.append,
        )
        self.ended: list[Pending[Any] | None] = []

    def begin(self, work: Any) -> Work[Any]:
        begun = Work(self.scheduler, work, self.ended.append)
        begun.start()
        return begun

    def run(self) -> int:
        """Until nothing is left to do; the number of turns."""
        turns = 0
        while self._deferred:
            callbacks, self._deferred[:] = list(self._deferred), []
            for callback in callbacks:
                callback()
            turns += 1
        return turns

    def result(self) -> Any:
        (done,) = self.ended
        assert done is not None
        return done.result()


def test_work_that_waits_for_nothing_ends_within_the_call() -> None:
    turns = Turns()

    async def work() -> int:
        await pause()
        return await Pending.of(1) + await Pending.of(2)

    turns.begin(work())
    assert turns.result() == 3


def test_work_goes_on_in_the_turn_after_the_result_that_it_awaits() -> None:
    """Its cost and its errors do not reach the caller that completes the result."""
    turns = Turns()
    awaited: Pending[int] = Pending()

    async def work() -> float:
        return 1 / await awaited

    turns.begin(work())
    awaited.resolve(0)
    assert turns.ended == []
    turns.run()
    with pytest.raises(ZeroDivisionError):
        turns.result()


def test_failure_of_a_result_is_raised_where_it_is_awaited() -> None:
    turns = Turns()
    first: Pending[int] = Pending()

    async def work() -> list[object]:
        seen: list[object] = []
        try:
            await first
        except OSError as error:
            seen.append(str(error))
        return [*seen, await in_thread(lambda: 7)]

    turns.begin(work())
    first.fail(OSError("lost"))
    turns.run()
    (call,) = turns.calls
    call.resolve(call.function())
    turns.run()
    assert turns.result() == ["lost", 7]


def test_function_in_a_thread_raises_where_it_is_awaited() -> None:
    turns = Turns()

    async def work() -> str:
        try:
            await in_thread(lambda: None)
        except MemoryError:
            return "caught"
        return "not raised"

    turns.begin(work())
    turns.calls[0].fail(MemoryError())
    turns.run()
    assert turns.result() == "caught"


def test_slice_ends_at_a_pause_only() -> None:
    turns = Turns()

    async def work() -> None:
        for _ in range(3):
            turns.now_ns += SLICE_NS
            await pause()

    turns.begin(work())
    assert turns.ended == []
    assert turns.run() == 3
    assert len(turns.ended) == 1


def test_cancelled_work_ends_at_once_while_it_awaits_a_result() -> None:
    turns = Turns()
    awaited: Pending[int] = Pending()
    released: list[str] = []

    async def work() -> None:
        try:
            await awaited
        finally:
            released.append("released")

    work_begun = turns.begin(work())
    work_begun.cancel()
    assert (turns.ended, released) == ([None], ["released"])
    awaited.resolve(1)
    assert turns.run() <= 1
    assert turns.ended == [None]


def test_cancelled_work_ends_when_its_thread_has_ended() -> None:
    turns = Turns()

    async def work() -> None:
        await in_thread(lambda: None)
        raise AssertionError("it is cancelled")

    work_begun = turns.begin(work())
    work_begun.cancel()
    assert turns.ended == []
    turns.calls[0].resolve(None)
    turns.run()
    assert turns.ended == [None]


def test_work_that_cancels_itself_ends_at_its_next_pause() -> None:
    turns = Turns()
    begun: list[Work[Any]] = []
    units: list[int] = []

    async def work() -> None:
        await Pending.of(None)
        for unit in range(3):
            units.append(unit)
            if begun:
                begun[0].cancel()
            turns.now_ns += SLICE_NS
            await pause()

    begun.append(turns.begin(work()))
    turns.run()
    assert turns.ended == [None]
    assert units == [0, 1]


def test_rest_of_a_coroutine_is_resumed_after_the_step_that_it_has_yielded() -> None:
    turns = Turns()
    awaited: Pending[int] = Pending()

    async def work() -> int:
        await pause()
        first = await awaited
        await pause()
        return first + await in_thread(lambda: 1)

    begun = work()
    assert begun.send(None) == 1
    step = begun.send(None)
    assert step is awaited

    async def rest() -> int:
        return 10 * await resumed(begun, step)

    turns.begin(rest())
    awaited.resolve(1)
    turns.run()
    turns.calls[0].resolve(1)
    turns.run()
    assert turns.result() == 20


def test_many_procedures_that_wait_for_nothing_need_no_deep_stack() -> None:
    queue = SerialQueue()
    gate: Pending[None] = Pending()
    count = 10_000
    ran: list[int] = []

    async def wait() -> None:
        await gate

    async def note(number: int) -> None:
        await pause()
        ran.append(number)

    queue.submit(wait)
    for number in range(count):
        queue.submit(lambda number=number: note(number))  # type: ignore[misc]
    gate.resolve(None)
    assert ran == list(range(count))
