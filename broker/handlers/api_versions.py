"""ApiVersions (key 18): what this broker serves.

Served: 0-4; any other version is answered in version 0 with error 35 and the range of this API
alone (KIP-511), which is how newer clients find a version that both know.
Errors: UNSUPPORTED_VERSION, INVALID_REQUEST (a software name or version that breaks the pattern).
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
