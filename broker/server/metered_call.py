"""Requests while there are quotas: what they used is counted, and their clients are throttled.

The response says for how long, and goes out at once; the connection is muted meanwhile.
Exempt: requests between brokers.  The time of Produce with acks=0 is not limited, its bytes are.
Differs from Kafka: a Fetch over `request_percentage` alone has its records; there it is empty.
Source: Kafka's RequestHandlerHelper, KafkaApis.
"""

from __future__ import annotations

from typing import Any, Final

from odradek.broker.handlers.shared.produce_flat import with_throttle_time
from odradek.broker.quota.client_quotas import NS_TO_PERCENT
from odradek.broker.server.call import Call, LoadedApi
from odradek.broker.server.connection import Connection
from odradek.broker.server.transmit import Parts
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import RequestHeader

EXEMPT: Final = frozenset(
    (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
    )
)
"""Requests between brokers."""


class MeteredCall(Call):
    """A request that is counted."""

    __slots__ = ("_throttle",)

    def __init__(
        self,
        connection: Connection,
        header: RequestHeader,
        loaded: LoadedApi,
        request: object,
        size: int = 0,
    ) -> None:
        super().__init__(connection, header, loaded, request, size)
        self._throttle = connection.metered()
        self._throttle.begin()

    def encoded(self, response: object) -> Parts:
        """The parts of the response's frame, with the throttle time."""
        self.on_response(response)
        return super().encoded(response)

    def respond_encoded(self, body: bytes) -> None:
        """Send the encoded body of a Produce response."""
        throttle_ms = self._count(0)
        if throttle_ms:
            body = with_throttle_time(body, self.header.version, throttle_ms)
        super().respond_encoded(body)

    def on_no_response(self) -> None:
        """A Produce with acks=0 has ended."""
        self._count(0)

    def on_response(self, response: Any) -> None:
        """Count, and put the throttle time into the response."""
        decided_ms = getattr(response, "throttle_time_ms", 0)
        throttle_ms = self._count(decided_ms)
        if throttle_ms > decided_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms

    def _count(self, decided_ms: int) -> int:
        """Record what the request used, and mute; returns for how long.

        decided_ms  the throttle time of a handler's own quota
        """
        throttle_ms = decided_ms
        spent_ns = self._throttle.take_ns()
        key = self.header.api_key
        if key in EXEMPT or (key == ApiKey.FETCH and is_of_follower(self.request)):
            return throttle_ms
        user, client_id = self.connection.principal.name, self.header.client_id or ""
        services = self.loaded.services
        now_ms, quotas = services.clock.monotonic_ms(), services.client_quotas
        if key == ApiKey.PRODUCE:
            throttle_ms = quotas.produce.record(user, client_id, self.size, now_ms)
        if len(quotas.request.limits) and self.wants_response:
            percent = spent_ns * NS_TO_PERCENT
            throttle_ms = max(throttle_ms, quotas.request.record(user, client_id, percent, now_ms))
        if throttle_ms:
            self._throttle.mute(throttle_ms, now_ms)
        return throttle_ms


def is_of_follower(request: Any) -> bool:
    """Whether a Fetch is that of a replica."""
    if request is None:
        return False
    state = request.replica_state
    replica_id: int = request.replica_id if state is None else state.replica_id
    return replica_id >= 0
