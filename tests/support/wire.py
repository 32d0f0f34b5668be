"""A bare connection to a broker: requests of our declarations, or any bytes at all."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import termios
from collections.abc import Iterable
from time import monotonic
from types import TracebackType
from typing import Any, Self

from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.headers import encode_request_header, response_header_version
from odradek.protocol.schema import schema_of

CLIENT_ID = "wire"
RESPONSE_TIMEOUT_S = 90.0
FRAME_BYTES_MAX = 64 << 20


class Closed(Exception):
    """The broker ended the connection."""


def frame(payload: bytes) -> bytes:
    """A request with its length before it."""
    return struct.pack(">i", len(payload)) + payload


class Wire:
    """One TCP connection; responses come in the order of the requests."""

    def __init__(
        self, address: str, *, timeout_s: float = RESPONSE_TIMEOUT_S, client_id: str = CLIENT_ID
    ) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self._client_id = client_id

    def send(self, request: Any, version: int) -> None:
        """Send a request without waiting for a response."""
        self.send_together([(request, version)])

    def send_together(self, requests: Iterable[tuple[Any, int]]) -> None:
        """Send requests, each in a version, with one write."""
        frames = []
        for request, version in requests:
            key = schema_of(type(request)).api_key
            assert key is not None, type(request).__name__
            self._correlation_id += 1
            header = encode_request_header(key, version, self._correlation_id, self._client_id)
            frames.append(frame(header + encoder(type(request), version)(request)))
        self.send_bytes(b"".join(frames))

    def send_bytes(self, content: bytes) -> None:
        """Send anything; raises Closed when the other side is gone."""
        try:
            self._socket.sendall(content)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed(str(error)) from error

    def await_arrival(self) -> None:
        """Wait until the other side's kernel has all that was sent, whatever its process does.

        A send has returned before that where the kernel of a busy machine delivers later.
        """
        end_s = monotonic() + RESPONSE_TIMEOUT_S
        nothing_comes = select.poll()
        while struct.unpack("i", fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)))[0]:
            assert monotonic() < end_s, "what was sent is not acknowledged"
            nothing_comes.poll(1)

    def receive_frame(self) -> bytes:
        """The next response with its header; raises Closed at the end of the connection."""
        (size,) = struct.unpack(">i", self._receive(4))
        assert 0 <= size <= FRAME_BYTES_MAX, f"a response of {size} bytes"
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        parts: list[bytes] = []
        left = size
        while left:
            try:
                chunk = self._socket.recv(left)
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not chunk:
                raise Closed("the broker closed the connection")
            parts.append(chunk)
            left -= len(chunk)
        return b"".join(parts)

    def receive(self, api_key: int, version: int) -> Any:
        """The next response, decoded; nothing may be left behind it."""
        content = memoryview(self.receive_frame())
        (correlation_id,) = struct.unpack_from(">i", content)
        assert correlation_id == self._correlation_id, "the response belongs to another request"
        position = 4 + response_header_version(api_key, version)
        response = messages_of(ApiKey(api_key))[1]
        value, end = decoder(response, version)(content, position)
        assert end == len(content), f"{len(content) - end} bytes are left behind the response"
        return value

    def call(self, request: Any, version: int) -> Any:
        """Send a request and wait for its response."""
        self.send(request, version)
        key = schema_of(type(request)).api_key
        assert key is not None
        return self.receive(key, version)

    def has_ended(self) -> bool:
        """Wait until the broker closes the connection; False if it sends something instead."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def is_silent(self, seconds: float) -> bool:
        """Whether nothing comes for a while, not even the end."""
        return not select.select([self._socket], [], [], seconds)[0]

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
