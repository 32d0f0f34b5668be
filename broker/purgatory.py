"""The purgatory: requests that wait until a watched key is notified, or their time is up.

One dict of parked requests per watched key, deadlines on the node's timing wheel.  A parked request
gets exactly one response, which takes it off every key and off the wheel.  An exception in one of
them does not keep the others from being attempted.
Source: Kafka's DelayedOperationPurgatory.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Protocol

from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.scheduler import SLICE_NS
from odradek.runtime.timers import Timer

logger = logging.getLogger("odradek.server")


@dataclass(slots=True)
class Delayed:
    """The response waits until a watched key is notified, or its time is up.

    attempt   called at parking and after each notification; returns the response, or None: not yet
    expire    returns the response when the time is up
    is_tried  the handler has made the attempt at parking itself

    Both may return a coroutine that makes the response.  Neither may keep a view into the request's
    memory, which is reused as soon as the handler has returned.
    """

    watch: tuple[Hashable, ...]
    timeout_ms: int
    attempt: Callable[[], Any | None]
    expire: Callable[[], Any]
    is_tried: bool = False


class DelayedOperation(Protocol):
    """What the purgatory uses of a `Delayed`."""

    watch: tuple[Hashable, ...]
    timeout_ms: int
    is_tried: bool

    def attempt(self) -> Any | None:
        """The response, or None: not yet."""

    def expire(self) -> Any:
        """The response when the time is up."""


class Wheel(Protocol):
    """Where deadlines go: the timing wheel, or its driver."""

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """A timer that calls back once."""


class ParkedRequest:
    """A request in the purgatory; `respond` is None once it has its response.

    Every object that it consists of is walked by each full garbage collection.
    """

    __slots__ = ("_purgatory", "delayed", "on_lost", "respond", "timer")

    def __init__(
        self,
        purgatory: Purgatory,
        delayed: DelayedOperation,
        respond: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._purgatory = purgatory
        self.delayed = delayed
        self.respond: Callable[[Any], None] | None = respond
        self.on_lost = on_lost
        self.timer: Timer | None = None

    def cancel(self) -> None:
        """Wait no more, without a response (the connection is closed)."""
        if self.respond is not None:
            self._purgatory.remove(self)

    def on_timeout(self) -> None:
        """The time is up."""
        if self.respond is not None:
            self._purgatory.try_complete(self, self.delayed.expire)


class Purgatory:
    """Parked requests by watched key."""

    def __init__(
        self, wheel: Wheel, metrics: BrokerMetrics, ask_for_slice: Callable[[Purgatory], None]
    ) -> None:
        """ask_for_slice  called when more are due than fit into a slice; has `run_slice` called"""
        self._ask_for_slice = ask_for_slice
        self._wheel = wheel
        self._metrics = metrics
        self.watchers: dict[Hashable, dict[ParkedRequest, None]] = {}
        """Keys without parked requests have no entry."""
        self._notified: dict[Hashable, None] = {}
        self._due: deque[ParkedRequest] = deque()
        """Parked requests of keys that were notified, not attempted yet."""

    def park(
        self,
        delayed: DelayedOperation,
        monotonic_ms: int,
        respond: Callable[[Any], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> ParkedRequest | None:
        """Wait, unless the attempt succeeds now; returns None when `respond` was called at once.

        monotonic_ms  the wheel's time
        respond       called once with the response
        on_lost       called instead when `expire` has failed, or after `respond` has failed
        """
        response = None if delayed.is_tried else delayed.attempt()
        if response is None and delayed.timeout_ms <= 0:
            response = delayed.expire()
        if response is not None:
            respond(response)
            return None
        parked = ParkedRequest(self, delayed, respond, on_lost)
        for key in delayed.watch:
            self.watchers.setdefault(key, {})[parked] = None
        parked.timer = self._wheel.add(monotonic_ms + delayed.timeout_ms, parked.on_timeout)
        self._metrics.delayed_requests += 1
        return parked

    def notify(self, key: Hashable) -> None:
        """Have the requests that watch `key` attempted at the next `run_notified`."""
        if key in self.watchers:
            self._notified[key] = None

    def run_notified(self) -> None:
        """Attempt the requests of all notified keys, each once.

        A response may notify further keys; their requests are attempted in the same call.  It ends
        after a slice of time all the same, and asks for the next one.
        """
        if (self._due or self._notified) and self.run_slice(monotonic_ns() + SLICE_NS):
            self._ask_for_slice(self)

    def _gather(self) -> None:
        """Make the requests of the notified keys due, each once."""
        keys, self._notified = self._notified, {}
        if len(keys) == 1:
            (key,) = keys
            self._due.extend(self.watchers.get(key, ()))
            return
        requests: dict[ParkedRequest, None] = {}
        for key in keys:
            requests.update(self.watchers.get(key, {}))
        self._due.extend(requests)

    def run_slice(self, deadline_ns: int) -> bool:
        """Attempt requests until the deadline; True asks for another slice."""
        due = self._due
        while due or self._notified:
            if not due:
                self._gather()
                continue
            parked = due.popleft()
            if parked.respond is not None:
                self.try_complete(parked, parked.delayed.attempt)
                if monotonic_ns() >= deadline_ns:
                    break
        return bool(due or self._notified)

    def abandon(self, error: Exception) -> None:
        """A slice has failed: the next notification continues."""

    def try_complete(self, parked: ParkedRequest, make: Callable[[], Any | None]) -> None:
        """Respond with what `make` returns, if anything."""
        try:
            response = make()
            if response is not None:
                respond = parked.respond
                assert respond is not None, "a parked request gets one response"
                self.remove(parked)
                respond(response)
        except Exception:
            logger.exception("a request in the purgatory failed")
            self._lose(parked)

    def _lose(self, parked: ParkedRequest) -> None:
        """Respond to a failed request as to one whose time is up, if that is possible."""
        respond = parked.respond
        if respond is not None:
            self.remove(parked)
            try:
                respond(parked.delayed.expire())
                return
            except Exception:
                logger.exception("a request in the purgatory gets no response")
        parked.on_lost()

    def remove(self, parked: ParkedRequest) -> None:
        """Take a request off its keys and off the wheel."""
        parked.respond = None
        self._metrics.delayed_requests -= 1
        if parked.timer is not None:
            parked.timer.cancel()
            # The timer refers to the request: as a cycle they would keep it.
            parked.timer = None
        for key in parked.delayed.watch:
            requests = self.watchers.get(key)
            if requests is not None:
                requests.pop(parked, None)
                if not requests:
                    del self.watchers[key]
