"""Requests that wait."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
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
        self.purgatory = Purgatory(self.wheel, self.metrics)
        self.answers: list[Any] = []
        self.ready: dict[str, bool] = {}

    def park(self, name: str, *keys: str, timeout_ms: int = 100) -> None:
        self.purgatory.park(
            Delayed(
                keys,
                timeout_ms,
                lambda: name if self.ready.get(name) else None,
                lambda: f"{name} expired",
            ),
            self.wheel.now_ms,
            self.answers.append,
        )

    def at(self, now_ms: int) -> None:
        for callback in self.wheel.advance(now_ms):
            callback()


def test_what_is_ready_is_answered_without_waiting() -> None:
    world = World()
    world.ready["a"] = True
    world.park("a", "key")
    assert world.answers == ["a"]
    assert world.metrics.delayed_requests == 0


def test_a_request_without_time_is_answered_at_once() -> None:
    world = World()
    world.park("a", "key", timeout_ms=0)
    assert world.answers == ["a expired"]


def test_a_notified_key_wakes_those_who_watch_it_and_only_once() -> None:
    world = World()
    world.park("a", "one", "two")
    world.park("b", "two")
    world.purgatory.notify("two")
    world.purgatory.run_notified()
    assert world.answers == []
    world.ready = {"a": True, "b": True}
    world.purgatory.notify("one")
    world.purgatory.notify("two")
    world.purgatory.run_notified()
    assert world.answers == ["a", "b"]
    world.at(1_000)
    assert world.answers == ["a", "b"]
    assert world.metrics.delayed_requests == 0
    assert not world.purgatory.is_watched("two")


def test_time_is_up_at_the_deadline_and_not_before() -> None:
    world = World()
    world.park("a", "key", timeout_ms=100)
    world.at(99)
    assert world.answers == []
    world.at(100)
    assert world.answers == ["a expired"]
    assert not world.purgatory.is_watched("key")


def test_a_forgotten_request_is_never_answered() -> None:
    world = World()
    delayed = Delayed(("key",), 100, lambda: None, lambda: "late")
    operation = world.purgatory.park(delayed, 0, world.answers.append)
    assert operation is not None
    world.purgatory.forget(operation)
    world.purgatory.forget(operation)
    world.purgatory.notify("key")
    world.purgatory.run_notified()
    world.at(1_000)
    assert world.answers == []
    assert world.metrics.delayed_requests == 0


def test_an_answer_may_notify_further_keys() -> None:
    world = World()
    world.park("second", "two")

    def answer(response: str) -> None:
        world.answers.append(response)
        world.ready["second"] = True
        world.purgatory.notify("two")

    ready: list[bool] = []
    world.purgatory.park(
        Delayed(("one",), 100, lambda: "first" if ready else None, lambda: "late"), 0, answer
    )
    ready.append(True)
    world.purgatory.notify("one")
    world.purgatory.run_notified()
    assert world.answers == ["first", "second"]


def broken() -> Any:
    raise RuntimeError("asked in vain")


def test_an_operation_that_fails_ends_as_one_whose_time_is_up_and_the_others_are_asked() -> None:
    world = World()
    world.purgatory.park(
        Delayed(("key",), 100, lambda: None, lambda: "late"), 0, world.answers.append
    )
    failing = iter([None])
    world.purgatory.park(
        Delayed(("key",), 100, lambda: next(failing), lambda: "given up"), 0, world.answers.append
    )
    world.ready["a"] = False
    world.park("a", "key")
    world.ready["a"] = True
    world.purgatory.notify("key")
    world.purgatory.run_notified()
    assert world.answers == ["given up", "a"]
    assert world.metrics.delayed_requests == 1


def test_an_operation_without_any_answer_is_reported_lost() -> None:
    world = World()
    lost: list[str] = []
    world.purgatory.park(
        Delayed(("key",), 100, lambda: None, broken),
        0,
        world.answers.append,
        lambda: lost.append("a"),
    )

    def refuse(response: Any) -> None:
        raise RuntimeError(f"{response} reaches no one")

    world.purgatory.park(
        Delayed(("key",), 100, lambda: None, lambda: "late"), 0, refuse, lambda: lost.append("b")
    )
    world.at(100)
    assert lost == ["a", "b"]
    assert world.metrics.delayed_requests == 0


def test_asking_many_operations_ends_after_a_slice_and_goes_on_later() -> None:
    world = World()
    more: list[None] = []
    world.purgatory.on_more = lambda: more.append(None)

    def slow() -> str:
        return str(sum(range(20_000)))

    asked: list[str] = []

    def attempt() -> None:
        asked.append(slow())

    for _ in range(200):
        world.purgatory.park(Delayed(("key",), 100, attempt, slow), 0, world.answers.append)
    asked.clear()
    world.purgatory.notify("key")
    world.purgatory.run_notified()
    assert 0 < len(asked) < 200
    while more:
        more.clear()
        world.purgatory.run_notified()
    assert len(asked) == 200


class Request:
    """What a client has sent."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Only counted references keep anything, as in a broker for a long time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("end", ["notified", "expired", "forgotten"])
def test_a_request_that_has_its_response_is_not_kept(end: str) -> None:
    world = World()
    request = Request()
    seen = weakref.ref(request)
    operation = world.purgatory.park(
        Delayed(("key",), 100, lambda request=request: world.ready.get(end), lambda: "late"),
        world.wheel.now_ms,
        world.answers.append,
    )
    assert operation is not None
    if end == "forgotten":
        world.purgatory.forget(operation)
    world.ready[end] = True
    del request, operation
    world.purgatory.notify("key")
    if end == "notified":
        world.purgatory.run_notified()
    world.at(100)
    assert seen() is None
