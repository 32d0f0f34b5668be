"""IncrementalAlterConfigs (key 44): changes single keys of the dynamic configuration.

    1   flexible encoding (KIP-482)

Introduced by KIP-339.

Source: kafka.apache.org/protocol, IncrementalAlterConfigs.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class AlterableConfig:
    name: str = field(STRING, "0+")
    config_operation: int = field(INT8, "0+")
    """0 set, 1 delete, 2 append, 3 subtract."""
    value: str | None = field(STRING, "0+", nullable="0+")


@nested
class AlterConfigsResource:
    resource_type: int = field(INT8, "0+")
    """2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: str = field(STRING, "0+")
    configs: list[AlterableConfig] = field(ArrayOf(AlterableConfig), "0+")


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(ArrayOf(AlterConfigsResource), "0+")
    validate_only: bool = field(BOOL, "0+")


@nested
class AlterConfigsResourceResponse:
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    responses: list[AlterConfigsResourceResponse] = field(
        ArrayOf(AlterConfigsResourceResponse), "0+"
    )
