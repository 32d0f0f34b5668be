"""A connection that can end its responses as a fault says."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from odradek.broker.server.connection import Connection, release
from odradek.protocol.response_queue import ResponseSlot
from odradek.testing.node.faults.rules import FaultAction

CORRELATION_ID: Final = struct.Struct(">i")


class Ending(NamedTuple):
    """What happens when a response is ready, by the rule `number`."""

    action: FaultAction
    number: int
    mute_ms: int


class FaultyConnection(Connection):
    """A connection of a client of a broker for tests.

    It has no slots, so that a connection with TLS can inherit from it, too.
    """

    def __init__(
        self,
        *arguments: Any,
        after: Callable[[int, Callable[[], None]], object],
        on_stalled: Callable[[FaultyConnection], None],
        **keywords: Any,
    ) -> None:
        """
        after       calls back when so many milliseconds have passed
        on_stalled  a response will never be sent, nor any after it
        """
        self.endings: dict[int, Ending] = {}
        """By the correlation ids of requests at work."""
        self.stalled_by = 0
        """The number of the rule that has stalled it, or 0."""
        self._is_muted = False
        self._closes_when_sent = False
        self._after = after
        self._on_stalled = on_stalled
        super().__init__(*arguments, **keywords)

    @property
    def is_stalled(self) -> bool:
        return self.stalled_by > 0

    def stall(self, number: int) -> None:
        """Send nothing any more, and drop what is received."""
        self.stalled_by = number
        self._on_stalled(self)

    def end_with(self, correlation_id: int, ending: Ending) -> None:
        """Send the response to a request as `ending` says."""
        self.endings[correlation_id] = ending

    def respond(self, parts: list[Any]) -> None:
        """Send the response, unless its request has an ending."""
        if self._passes(parts):
            super().respond(parts)

    def fill(self, slot: ResponseSlot, parts: list[Any]) -> None:
        """Send the response of a request that has waited, unless it has an ending."""
        if self._passes(parts):
            super().fill(slot, parts)

    def _passes(self, parts: list[Any]) -> bool:
        if self.is_stalled:
            release(parts)
            return False
        if not self.endings or self.is_closed:
            return True
        (correlation_id,) = CORRELATION_ID.unpack_from(parts[0], 4)
        ending = self.endings.pop(correlation_id, None)
        if ending is None:
            return True
        match ending.action:
            case FaultAction.THROTTLE:
                self._mute(ending.mute_ms)
                return True
            case FaultAction.HALF_WRITTEN:
                self._send_half(parts, ending.number)
            case FaultAction.DROP:
                release(parts)
                self.stall(ending.number)
            case _:
                release(parts)
                self.close()
        return False

    def end_without_response(self, correlation_id: int) -> None:
        """The request has no response (Produce with acks=0)."""
        ending = self.endings.pop(correlation_id, None)
        match ending:
            case None:
                return
            case Ending(FaultAction.THROTTLE):
                self._mute(ending.mute_ms)
            case Ending(FaultAction.DROP):
                self.stall(ending.number)
            case _:
                self.close()

    def _send_half(self, parts: list[Any], number: int) -> None:
        contents = [part if type(part) is bytes else part.read() for part in parts]
        release(parts)
        content = b"".join(contents)
        self.stall(number)
        self._closes_when_sent = True
        self.transmitter.add([content[: len(content) // 2]])
        if not self._in_turn:
            self.flush()

    def _transmit(self) -> None:
        super()._transmit()
        if self._closes_when_sent and not self.transmitter.queue:
            self.close()

    def _mute(self, mute_ms: int) -> None:
        """Read no further request for a while, as Kafka's quotas do."""
        self._is_muted = True
        self._after(mute_ms, self._unmute)

    def _unmute(self) -> None:
        self._is_muted = False
        self.flush()

    def _is_full(self) -> bool:
        return self._is_muted or super()._is_full()
