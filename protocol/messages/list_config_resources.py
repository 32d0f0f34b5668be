"""ListConfigResources (key 74): lists the resources that have a configuration.

    0   client metrics subscriptions only, under the name ListClientMetricsResources (KIP-1000)
    1   any kind of resource (KIP-1142)

Source: kafka.apache.org/protocol, ListConfigResources.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = field(["int8"], "1+", default=[])


@nested
class ConfigResource:
    resource_name: str = field("string", "0+")
    resource_type: int = field("int8", "1+", default=16)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    config_resources: list[ConfigResource] = field([ConfigResource], "0+")
