"""Finalizes transactions of version 2, and says which features a broker shows."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.wire import Wire

WAIT_S: Final = 60.0
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2


def update_transaction_version(
    address: str, level: int = 2, kind: int = UPGRADE, *, validate_only: bool = False
) -> tuple[ErrorCode, str | None]:
    """One UpdateFeatures; the error of the request, or that of the feature."""
    key = FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=kind
    )
    request = UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)
    with Wire(address) as wire:
        response = wire.call(request, 1)
    if response.error_code:
        return ErrorCode(response.error_code), response.error_message
    (result,) = response.results
    return ErrorCode(result.error_code), result.error_message


def finalized_features(address: str) -> tuple[int, dict[str, int]]:
    """The epoch of the features, and their levels."""
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    with Wire(address) as wire:
        response = wire.call(request, 3)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return response.finalized_features_epoch, levels


def wait_for_level(address: str, level: int) -> None:
    """Wait until a broker shows a level of `transaction.version`."""
    deadline_s = monotonic() + WAIT_S
    while (feature_level := finalized_features(address)[1].get("transaction.version", 0)) != level:
        assert monotonic() < deadline_s, f"{address} has level {feature_level}"
        sleep(0.05)
