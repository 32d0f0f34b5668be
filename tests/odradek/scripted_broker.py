"""A broker of a few scripted answers on a real socket: what no broker that works would send."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
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
"""The only version of each API that is served; a script may have fewer."""

Answer = Callable[["Request"], "bytes | None"]
"""The bytes to send back, frame size included; None closes the connection."""


class LastWords(bytes):
    """Bytes behind which the connection is closed."""


class Request:
    """A request that came in; `body` builds an answer that fits it."""

    def __init__(self, frame: bytes, address: tuple[str, int]) -> None:
        header, _ = decode_request_header(memoryview(frame), 0)
        self.key = ApiKey(header.api_key)
        self.version = header.version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.address = address

    def answer(self, body: Any, *, correlation_id: int | None = None) -> bytes:
        """A whole frame; `correlation_id` is the request's own unless given."""
        number = self.correlation_id if correlation_id is None else correlation_id
        head = encoder(ResponseHeader, response_header_version(self.key, self.version))
        payload = head(ResponseHeader(correlation_id=number))
        payload += encoder(type(body), self.version)(body)
        return len(payload).to_bytes(4, "big") + payload

    def metadata(self, *, controller_id: int = 0, topics: Sequence[Any] = ()) -> bytes:
        """A cluster of this broker alone."""
        host, port = self.address
        brokers = [MetadataResponseBroker(node_id=0, host=host, port=port, rack=None)]
        body = MetadataResponse(brokers=brokers, controller_id=controller_id, topics=list(topics))
        return self.answer(body)


class ScriptedBroker:
    """Serves connections one after the other, each by a thread of its own."""

    def __init__(self, script: dict[ApiKey, list[Answer]]) -> None:
        """script  answers by API, in their order; the last one of an API stays"""
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
        # A client that is fed up may leave with bytes unread, which resets the connection.
        with suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                frame = stream.read(int.from_bytes(head, "big"))
                request = Request(frame, self.address)
                self.requests.append(request)
                answer = self._answer(request)
                if answer is None:
                    return
                connection.sendall(answer)
                if isinstance(answer, LastWords):
                    return

    def _answer(self, request: Request) -> bytes | None:
        answers = self._script.get(request.key)
        if answers is not None:
            return (answers.pop(0) if len(answers) > 1 else answers[0])(request)
        if request.key is ApiKey.API_VERSIONS:
            return request.answer(versions(self._script))
        return request.metadata()

    def close(self) -> None:
        """Stop listening; connections end with their clients."""
        with socket.create_connection(self.address) as last:
            last.sendall(b"!")
            self._accepting.join(TIMEOUT_S)
        self._listener.close()
        for thread in self._threads:
            thread.join(TIMEOUT_S)


def versions(script: dict[ApiKey, list[Answer]]) -> ApiVersionsResponse:
    """The APIs that a script has answers for, and those that a client needs anyway."""
    keys = [ApiKey.API_VERSIONS, ApiKey.METADATA, *script]
    rows = [
        ApiVersion(api_key=key, min_version=VERSIONS[key], max_version=VERSIONS[key])
        for key in dict.fromkeys(keys)
    ]
    return ApiVersionsResponse(error_code=0, api_keys=rows)


@contextmanager
def scripted_broker(script: dict[ApiKey, list[Answer]]) -> Iterator[ScriptedBroker]:
    """A running one; clients must have closed their connections when it ends."""
    broker = ScriptedBroker(script)
    try:
        yield broker
    finally:
        broker.close()
