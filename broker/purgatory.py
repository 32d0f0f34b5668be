"""The purgatory: requests that wait for something to move, or for their time to be up.

One dict of waiting operations per watched key, deadlines on the node's timing wheel.  An operation
is answered exactly once; answering takes it off every key and off the wheel.  One that fails keeps
no other from being asked.
Source: Kafka's DelayedOperationPurgatory.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Final, Protocol

from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.timers import Timer

SLICE_NS: Final = 2_000_000

logger = logging.getLogger("odradek.server")


@dataclass(slots=True)
class Delayed:
    """The answer waits until a watched key is notified, or its time is up.

    `attempt` is asked once at parking and after each notification; None means: wait on.
    `expire` gives the answer when the time is up.  Either may return steps that make the response.
    Neither may keep a view into the request's memory, which is reused as soon as the handler has
    returned.
    """

    watch: tuple[Hashable, ...]
    timeout_ms: int
    attempt: Callable[[], Any | None]
    expire: Callable[[], Any]


class Wheel(Protocol):
    """Where deadlines go: the timing wheel or what drives it."""

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """A timer."""


class Operation:
    """A parked request."""

    __slots__ = ("_purgatory", "answer", "delayed", "on_lost", "timer")

    def __init__(
        self,
        purgatory: Purgatory,
        delayed: Delayed,
        answer: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._purgatory = purgatory
        self.delayed = delayed
        self.answer: Callable[[Any], None] | None = answer
        self.on_lost = on_lost
        self.timer: Timer | None = None

    def cancel(self) -> None:
        """Wait no more, without a response."""
        self._purgatory.forget(self)


class Purgatory:
    """Parked operations by watched key."""

    def __init__(self, wheel: Wheel, metrics: BrokerMetrics) -> None:
        self._wheel = wheel
        self._metrics = metrics
        self._waiting: dict[Hashable, dict[Operation, None]] = {}
        self._notified: dict[Hashable, None] = {}
        self._asking: deque[Operation] = deque()
        """Operations of keys that were notified, not asked yet."""
        self.on_more: Callable[[], None] = lambda: None
        """Called when more are to be asked than fit into a slice; it has `run_notified` called."""

    def park(
        self,
        delayed: Delayed,
        monotonic_ms: int,
        answer: Callable[[Any], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> Operation | None:
        """Wait, unless the attempt succeeds now; returns None when it was answered at once.

        monotonic_ms  the wheel's time
        answer        called once with the response
        on_lost       called when there will be none: asking for it has failed, or `answer` has
        """
        response = delayed.attempt()
        if response is None and delayed.timeout_ms <= 0:
            response = delayed.expire()
        if response is not None:
            answer(response)
            return None
        operation = Operation(self, delayed, answer, on_lost)
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
        """Ask the operations of all notified keys, each once.

        Answers may notify further keys; those are asked in the same call, which ends after a slice
        of time all the same.
        """
        asking = self._asking
        if not asking and not self._notified:
            return
        end_ns = 0
        while asking or self._notified:
            if not asking:
                self._gather()
                continue
            operation = asking.popleft()
            if operation.answer is None:
                continue
            self._ask(operation, operation.delayed.attempt)
            now_ns = monotonic_ns()
            if not end_ns:
                end_ns = now_ns + SLICE_NS
            elif now_ns >= end_ns:
                break
        if asking or self._notified:
            self.on_more()

    def _gather(self) -> None:
        """The operations of the notified keys, without repetition."""
        keys, self._notified = self._notified, {}
        if len(keys) == 1:
            (key,) = keys
            self._asking.extend(self._waiting.get(key, ()))
            return
        operations: dict[Operation, None] = {}
        for key in keys:
            operations.update(self._waiting.get(key, {}))
        self._asking.extend(operations)

    def run_slice(self, deadline_ns: int) -> bool:
        """Go on with what the last slice has left; `on_more` asks for the next."""
        self.run_notified()
        return False

    def abandon(self, error: Exception) -> None:
        """A slice has failed: the next notification goes on."""

    def _ask(self, operation: Operation, ask: Callable[[], Any | None]) -> None:
        try:
            response = ask()
            if response is not None:
                self._finish(operation, response)
        except Exception:
            logger.exception("an operation that waited failed")
            self._lose(operation)

    def _lose(self, operation: Operation) -> None:
        """Answer a failed operation as one whose time is up, if that can be done."""
        answer = operation.answer
        if answer is not None:
            self._remove(operation)
            try:
                answer(operation.delayed.expire())
                return
            except Exception:
                logger.exception("a failed operation has no answer")
        operation.on_lost()

    def forget(self, operation: Operation) -> None:
        """Drop an operation without an answer (its connection is gone)."""
        if operation.answer is not None:
            self._remove(operation)

    def _expire(self, operation: Operation) -> None:
        if operation.answer is not None:
            self._ask(operation, operation.delayed.expire)

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
            # The timer names the operation: as a cycle they would keep the request.
            operation.timer = None
        for key in operation.delayed.watch:
            operations = self._waiting.get(key)
            if operations is not None:
                operations.pop(operation, None)
                if not operations:
                    del self._waiting[key]
