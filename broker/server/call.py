"""One request on its way through the server, from its decoded body to its response.

Its API is loaded with the first request: the handler, and how messages are read and written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.handlers.shared.handler import Handler
from odradek.broker.handlers.shared.table import ADMINISTRATIVE, Api
from odradek.broker.server.connection import Connection
from odradek.broker.server.transmit import Parts
from odradek.broker.services import HandlerParts, Services
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.compiler import decoder, parts_encoder, step_decoder, step_encoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, response_header_version

if TYPE_CHECKING:
    from odradek.broker.server.request_times import ApiTimes, RequestTimes

HEADS: Final = (Struct(">ii"), Struct(">iix"))
"""An int32 size and response header 0 or 1 without tags."""


class HandlerWithParts:
    """A handler with the parts that its row in the table names."""

    def __init__(self, handler: Handler, api: Api, parts: HandlerParts) -> None:
        self.run = partial(handler.run, **{name: getattr(parts, name) for name in api.takes})
        self.failed = handler.failed


class LoadedApi:
    """An API after its first request: its handler, and its codecs by version."""

    __slots__ = (
        "api",
        "decoders",
        "encoders",
        "handler",
        "heads",
        "name",
        "request",
        "response",
        "served",
        "services",
        "times",
    )

    def __init__(self, api: Api, services: Services, handler: Handler | None = None) -> None:
        """handler  in place of the module that the table names"""
        self.api = api
        self.services = services
        self.name = ApiKey(api.key).name
        self.request, self.response = messages_of(api.key)
        if handler is None:
            handler = import_module(f"odradek.broker.handlers.{api.module}")
            if api.takes:
                handler = HandlerWithParts(handler, api, services.handler_parts)
            if api.key in ADMINISTRATIVE:
                # Imported at the first such request: most starts need none of it.
                from odradek.broker.server.audit import AuditedHandler

                handler = AuditedHandler(api.key, handler)
        self.handler: Handler = handler
        self.decoders: dict[int, Callable[[memoryview, int], tuple[object, int]]] = {}
        self.served: dict[int, Callable[[memoryview, int], tuple[object, int]]] = {}
        """The decoders of versions that are served and have been prepared."""
        self.encoders: dict[int, Callable[[object], Parts]] = {}
        self.heads: dict[int, Struct] = {}
        """Size of the frame and response header, by version."""
        self.times: ApiTimes
        """Set while the times of requests are counted."""

    def prepare(self, version: int) -> None:
        """Generate the codecs of one version."""
        decode = self.decoders[version] = decoder(self.request, version)
        if self.api.min_version <= version <= self.api.max_version:
            self.served[version] = decode
        self.encoders[version] = parts_encoder(self.response, version)
        self.heads[version] = HEADS[response_header_version(self.api.key, version)]

    def prepare_large(self, version: int) -> None:
        """Generate the codecs of one version for messages that are read and written in slices."""
        step_decoder(self.request, version)
        step_encoder(self.response, version)

    def count_times(self, times: RequestTimes) -> None:
        """Count the times of its requests from now on."""
        self.times = times.of(self.api)

    def release(self, response: object) -> None:
        """Release the slices of files of a response that is not sent."""
        if self.api.has_slices:
            import_module(f"odradek.broker.handlers.{self.api.module}").release(response)

    def wants_response(self, request: Any) -> bool:
        """False for Produce with acks=0: a frame that its client does not wait for would be taken
        for the response to its next request."""
        return self.api.key != ApiKey.PRODUCE or request.acks != 0


def encode_response(header: RequestHeader, loaded: LoadedApi, response: object) -> Parts:
    """The frame of a response: its parts, the first starting with size and response header.

    raises  what encoding raises, after the slices of the response are released
    """
    version = header.version
    try:
        parts = loaded.encoders[version](response)
        head = loaded.heads[version]
        size = head.size - 4
        for part in parts:
            size += len(part)
        parts[0] = head.pack(size, header.correlation_id) + parts[0]
    except BaseException:
        loaded.release(response)
        raise
    return parts


def framed(header: RequestHeader, loaded: LoadedApi, parts: Parts, size: int) -> Parts:
    """The frame of an encoded response."""
    head = loaded.heads[header.version]
    return [head.pack(head.size - 4 + size, header.correlation_id), *parts]


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
