"""GetTelemetrySubscriptions (key 71): lists the metrics that the cluster wants from a client.

Introduced by KIP-714.

Source: kafka.apache.org/protocol, GetTelemetrySubscriptions.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid = field("uuid", "0+")
    """Zero at the first request; the response has one."""


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    client_instance_id: Uuid = field("uuid", "0+")
    subscription_id: int = field("int32", "0+")
    accepted_compression_types: list[int] = field(["int8"], "0+")
    push_interval_ms: int = field("int32", "0+")
    telemetry_max_bytes: int = field("int32", "0+")
    delta_temporality: bool = field("bool", "0+")
    requested_metrics: list[str] = field(["string"], "0+")
