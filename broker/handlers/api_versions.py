"""ApiVersions (key 18): the APIs and versions that this broker serves.

Served: 0-4.  The response to any other version is of version 0, with UNSUPPORTED_VERSION and the
range of this API alone, so that newer clients find a version that both know (KIP-511).
    3   flexible encoding (KIP-482), name and version of the client (KIP-511)
    4   features whose lowest version is 0 may be listed
Not done: features (KIP-584); a broker in ZooKeeper mode has none to list.
Errors: UNSUPPORTED_VERSION, INVALID_REQUEST (a client name or version that breaks the pattern).
Source: Kafka's ApiVersionManager.
"""

from __future__ import annotations

import re
from typing import Final

from odradek.broker.handlers.handler import Context, Reply
from odradek.broker.handlers.table import HANDLERS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
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
    return Reply(
        ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=[_row(api.key) for api in HANDLERS],
            finalized_features_epoch=0,
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
