"""Accepted sockets that wait: until they are served, or until they are closed.

Source: KIP-612; Kafka's Acceptor, DelayedCloseSocket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

THROTTLED_MAX: Final = 1_000
"""Sockets that wait; one more is closed at once.  Differs from Kafka: it has no bound."""


class ThrottledSockets:
    """The sockets of one server that wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}

    def hold(self, connected: socket.socket, throttle_ms: int, then: Callable[[], None]) -> None:
        """Call `then`, to which the socket belongs, after a time."""

        def end() -> None:
            del self._timers[connected]
            then()

        self._timers[connected] = self._loop.call_later(throttle_ms / 1_000, end)

    def close_later(self, connected: socket.socket, throttle_ms: int, most: int) -> None:
        """Close a socket after a time: its client connects again when it is closed.

        most  how many sockets may wait, `THROTTLED_MAX` at most
        """
        if len(self._timers) >= min(most, THROTTLED_MAX):
            connected.close()
        else:
            self.hold(connected, throttle_ms, connected.close)

    def close(self) -> None:
        """Close all of them."""
        for connected, timer in self._timers.items():
            timer.cancel()
            connected.close()
        self._timers.clear()
