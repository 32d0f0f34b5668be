"""ApiVersions (key 18): the APIs and versions that this broker serves.

Served: 0-4.  The response to any other version is of version 0, with UNSUPPORTED_VERSION and the
range of this API alone, so that newer clients find a version that both know (KIP-511).
    1   throttle time, which is always 0
    2   the client waits for the throttle time itself (KIP-219); it is always 0
    3   flexible encoding (KIP-482), name and version of the client (KIP-511)
    4   features whose lowest version is 0 may be listed
Features (KIP-584): `transaction.version` is supported up to 2, and finalized by UpdateFeatures;
from 2 on, clients that know transactions of version 2 use them.
Errors: UNSUPPORTED_VERSION, INVALID_REQUEST (a client name or version that breaks the pattern).
Source: Kafka's ApiVersionManager.
"""

from __future__ import annotations

import re
from typing import Final

from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.handlers.shared.table import HANDLERS
from odradek.controller.znodes.finalized_features import SUPPORTED
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API_KEY: Final = 18
SOFTWARE_PATTERN: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def run(context: Context, request: ApiVersionsRequest) -> Reply:
    """The table of handlers."""
    if context.version >= 3 and not (
        SOFTWARE_PATTERN.fullmatch(request.client_software_name)
        and SOFTWARE_PATTERN.fullmatch(request.client_software_version)
    ):
        return Reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[]))
    features = context.services.controller.features
    has_quorum = context.services.settings.quorum is not None
    return Reply(
        ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=[_row(api.key) for api in HANDLERS if has_quorum or not api.needs_quorum],
            supported_features=[
                SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
                for name, lowest, highest in SUPPORTED
            ],
            finalized_features_epoch=features.epoch,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in features.levels.items()
            ],
        )
    )


def failed(
    request: ApiVersionsRequest | None, code: ErrorCode, message: str | None
) -> ApiVersionsResponse:
    """An error, with the range of this API alone."""
    return ApiVersionsResponse(error_code=code, api_keys=[_row(API_KEY)])


def _row(api_key: int) -> ApiVersion:
    api = next(api for api in HANDLERS if api.key == api_key)
    least = api.min_version if api.advertised_min_version is None else api.advertised_min_version
    return ApiVersion(api_key=api_key, min_version=least, max_version=api.max_version)
