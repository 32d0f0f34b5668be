"""Counts the requests of a broker, by API, version and client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.broker.server.connection import Connection
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.headers import decode_request_header

ROWS_MAX: Final = 10_000
"""Requests of further clients are counted without the name of the client."""

Dispatch = Callable[[Connection, memoryview], None]


class SeenRequest(NamedTuple):
    """What is counted together."""

    api_key: int
    version: int
    client_id: str | None

    @property
    def api_name(self) -> str:
        """As Kafka writes it, such as ApiVersions."""
        known = {key.value: key.name for key in ApiKey}
        name = known.get(self.api_key, str(self.api_key))
        return "".join(map(str.capitalize, name.split("_")))


class SeenRequests:
    """The requests since the start of the broker, or since `forget`."""

    def __init__(self) -> None:
        self.counts: dict[SeenRequest, int] = {}

    def counting(self, dispatch: Dispatch) -> Dispatch:
        """`dispatch`, with each request counted before."""

        def count(connection: Connection, frame: memoryview) -> None:
            try:
                header, _ = decode_request_header(frame, 0)
            except DecodeError:
                pass  # It is logged, and the connection closed.
            else:
                self._note(SeenRequest(header.api_key, header.version, header.client_id))
            dispatch(connection, frame)

        return count

    def _note(self, seen: SeenRequest) -> None:
        counts = self.counts
        if seen not in counts and len(counts) >= ROWS_MAX:
            seen = seen._replace(client_id=None)
        counts[seen] = counts.get(seen, 0) + 1

    def forget(self) -> None:
        """Begin at zero."""
        self.counts.clear()
