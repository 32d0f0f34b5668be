"""UpdateFeatures (key 57): raises or lowers the feature levels of the cluster.

    1   kinds of downgrade, dry run (KIP-778)
    2   no more results for single features

Introduced by KIP-584.

Source: kafka.apache.org/protocol, UpdateFeatures.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class FeatureUpdateKey:
    feature: str = field("string", "0+")
    max_version_level: int = field("int16", "0+")
    """Below 1 deletes the feature."""
    allow_downgrade: bool = field("bool", "0", default=False)
    upgrade_type: int = field("int8", "1+", default=1)
    """1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: int = field("int32", "0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field([FeatureUpdateKey], "0+")
    validate_only: bool = field("bool", "1+", default=False)


@nested
class UpdatableFeatureResult:
    feature: str = field("string", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    results: list[UpdatableFeatureResult] = field([UpdatableFeatureResult], "0-1", default=[])
