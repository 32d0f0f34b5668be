"""ApiVersions (key 18): lists the APIs and versions that the broker serves.

    1   throttle time
    3   flexible encoding (KIP-482), software of the client (KIP-511), features (KIP-584)
    4   features whose lowest version is 0 may be listed (KAFKA-17492)

The response header is always version 0, and the response to a version that the broker does not
know is of version 0, with UNSUPPORTED_VERSION, so that every client can read it (KIP-511).

Source: kafka.apache.org/protocol, ApiVersions.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: str = field("string", "3+", default="")
    client_software_version: str = field("string", "3+", default="")


@nested
class ApiVersion:
    api_key: int = field("int16", "0+")
    min_version: int = field("int16", "0+")
    max_version: int = field("int16", "0+")


@nested
class SupportedFeatureKey:
    name: str = field("string", "0+")
    min_version: int = field("int16", "0+")
    max_version: int = field("int16", "0+")


@nested
class FinalizedFeatureKey:
    name: str = field("string", "0+")
    max_version_level: int = field("int16", "0+")
    min_version_level: int = field("int16", "0+")


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: int = field("int16", "0+")
    api_keys: list[ApiVersion] = field([ApiVersion], "0+")
    throttle_time_ms: int = field("int32", "1+", default=0)
    supported_features: list[SupportedFeatureKey] = field(
        [SupportedFeatureKey], "3+", tag=0, default=[]
    )
    finalized_features_epoch: int = field("int64", "3+", tag=1, default=-1)
    """-1 if unknown."""
    finalized_features: list[FinalizedFeatureKey] = field(
        [FinalizedFeatureKey], "3+", tag=2, default=[]
    )
    zk_migration_ready: bool = field("bool", "3+", tag=3, default=False)
