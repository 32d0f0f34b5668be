"""The other side of a connection that our broker makes: a listening socket and a script."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.headers import RequestHeader, decode_request_header, response_header_version
from odradek.protocol.schema import schema_of

TIMEOUT_S: Final = 60.0


class Peer:
    """One accepted connection.  Each receive blocks for at most `TIMEOUT_S`."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        accepted.settimeout(TIMEOUT_S)

    def receive_bytes(self, size: int) -> bytes:
        """The next bytes; raises EOFError at the end."""
        content = bytearray()
        while len(content) < size:
            piece = self.socket.recv(size - len(content))
            if not piece:
                raise EOFError
            content += piece
        return bytes(content)

    def receive(self) -> tuple[RequestHeader, Any]:
        """The next request, which must end with its frame."""
        (size,) = struct.unpack(">i", self.receive_bytes(4))
        frame = memoryview(self.receive_bytes(size))
        header, position = decode_request_header(frame, 0)
        request = messages_of(ApiKey(header.api_key))[0]
        value, end = decoder(request, header.version)(frame, position)
        assert end == len(frame)
        return header, value

    def respond(self, header: RequestHeader, response: Any) -> None:
        """Send a response."""
        self.socket.sendall(response_frame(header, response))

    def has_ended(self) -> bool:
        """Wait until the other side closes the connection; False if it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def response_frame(header: RequestHeader, response: Any) -> bytes:
    """The bytes of the response to a request."""
    api_key = schema_of(type(response)).api_key
    assert api_key is not None
    assert api_key == header.api_key
    tags = b"\0" if response_header_version(api_key, header.version) else b""
    body = encoder(type(response), header.version)(response)
    content = struct.pack(">i", header.correlation_id) + tags + body
    return struct.pack(">i", len(content)) + content


@contextmanager
def scripted_peer(*scripts: Callable[[Peer], None]) -> Iterator[int]:
    """Accept one connection for each script, one after the other; yields the port.

    At the end of the `with` block each script must have returned.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(TIMEOUT_S)
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            for script in scripts:
                accepted, _ = listening.accept()
                with accepted:
                    script(Peer(accepted))
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            failures.append(error)

    thread = threading.Thread(target=serve, name="peer", daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
        thread.join(TIMEOUT_S)
        assert not thread.is_alive(), "the script of the peer has not ended"
    finally:
        listening.close()
    assert not failures, failures
