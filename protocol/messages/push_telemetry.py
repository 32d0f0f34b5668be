"""PushTelemetry (key 72): brings metrics of a client.

Introduced by KIP-714.

Source: kafka.apache.org/protocol, PushTelemetry.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: Uuid = field("uuid", "0+")
    subscription_id: int = field("int32", "0+")
    terminating: bool = field("bool", "0+")
    compression_type: int = field("int8", "0+")
    """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    metrics: bytes = field("bytes", "0+")
    """OpenTelemetry MetricsData, compressed."""


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
