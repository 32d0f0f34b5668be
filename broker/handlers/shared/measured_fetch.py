"""A consumer's fetch whose bytes are limited.

A response over the quota is not sent: the client gets an empty one with the throttle time, and its
fetch session does not change.
Source: Kafka's KafkaApis.handleFetchRequest, FetchSession.getThrottledResponse.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context
from odradek.broker.replication.fetch_session import FetchPlan, PartitionKey, SentOffsets
from odradek.protocol.messages.fetch import FetchResponse

ROW_BYTES = 40
"""About what a partition takes in a response besides its records."""


class MeasuredPlan:
    """A plan whose session changes when the response is sent."""

    __slots__ = ("_context", "_plan", "_sent", "has_session", "session_id")

    def __init__(self, context: Context, plan: FetchPlan) -> None:
        self._context = context
        self._plan = plan
        self._sent: list[tuple[PartitionKey, SentOffsets, bool]] = []
        self.has_session = plan.has_session
        self.session_id = plan.session_id

    def sent(self, key: PartitionKey) -> SentOffsets | None:
        return self._plan.sent(key)

    def must_respond_with(self, key: PartitionKey, offsets: SentOffsets, *, has_news: bool) -> bool:
        return self._plan.must_respond_with(key, offsets, has_news=has_news)

    def on_response(self, key: PartitionKey, offsets: SentOffsets, *, has_records: bool) -> None:
        self._sent.append((key, offsets, has_records))

    def throttled(self, response: FetchResponse) -> FetchResponse | None:
        """The empty response to send instead; None when the quota is not exceeded."""
        context = self._context
        services = context.services
        quota = services.client_quotas.fetch
        user, client_id = context.principal.name, context.client_id or ""
        now_ms = services.clock.monotonic_ms()
        size = sum(
            ROW_BYTES + len(partition.records or b"")
            for topic in response.responses
            for partition in topic.partitions
        )
        throttle_ms = quota.record(user, client_id, size, now_ms)
        if not throttle_ms:
            for key, offsets, has_records in self._sent:
                self._plan.on_response(key, offsets, has_records=has_records)
            return None
        quota.record(user, client_id, -size, now_ms)
        session_id = self.session_id
        if not self._plan.is_incremental:
            services.fetching.sessions.close(session_id)
            session_id = 0
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id, responses=[])
