"""DescribeConfigs (key 32): shows the configuration of topics, brokers and loggers.

    1   where a value comes from, and its synonyms (KIP-226)
    3   type and documentation (KIP-569)
    4   flexible encoding (KIP-482)

Source: kafka.apache.org/protocol, DescribeConfigs.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class DescribeConfigsResource:
    resource_type: int = field("int8", "0+")
    """2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: str = field("string", "0+")
    configuration_keys: list[str] | None = field(["string"], "0+", nullable="0+")
    """None asks for all."""


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field([DescribeConfigsResource], "0+")
    include_synonyms: bool = field("bool", "1+", default=False)
    include_documentation: bool = field("bool", "3+", default=False)


@nested
class DescribeConfigsSynonym:
    name: str = field("string", "0+")
    value: str | None = field("string", "0+", nullable="0+")
    source: int = field("int8", "0+")


@nested
class DescribeConfigsResourceResult:
    name: str = field("string", "0+")
    value: str | None = field("string", "0+", nullable="0+")
    """None for a secret one."""
    read_only: bool = field("bool", "0+")
    is_default: bool = field("bool", "0", default=False)
    config_source: int = field("int8", "1+", default=-1)
    """1 topic, 2 dynamic broker, 3 dynamic default of brokers, 4 static, 5 default, 6 logger, 7
    client metrics, 8 group."""
    is_sensitive: bool = field("bool", "0+")
    synonyms: list[DescribeConfigsSynonym] = field([DescribeConfigsSynonym], "1+", default=[])
    config_type: int = field("int8", "3+", default=0)
    """1 bool, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password."""
    documentation: str | None = field("string", "3+", nullable="3+", default=None)


@nested
class DescribeConfigsResult:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    resource_type: int = field("int8", "0+")
    resource_name: str = field("string", "0+")
    configs: list[DescribeConfigsResourceResult] = field([DescribeConfigsResourceResult], "0+")


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[DescribeConfigsResult] = field([DescribeConfigsResult], "0+")
