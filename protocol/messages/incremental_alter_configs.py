"""IncrementalAlterConfigs (key 44): changes single keys of the dynamic configuration.

    1   flexible encoding (KIP-482)

Introduced by KIP-339.

Source: kafka.apache.org/protocol, IncrementalAlterConfigs.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class AlterableConfig:
    name: str = field("string", "0+")
    config_operation: int = field("int8", "0+")
    """0 set, 1 delete, 2 append, 3 subtract."""
    value: str | None = field("string", "0+", nullable="0+")


@nested
class AlterConfigsResource:
    resource_type: int = field("int8", "0+")
    """2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: str = field("string", "0+")
    configs: list[AlterableConfig] = field([AlterableConfig], "0+")


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field([AlterConfigsResource], "0+")
    validate_only: bool = field("bool", "0+")


@nested
class AlterConfigsResourceResponse:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    resource_type: int = field("int8", "0+")
    resource_name: str = field("string", "0+")


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse], "0+")
