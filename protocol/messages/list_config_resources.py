"""ListConfigResources (key 74): lists the resources that have a configuration.

    0   client metrics subscriptions only, under the name ListClientMetricsResources (KIP-1000)
    1   any kind of resource (KIP-1142)

Source: kafka.apache.org/protocol, ListConfigResources.
"""

from __future__ import annotations

from odradek.protocol.schema import INT8, INT16, INT32, STRING, ArrayOf, field, message, nested


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = field(ArrayOf(INT8), "1+", default=[])


@nested
class ConfigResource:
    resource_name: str = field(STRING, "0+")
    resource_type: int = field(INT8, "1+", default=16)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    config_resources: list[ConfigResource] = field(ArrayOf(ConfigResource), "0+")
