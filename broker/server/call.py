"""One request on its way through the server, from its decoded body to its response."""

from __future__ import annotations

from odradek.broker.server.connection import Connection
from odradek.broker.server.loaded_api import LoadedApi, encode_response
from odradek.broker.server.transmit import Parts
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader


class Call:
    """A request and where its response goes.

    Source: Kafka's RequestChannel.Request.
    """

    __slots__ = ("connection", "header", "loaded", "request", "size")

    def __init__(
        self,
        connection: Connection,
        header: RequestHeader,
        loaded: LoadedApi,
        request: object,
        size: int = 0,
    ) -> None:
        """size  bytes of its frame"""
        self.connection = connection
        self.header = header
        self.loaded = loaded
        self.request = request
        self.size = size

    @property
    def wants_response(self) -> bool:
        return self.loaded.wants_response(self.request)

    def failed(self, code: ErrorCode, message: str | None) -> object:
        """The response that carries an error; cost: one element for each that the request names."""
        return self.loaded.handler.failed(self.request, code, message)

    def encoded(self, response: object) -> Parts:
        """The parts of the response's frame.

        raises  what encoding raises, after the slices of the response are released
        """
        return encode_response(self.header, self.loaded, response)

    def respond(self, response: object) -> None:
        """Encode the response, and send it when those to earlier requests are sent.

        raises  what encoding raises
        """
        parts = self.encoded(response)
        self.connection.respond(parts)

    def respond_encoded(self, body: bytes) -> None:
        """Send a body that is encoded already."""
        head = self.loaded.heads[self.header.version]
        frame = head.pack(head.size - 4 + len(body), self.header.correlation_id) + body
        self.connection.respond([frame])

    def on_response(self, response: object) -> None:
        """Called before a response is encoded elsewhere than in `encoded`."""

    def on_no_response(self) -> None:
        """Called when a request without a response has ended."""

    def on_parked(self) -> None:
        """Called when the request begins to wait in the purgatory."""
