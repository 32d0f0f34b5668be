"""AlterConfigs (key 33): replaces the whole dynamic configuration of resources.

    2   flexible encoding (KIP-482)

IncrementalAlterConfigs changes single keys and should be preferred.

Source: kafka.apache.org/protocol, AlterConfigs.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class AlterableConfig:
    name: str = field("string", "0+")
    value: str | None = field("string", "0+", nullable="0+")


@nested
class AlterConfigsResource:
    resource_type: int = field("int8", "0+")
    """2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: str = field("string", "0+")
    configs: list[AlterableConfig] = field([AlterableConfig], "0+")


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field([AlterConfigsResource], "0+")
    validate_only: bool = field("bool", "0+")


@nested
class AlterConfigsResourceResponse:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    resource_type: int = field("int8", "0+")
    resource_name: str = field("string", "0+")


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse], "0+")
