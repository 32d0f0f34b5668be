"""Counts the requests of clients, of a broker for tests.

For the file of the setting `odradek.api.report`, which is written at the end, and for what tests
ask over the control channel.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.headers import RequestHeader

SETTING: Final = "odradek.api.report"
ROWS_MAX: Final = 10_000
"""Further combinations are counted without client id and software."""
SOFTWARE_FROM: Final = 3
"""The version of ApiVersions from which clients name their software."""


class ClientName(NamedTuple):
    """What a client says of itself; empty where it says nothing."""

    client_id: str
    software_name: str
    software_version: str


class RequestKind(NamedTuple):
    """Requests that are counted together; of any API and version, served or not."""

    client: ClientName
    api_key: int
    version: int

    @property
    def api(self) -> str:
        """The name that Kafka writes, such as ApiVersions; a number for an unknown key."""
        try:
            return ApiKey(self.api_key).camel_name
        except ValueError:
            return str(self.api_key)


UNKNOWN: Final = ClientName("", "", "")
OTHERS: Final = RequestKind(UNKNOWN, -1, -1)
"""Requests of further APIs and versions, which clients can invent, beyond twice `ROWS_MAX`."""


class ClientRequests:
    """The requests of all connections of a broker."""

    def __init__(self, report_path: str | None = None) -> None:
        """report_path  of the file that the broker writes at its end, if any"""
        self.report_path = report_path
        self._clients: WeakKeyDictionary[Any, ClientName] = WeakKeyDictionary()
        self._counts: Counter[RequestKind] = Counter()
        self._forgotten: Counter[RequestKind] = Counter()
        """Requests before `forget`; the report has them."""

    def add(self, connection: object, header: RequestHeader, body: memoryview) -> None:
        """Count one request; `body` is what is after the header."""
        client = self._clients.get(connection, UNKNOWN)
        client_id = header.client_id or ""
        if header.api_key == ApiKey.API_VERSIONS and header.version >= SOFTWARE_FROM:
            # Imported here: most brokers count nothing.
            from odradek.protocol.compiler import decoder
            from odradek.protocol.messages.api_versions import ApiVersionsRequest

            with suppress(DecodeError, ValueError):  # The dispatcher refuses it.
                request, _ = decoder(ApiVersionsRequest, header.version)(body, 0)
                name, version = request.client_software_name, request.client_software_version
                client = ClientName(client_id, name, version)
        if client.client_id != client_id:
            client = client._replace(client_id=client_id)
        self._clients[connection] = client
        kind = RequestKind(client, header.api_key, header.version)
        if kind not in self._counts and len(self._counts) >= ROWS_MAX:
            kind = kind._replace(client=UNKNOWN)
            if kind not in self._counts and len(self._counts) >= 2 * ROWS_MAX:
                kind = OTHERS
        self._counts[kind] += 1

    def client_of(self, connection: object) -> ClientName:
        """The client of an open connection; unknown before its first request."""
        return self._clients.get(connection, UNKNOWN)

    def counts(self) -> Counter[RequestKind]:
        """The requests since the start of the broker, or since `forget`."""
        return self._counts - self._forgotten

    def forget(self) -> None:
        self._forgotten = self._counts.copy()

    def report(self) -> bytes:
        """All requests as JSON, with one kind on a line, sorted."""
        lines = [
            json.dumps(
                {
                    "client_id": kind.client.client_id,
                    "client_software_name": kind.client.software_name,
                    "client_software_version": kind.client.software_version,
                    "api_key": kind.api_key,
                    "api": kind.api,
                    "version": kind.version,
                    "count": count,
                }
            )
            for kind, count in sorted(self._counts.items())
        ]
        rows = ",\n".join(lines)
        return f"[\n{rows}\n]\n".encode()


def client_requests_of(written: Mapping[str, str]) -> ClientRequests:
    """The counts of a broker with these settings, which are text."""
    return ClientRequests(written.get(SETTING, "").strip() or None)
