"""The handshakes of a server that are under way: how many there may be, and how long.

Differs from Kafka, where a handshake may take connections.max.idle.ms from the last byte that the
client has sent: a client that sends a byte a minute holds its connection for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Container
from typing import Final

from odradek.broker.server.tls_connection import TlsConnection
from odradek.runtime.metrics import BrokerMetrics

HANDSHAKES_MAX: Final = 1_024
"""Under way at once; one more ends the oldest of them."""
HANDSHAKE_TIMEOUT_MS: Final = 30_000
"""Kafka's clients wait as long for a connection (socket.connection.setup.timeout.max.ms)."""

logger = logging.getLogger("odradek.server")


class Handshakes:
    """Handshakes with the clients of all TLS listeners of a node."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metrics: BrokerMetrics,
        now_ms: Callable[[], int],
        *,
        sasl_listeners: Container[str] = (),
        handshakes_max: int = HANDSHAKES_MAX,
        timeout_ms: int = HANDSHAKE_TIMEOUT_MS,
    ) -> None:
        """sasl_listeners  names of those whose clients authenticate after the handshake"""
        self._loop = loop
        self._sasl_listeners = sasl_listeners
        self._metrics = metrics
        self._now_ms = now_ms
        self._handshakes_max = handshakes_max
        self._timeout_ms = timeout_ms
        self._under_way: OrderedDict[TlsConnection, int] = OrderedDict()
        """Connection -> when its handshake must be over, in their order."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, connection: TlsConnection) -> None:
        """A client has connected."""
        while len(self._under_way) >= self._handshakes_max:
            oldest = next(iter(self._under_way))
            self.failed(oldest, f"{self._handshakes_max} handshakes are under way")
            oldest.close()
        self._under_way[connection] = self._now_ms() + self._timeout_ms
        self._watch()

    def established(self, connection: TlsConnection) -> None:
        self._under_way.pop(connection, None)
        self._metrics.ssl_handshakes += 1
        listener = connection.listener_name
        if listener not in self._sasl_listeners:
            self._metrics.listener(listener).successful_authentications += 1

    def failed(self, connection: TlsConnection, reason: str) -> None:
        self._metrics.failed_ssl_handshakes += 1
        self._metrics.listener(connection.listener_name).failed_authentications += 1
        if connection.plaintext is not None:
            logger.warning(
                "closing %s on %s, which speaks TLS: the client sent %s",
                connection.client_host,
                connection.listener_name,
                connection.plaintext,
            )
            return
        logger.warning(
            "Failed authentication with %s on %s (SSL handshake failed): %s",
            connection.client_host,
            connection.listener_name,
            reason,
        )

    def ended(self, connection: TlsConnection) -> None:
        self._under_way.pop(connection, None)

    def _watch(self) -> None:
        """Wake up for the oldest handshake, if any is under way."""
        if self._timer is None and self._under_way:
            deadline_ms = next(iter(self._under_way.values()))
            delay_s = max(0, deadline_ms - self._now_ms()) / 1000
            self._timer = self._loop.call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        while self._under_way:
            connection, deadline_ms = next(iter(self._under_way.items()))
            if deadline_ms > now_ms:
                break
            self.failed(connection, f"it took more than {self._timeout_ms} ms")
            connection.close()
        self._watch()

    def close(self) -> None:
        """The server has closed its connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
