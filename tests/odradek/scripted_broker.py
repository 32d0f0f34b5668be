"""A broker with scripted responses on a real socket, which no working broker would send."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import encoder
from odradek.protocol.headers import ResponseHeader, decode_request_header, response_header_version
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker

TIMEOUT_S: Final = 60.0
VERSIONS: Final = {
    ApiKey.API_VERSIONS: 0,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
}
"""The version of each served API; a script may serve fewer APIs."""

ScriptedResponse = Callable[["Request"], "bytes | None"]
"""The bytes to send back, frame size included; None closes the connection."""


class LastBytes(bytes):
    """Bytes after which the connection is closed."""


class Request:
    """A received request, and the responses to it."""

    def __init__(self, frame: bytes, address: tuple[str, int]) -> None:
        header, _ = decode_request_header(memoryview(frame), 0)
        self.key = ApiKey(header.api_key)
        self.version = header.version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.address = address

    def response(self, body: Any, *, correlation_id: int | None = None) -> bytes:
        """The frame of a response; `correlation_id` is that of the request unless given."""
        number = self.correlation_id if correlation_id is None else correlation_id
        head = encoder(ResponseHeader, response_header_version(self.key, self.version))
        payload = head(ResponseHeader(correlation_id=number))
        payload += encoder(type(body), self.version)(body)
        return len(payload).to_bytes(4, "big") + payload

    def metadata(
        self,
        *,
        controller_id: int = 0,
        topics: Sequence[Any] = (),
        others: Mapping[int, tuple[str, int]] | None = None,
    ) -> bytes:
        """The metadata of a cluster with this broker, which has the id 0, and `others`."""
        brokers = [
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=None)
            for node_id, (host, port) in {0: self.address, **(others or {})}.items()
        ]
        body = MetadataResponse(brokers=brokers, controller_id=controller_id, topics=list(topics))
        return self.response(body)


class ScriptedBroker:
    """Serves each connection in its own thread."""

    def __init__(self, script: dict[ApiKey, list[ScriptedResponse]]) -> None:
        """script  responses by API, in order; the last one of an API is repeated"""
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.requests: list[Request] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    @property
    def bootstrap(self) -> str:
        """`host:port`."""
        return f"{self.address[0]}:{self.address[1]}"

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            connection.settimeout(TIMEOUT_S)
            first = connection.recv(1, socket.MSG_PEEK)
            if first == b"!":
                connection.close()
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        # A client that closes with unread bytes resets the connection.
        with suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                frame = stream.read(int.from_bytes(head, "big"))
                request = Request(frame, self.address)
                self.requests.append(request)
                response = self._response(request)
                if response is None:
                    return
                connection.sendall(response)
                if isinstance(response, LastBytes):
                    return

    def _response(self, request: Request) -> bytes | None:
        responses = self._script.get(request.key)
        if responses is not None:
            return (responses.pop(0) if len(responses) > 1 else responses[0])(request)
        if request.key is ApiKey.API_VERSIONS:
            return request.response(versions(self._script))
        return request.metadata()

    def close(self) -> None:
        """Stop listening; connections end with their clients."""
        with socket.create_connection(self.address) as last:
            last.sendall(b"!")
            self._accepting.join(TIMEOUT_S)
        self._listener.close()
        for thread in self._threads:
            thread.join(TIMEOUT_S)


def versions(script: dict[ApiKey, list[ScriptedResponse]]) -> ApiVersionsResponse:
    """The served APIs: those of the script, and those that every client needs."""
    keys = [ApiKey.API_VERSIONS, ApiKey.METADATA, *script]
    rows = [
        ApiVersion(api_key=key, min_version=VERSIONS[key], max_version=VERSIONS[key])
        for key in dict.fromkeys(keys)
    ]
    return ApiVersionsResponse(error_code=0, api_keys=rows)


@contextmanager
def scripted_broker(script: dict[ApiKey, list[ScriptedResponse]]) -> Iterator[ScriptedBroker]:
    """Within, a scripted broker runs; clients must close their connections before its end."""
    broker = ScriptedBroker(script)
    try:
        yield broker
    finally:
        broker.close()
