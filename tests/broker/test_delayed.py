"""Requests that wait."""

from __future__ import annotations

from typing import Any

from broker.delayed import Purgatory
from broker.handlers.handler import Delayed
from runtime.metrics import BrokerMetrics
from runtime.timers import TimingWheel


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
    assert len(world.purgatory) == 0


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
    assert len(world.purgatory) == 0
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
    assert len(world.purgatory) == 0


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
