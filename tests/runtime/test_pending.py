"""Pendings, and procedures: one at a time, in order, whether results come at once or later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from odradek.controller.coordination.errors import PROCEDURE_ERRORS, NoNode
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import TURN_UNITS, SerialQueue, pause, shares


def test_awaiting_a_done_pending_never_suspends() -> None:
    async def run() -> int:
        return await Pending.of(1) + await Pending.of(2)

    done = SerialQueue(*PROCEDURE_ERRORS).submit(run)
    assert done.is_done
    assert done.result() == 3


def test_next_procedure_waits_for_a_suspended_one() -> None:
    procedures = SerialQueue(*PROCEDURE_ERRORS)
    first: Pending[int] = Pending()
    trace: list[str] = []

    async def slow() -> int:
        trace.append("slow begins")
        value = await first
        trace.append("slow ends")
        return value

    async def quick() -> None:
        trace.append("quick")

    slow_result = procedures.submit(slow)
    quick_result = procedures.submit(quick)
    assert trace == ["slow begins"]
    first.resolve(7)
    assert slow_result.result() == 7
    assert quick_result.is_done
    assert trace == ["slow begins", "slow ends", "quick"]


def test_urgent_procedure_runs_before_waiting_ones_and_after_the_running_one() -> None:
    procedures = SerialQueue(*PROCEDURE_ERRORS)
    gate: Pending[None] = Pending()
    trace: list[str] = []

    async def running() -> None:
        await gate
        trace.append("running")

    async def note(name: str) -> None:
        trace.append(name)

    procedures.submit(running)
    procedures.submit(lambda: note("waiting"))
    procedures.submit(lambda: note("urgent"), is_urgent=True)
    gate.resolve(None)
    assert trace == ["running", "urgent", "waiting"]


def test_procedure_submitted_within_another_runs_after_it() -> None:
    procedures = SerialQueue(*PROCEDURE_ERRORS)
    trace: list[str] = []

    async def inner() -> None:
        trace.append("inner")

    async def outer() -> None:
        procedures.submit(inner)
        trace.append("outer")

    procedures.submit(outer)
    assert trace == ["outer", "inner"]


def test_coordination_error_fails_the_pending_and_the_next_procedure_runs() -> None:
    procedures = SerialQueue(*PROCEDURE_ERRORS)
    gate: Pending[None] = Pending()

    async def failing() -> None:
        await gate

    async def fine() -> int:
        return 1

    failed = procedures.submit(failing)
    following = procedures.submit(fine)
    gate.fail(NoNode("/a"))
    with pytest.raises(NoNode):
        failed.result()
    assert following.result() == 1


def test_other_exception_is_raised_in_the_caller_and_the_next_procedure_runs() -> None:
    procedures = SerialQueue(*PROCEDURE_ERRORS)

    async def wrong() -> None:
        raise ZeroDivisionError

    async def fine() -> int:
        return 1

    with pytest.raises(ZeroDivisionError):
        procedures.submit(wrong)
    assert procedures.submit(fine).result() == 1


def test_long_procedure_is_divided_and_no_other_runs_in_between() -> None:
    procedures = SerialQueue(*PROCEDURE_ERRORS)
    turns: deque[Callable[[], None]] = deque()
    procedures.serve(turns.append)
    trace: list[object] = []

    async def long() -> None:
        for part in shares(range(3 * TURN_UNITS)):
            await pause(len(part))
            trace.append(len(part))

    async def short() -> None:
        trace.append("short")

    procedures.submit(long)
    procedures.submit(short)
    seen: list[list[object]] = []
    while turns:
        seen.append(list(trace))
        turns.popleft()()
    assert seen == [[TURN_UNITS], [TURN_UNITS] * 2]
    assert trace == [*[TURN_UNITS] * 3, "short"]


def test_small_works_of_several_procedures_share_a_turn() -> None:
    procedures = SerialQueue(*PROCEDURE_ERRORS)
    turns: deque[Callable[[], None]] = deque()
    procedures.serve(turns.append)
    gate: Pending[None] = Pending()
    done: list[int] = []

    async def wait() -> None:
        await gate

    async def small(number: int) -> None:
        await pause()
        done.append(number)

    procedures.submit(wait)
    for number in range(3 * TURN_UNITS):
        procedures.submit(partial(small, number))
    gate.resolve(None)
    lengths = [len(done)]
    while turns:
        turns.popleft()()
        lengths.append(len(done))
    assert done == list(range(3 * TURN_UNITS))
    assert max(later - before for before, later in pairwise(lengths)) <= TURN_UNITS + 1


def test_work_before_clients_are_served_is_done_within_the_call() -> None:
    procedures = SerialQueue(*PROCEDURE_ERRORS)

    async def long() -> int:
        for part in shares(range(3 * TURN_UNITS)):
            await pause(len(part))
        return 1

    assert procedures.submit(long).result() == 1


def test_settled_waits_for_all_and_keeps_their_order() -> None:
    resolved: Pending[int] = Pending()
    failed: Pending[int] = Pending()
    everything = settled([resolved, Pending.of(0), failed])
    failed.fail(NoNode("/b"))
    assert not everything.is_done
    resolved.resolve(1)
    first, middle, last = everything.result()
    assert (first.result(), middle.result()) == (1, 0)
    with pytest.raises(NoNode):
        last.result()


def test_settled_of_no_pendings_is_done() -> None:
    assert settled([]).is_done
