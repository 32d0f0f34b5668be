"""A dispatcher that counts the requests of clients, and may serve the versions of a release."""

from __future__ import annotations

from typing import Any

from odradek.broker.handlers.shared.handler import Context, Handler, Outcome, Reply
from odradek.broker.handlers.shared.table import Api
from odradek.broker.server.budget import Budget
from odradek.broker.server.call import Call, LoadedApi
from odradek.broker.server.connection import Connection
from odradek.broker.server.dispatch import Dispatcher
from odradek.broker.services import Services
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, decode_request_header
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from odradek.runtime.scheduler import Scheduler
from odradek.testing.node.client_requests import ClientRequests
from odradek.testing.node.releases import ServedRelease


class ObservingDispatcher(Dispatcher):
    """A dispatcher before which requests are counted and checked."""

    def __init__(
        self,
        services: Services,
        scheduler: Scheduler,
        budget: Budget,
        *,
        requests: ClientRequests,
        release: ServedRelease | None,
    ) -> None:
        """
        requests  counts all requests, served or not
        release   whose versions clients are served; None: all
        """
        super().__init__(services, scheduler, budget)
        self._requests = requests
        self._release = release

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Handle one request, if the release serves it; otherwise refuse it as the release does."""
        try:
            header, position = decode_request_header(frame, 0)
        except DecodeError:
            super().dispatch(connection, frame)
            return
        self._requests.add(connection, header, frame[position:])
        release = self._release
        if release is None or not self._is_refused(release, header):
            super().dispatch(connection, frame)
            return
        loaded = self._loaded.get(header.api_key) or self._load(header.api_key)
        assert loaded is not None, "there is such an API"
        if header.api_key == ApiKey.API_VERSIONS:
            self._unserved(Call(connection, header, loaded, None), frame, position)
            return
        # The release knows the layout of no other version.
        what = f"{loaded.name} v{header.version}, which {release.name} does not serve"
        self._malformed(connection, what)

    def _is_refused(self, release: ServedRelease, header: RequestHeader) -> bool:
        """Whether this broker serves a version that the release does not."""
        api = self._apis.get(header.api_key)
        return (
            api is not None
            and api.min_version <= header.version <= api.max_version
            and not release.serves(header.api_key, header.version, header.client_id)
        )

    def _load_api(self, api: Api) -> LoadedApi:
        loaded = super()._load_api(api)
        if self._release is None or api.key != ApiKey.API_VERSIONS:
            return loaded
        handler = ReleaseApiVersions(loaded.handler, self._release)
        return LoadedApi(api, self._services, handler)


class ReleaseApiVersions:
    """The handler of ApiVersions, with the ranges and features of a release."""

    def __init__(self, handler: Handler, release: ServedRelease) -> None:
        self._handler = handler
        self._release = release

    def run(self, context: Context, request: Any) -> Outcome:
        """The ranges that both the release and this broker serve."""
        outcome = self._handler.run(context, request)
        assert isinstance(outcome, Reply), "ApiVersions waits for nothing"
        response = outcome.response
        assert isinstance(response, ApiVersionsResponse), "it is not encoded"
        if response.error_code == ErrorCode.NONE:
            self._restrict_ranges(response)
            self._restrict_features(response)
        return outcome

    def failed(self, request: Any, code: ErrorCode, message: str | None) -> ApiVersionsResponse:
        """An error, with the range of ApiVersions alone."""
        response = self._handler.failed(request, code, message)
        assert isinstance(response, ApiVersionsResponse), "the handler's"
        self._restrict_ranges(response)
        return response

    def _restrict_ranges(self, response: ApiVersionsResponse) -> None:
        served: list[ApiVersion] = []
        for row in response.api_keys:
            versions = self._release.range_of(row.api_key)
            if versions is not None:
                row.min_version = max(row.min_version, versions[0])
                row.max_version = min(row.max_version, versions[1])
                served.append(row)
        response.api_keys = served

    def _restrict_features(self, response: ApiVersionsResponse) -> None:
        if not self._release.finalized:
            response.supported_features = []
            response.finalized_features = []
            return
        rows = {row.name: row for row in response.finalized_features}
        response.finalized_features = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in self._release.finalized.items()
            if name not in rows
        ] + list(rows.values())
