"""Requests that wait for a watched key, or until their time is up."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from odradek.broker.purgatory import Delayed, Purgatory
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.timers import TimingWheel


class World:
    """A purgatory on a wheel whose time the test moves."""

    def __init__(self) -> None:
        self.wheel = TimingWheel(0)
        self.metrics = BrokerMetrics()
        self.purgatory = Purgatory(self.wheel, self.metrics, self._ask_for_slice)
        self.slices = 0
        self._is_more = False
        self.responses: list[Any] = []
        self.ready: dict[str, bool] = {}

    def _ask_for_slice(self, purgatory: Purgatory) -> None:
        self._is_more = True

    def park(self, name: str, *keys: str, timeout_ms: int = 100) -> None:
        self.purgatory.park(
            Delayed(
                keys,
                timeout_ms,
                lambda: name if self.ready.get(name) else None,
                lambda: f"{name} expired",
            ),
            self.wheel.now_ms,
            self.responses.append,
        )

    def notify(self, *keys: str) -> None:
        """Notify and attempt, in as many slices as it takes."""
        for key in keys:
            self.purgatory.notify(key)
        self._is_more = True
        while self._is_more:
            self._is_more = False
            self.slices += 1
            self.purgatory.run_notified()

    def at(self, now_ms: int) -> None:
        for callback in self.wheel.advance(now_ms):
            callback()


def test_request_that_is_ready_gets_its_response_without_waiting() -> None:
    world = World()
    world.ready["a"] = True
    world.park("a", "key")
    assert world.responses == ["a"]
    assert world.metrics.delayed_requests == 0


def test_request_without_time_expires_at_once() -> None:
    world = World()
    world.park("a", "key", timeout_ms=0)
    assert world.responses == ["a expired"]


@pytest.mark.parametrize(("is_tried", "attempts"), [(False, [1, 2]), (True, [1])])
def test_request_that_its_handler_has_tried_is_not_attempted_at_parking(
    is_tried: bool, attempts: list[int]
) -> None:
    world = World()
    made: list[int] = []

    def attempt() -> None:
        made.append(len(made) + 1)

    delayed = Delayed(("key",), 100, attempt, lambda: "late", is_tried)
    world.purgatory.park(delayed, 0, world.responses.append)
    world.notify("key")
    assert made == attempts
    world.at(100)
    assert world.responses == ["late"]


def test_request_that_is_tried_and_has_no_time_expires_at_once() -> None:
    world = World()
    delayed = Delayed(("key",), 0, lambda: "ready", lambda: "late", is_tried=True)
    assert world.purgatory.park(delayed, 0, world.responses.append) is None
    assert world.responses == ["late"]


def test_notified_key_attempts_its_requests_and_each_gets_one_response() -> None:
    world = World()
    world.park("a", "one", "two")
    world.park("b", "two")
    world.notify("two")
    assert world.responses == []
    world.ready = {"a": True, "b": True}
    world.notify("one", "two")
    assert world.responses == ["a", "b"]
    world.at(1_000)
    assert world.responses == ["a", "b"]
    assert world.metrics.delayed_requests == 0
    assert world.purgatory.watchers == {}


def test_request_expires_at_its_deadline_and_not_before() -> None:
    world = World()
    world.park("a", "key", timeout_ms=100)
    world.at(99)
    assert world.responses == []
    world.at(100)
    assert world.responses == ["a expired"]
    assert world.purgatory.watchers == {}


def test_cancelled_request_gets_no_response() -> None:
    world = World()
    delayed = Delayed(("key",), 100, lambda: None, lambda: "late")
    parked = world.purgatory.park(delayed, 0, world.responses.append)
    assert parked is not None
    parked.cancel()
    parked.cancel()
    world.notify("key")
    world.at(1_000)
    assert world.responses == []
    assert world.metrics.delayed_requests == 0


def test_response_that_notifies_a_key_has_its_requests_attempted_too() -> None:
    world = World()
    world.park("second", "two")

    def respond(response: str) -> None:
        world.responses.append(response)
        world.ready["second"] = True
        world.purgatory.notify("two")

    ready: list[bool] = []
    world.purgatory.park(
        Delayed(("one",), 100, lambda: "first" if ready else None, lambda: "late"), 0, respond
    )
    ready.append(True)
    world.notify("one")
    assert world.responses == ["first", "second"]


def broken() -> Any:
    raise RuntimeError("on purpose")


def test_request_that_fails_expires_and_the_others_are_attempted() -> None:
    world = World()
    world.purgatory.park(
        Delayed(("key",), 100, lambda: None, lambda: "late"), 0, world.responses.append
    )
    failing = iter([None])
    world.purgatory.park(
        Delayed(("key",), 100, lambda: next(failing), lambda: "given up"), 0, world.responses.append
    )
    world.park("a", "key")
    world.ready["a"] = True
    world.notify("key")
    assert world.responses == ["given up", "a"]
    assert world.metrics.delayed_requests == 1


def test_request_that_can_get_no_response_is_reported_lost() -> None:
    world = World()
    lost: list[str] = []
    world.purgatory.park(
        Delayed(("key",), 100, lambda: None, broken),
        0,
        world.responses.append,
        lambda: lost.append("a"),
    )

    def refuse(response: Any) -> None:
        raise RuntimeError(f"{response} cannot be sent")

    world.purgatory.park(
        Delayed(("key",), 100, lambda: None, lambda: "late"), 0, refuse, lambda: lost.append("b")
    )
    world.at(100)
    assert lost == ["a", "b"]
    assert world.metrics.delayed_requests == 0


def test_attempts_of_many_requests_end_after_a_slice_and_continue_in_the_next() -> None:
    world = World()

    def slow() -> str:
        return str(sum(range(20_000)))

    attempted: list[str] = []

    def attempt() -> None:
        attempted.append(slow())

    for _ in range(200):
        world.purgatory.park(Delayed(("key",), 100, attempt, slow), 0, world.responses.append)
    attempted.clear()
    world.notify("key")
    assert len(attempted) == 200
    assert world.slices > 1


class Request:
    """What a client has sent."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Only counted references keep anything, as in a broker for a long time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("end", ["notified", "expired", "cancelled"])
def test_request_that_has_ended_is_not_kept(end: str) -> None:
    world = World()

    def attempt(_: Request) -> bool | None:
        return world.ready.get(end)

    request = Request()
    seen = weakref.ref(request)
    parked = world.purgatory.park(
        Delayed(("key",), 100, partial(attempt, request), lambda: "late"),
        world.wheel.now_ms,
        world.responses.append,
    )
    assert parked is not None
    if end == "cancelled":
        parked.cancel()
    world.ready[end] = True
    del request, parked
    if end == "notified":
        world.notify("key")
    else:
        world.purgatory.notify("key")
    world.at(100)
    assert seen() is None
