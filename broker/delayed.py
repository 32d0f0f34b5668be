"""The purgatory: requests that wait for something to move, or for their time to be up.

One dict of waiting operations per watched key, deadlines on the node's timing wheel.  An operation
is answered exactly once; answering takes it off every key and off the wheel.
Source: Kafka's DelayedOperationPurgatory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from broker.handlers.handler import Delayed
from runtime.metrics import BrokerMetrics
from runtime.timers import Timer


class Wheel(Protocol):
    """Where deadlines go: the timing wheel or what drives it."""

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """A timer."""


class Operation:
    """A parked request."""

    __slots__ = ("answer", "delayed", "timer")

    def __init__(self, delayed: Delayed, answer: Callable[[Any], None]) -> None:
        self.delayed = delayed
        self.answer: Callable[[Any], None] | None = answer
        self.timer: Timer | None = None


class Purgatory:
    """Parked operations by watched key."""

    def __init__(self, wheel: Wheel, metrics: BrokerMetrics) -> None:
        self._wheel = wheel
        self._metrics = metrics
        self._waiting: dict[Hashable, dict[Operation, None]] = {}
        self._notified: dict[Hashable, None] = {}

    def __len__(self) -> int:
        return self._metrics.delayed_requests

    def park(
        self, delayed: Delayed, monotonic_ms: int, answer: Callable[[Any], None]
    ) -> Operation | None:
        """Wait, unless the attempt succeeds now; returns None when it was answered at once.

        monotonic_ms  the wheel's time
        answer        called once with the response
        """
        response = delayed.attempt()
        if response is None and delayed.timeout_ms <= 0:
            response = delayed.expire()
        if response is not None:
            answer(response)
            return None
        operation = Operation(delayed, answer)
        for key in delayed.watch:
            self._waiting.setdefault(key, {})[operation] = None
        operation.timer = self._wheel.add(
            monotonic_ms + delayed.timeout_ms, lambda: self._expire(operation)
        )
        self._metrics.delayed_requests += 1
        return operation

    def is_watched(self, key: Hashable) -> bool:
        """Whether anything waits for `key`."""
        return key in self._waiting

    def notify(self, key: Hashable) -> None:
        """Something about `key` moved; its operations are asked at the next `run_notified`."""
        if key in self._waiting:
            self._notified[key] = None

    def run_notified(self) -> None:
        """Ask the operations of all notified keys.

        Answers may notify further keys; those are asked in the same call.
        """
        while self._notified:
            key = next(iter(self._notified))
            del self._notified[key]
            operations = self._waiting.get(key)
            if operations is None:
                continue
            for operation in tuple(operations):
                if operation.answer is None:
                    continue
                response = operation.delayed.attempt()
                if response is not None:
                    self._finish(operation, response)

    def forget(self, operation: Operation) -> None:
        """Drop an operation without an answer (its connection is gone)."""
        if operation.answer is not None:
            self._remove(operation)

    def _expire(self, operation: Operation) -> None:
        if operation.answer is not None:
            self._finish(operation, operation.delayed.expire())

    def _finish(self, operation: Operation, response: Any) -> None:
        answer = operation.answer
        assert answer is not None, "an operation is answered once"
        self._remove(operation)
        answer(response)

    def _remove(self, operation: Operation) -> None:
        operation.answer = None
        self._metrics.delayed_requests -= 1
        if operation.timer is not None:
            operation.timer.cancel()
        for key in operation.delayed.watch:
            operations = self._waiting.get(key)
            if operations is not None:
                operations.pop(operation, None)
                if not operations:
                    del self._waiting[key]
