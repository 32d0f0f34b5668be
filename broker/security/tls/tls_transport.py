"""TLS over a non-blocking socket: takes the place of the socket of a connection.

OpenSSL works on memory (`SSLObject`), and this code receives and sends: what was encrypted is sent
in one call and resumed where the socket was full.  A socket of Python's ssl costs the same time,
reads each record of 16 KiB with two calls, and demands the same buffer for each retry.

Decrypted bytes may be left here while the socket has nothing to read: see `may_have_more`.

A change of keys (TLS 1.3) takes 27 bytes and 20 us, and is responded to: a client that sent nothing
else would hold up the loop, and what it does not read would grow.  So bytes without content are
bounded, and a client that sends little content among them has small turns.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from ssl import MemoryBIO, SSLContext, SSLError, SSLWantReadError
from typing import Final, cast

RECEIVED_AT_ONCE: Final = 128 << 10
RECEIVED_LEAST: Final = 32 << 10
"""Received together even for a small target: two records of TLS."""
FED_AT_ONCE: Final = 32 << 10
"""OpenSSL's memory of a connection keeps the size that it has had; so it is filled in pieces."""
SENT_AT_ONCE: Final = 64 << 10
"""Bytes that one `send` encrypts."""
FRUITLESS_MAX: Final = 24 << 10
"""Encrypted bytes that may come without content: a record of TLS 1.2 has up to 18 KiB."""
COSTLY_AT_ONCE: Final = 4 << 10
"""Encrypted bytes of a turn of a client that sends little content: 80 changes of keys, 2 ms."""
CONTENT_LEAST: Final = 4
"""Encrypted bytes that a byte of content makes up for, before what comes is costly."""
COSTLY: Final = 24 << 10
"""Encrypted bytes of which less than a quarter was content: more than a part of a record."""
COSTLY_MAX: Final = 256 << 10
"""A client that sends a quarter of them as content is trusted again."""
FRUITFUL: Final = 32
"""Encrypted bytes that one byte of content makes up for: a record of one byte has 23."""
FRUITLESS: Final = "the client sends messages of TLS without end, such as changes of its keys"
HANDSHAKE_RECORD: Final = 0x16
UNEXPECTED_MESSAGE: Final = b"\x15\x03\x03\x00\x02\x02\x0a"
"""The fatal alert of TLS 1.2 that Java sends to a client without TLS: some clients name it."""
HTTP_METHODS: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PRI ")


class TlsTransport:
    """The server's end of one connection.

    The memory that all transports of a thread receive encrypted bytes into is shared: none of it is
    in use between two calls.
    """

    __slots__ = (
        "_costly",
        "_fed",
        "_fruitless",
        "_has_ended",
        "_incoming",
        "_is_costly",
        "_is_first",
        "_kept",
        "_outgoing",
        "_socket",
        "_tls",
        "_unsent",
        "is_established",
        "may_have_more",
        "plaintext",
    )

    _received: Final = memoryview(bytearray(RECEIVED_AT_ONCE))

    def __init__(self, connected: socket.socket, context: SSLContext) -> None:
        self._socket = connected
        self._incoming = MemoryBIO()
        self._outgoing = MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent: memoryview | None = None
        """Encrypted bytes that the socket has not taken."""
        self._has_ended = False
        """Whether the client has sent that nothing follows."""
        self._is_first = True
        """Whether nothing has arrived yet."""
        self._fed = 0
        """Encrypted bytes since all were decrypted, less what their content makes up for."""
        self._costly = 0
        """Encrypted bytes beyond those that their content makes up for, `COSTLY_MAX` at most."""
        self._is_costly = False
        """Whether turns are small."""
        self._kept: memoryview | None = None
        """Encrypted bytes that were received, and wait for another turn."""
        self._fruitless = 0
        """Encrypted bytes of which too little content came; not negative."""
        self.is_established = False
        """Whether the handshake is over."""
        self.may_have_more = False
        """Whether `recv_into` may return bytes that were received already."""
        self.plaintext: str | None = None
        """What the client speaks instead of TLS, as far as its first bytes show it."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def handshake(self) -> None:
        """Go on with the handshake; it is over when this returns.

        raises  BlockingIOError when more of it has to arrive; OSError (SSLError) when it failed,
                after what the client is to know about it was sent
        """
        received = self._received
        count = self._socket.recv_into(received, FED_AT_ONCE)
        if count == 0:
            raise ConnectionResetError("the client has closed the connection")
        if self._is_first:
            self._is_first = False
            if received[0] != HANDSHAKE_RECORD:
                self.plaintext = protocol_of(bytes(received[:4]))
        self._incoming.write(received[:count])
        try:
            self._tls.do_handshake()
        except SSLWantReadError:
            self.flush()
            raise BlockingIOError from None
        except SSLError:
            with contextlib.suppress(OSError):
                self.flush()
                if self.plaintext is not None:
                    self._socket.send(UNEXPECTED_MESSAGE)
            raise
        self.is_established = True
        self.may_have_more = True
        with contextlib.suppress(BlockingIOError):
            self.flush()  # the rest goes out with the first response

    def certificate(self) -> bytes | None:
        """What the client has authenticated itself with, in DER."""
        return self._tls.getpeercert(binary_form=True)

    def recv_into(self, target: memoryview) -> int:
        """Receive as a socket does: 0 at the end, as many bytes as there are otherwise.

        raises  BlockingIOError, OSError (SSLError for bytes that are not of the client)
        """
        size = len(target)
        filled = 0
        if self.may_have_more:
            filled = self._decrypt(target)
            if filled or self._has_ended:
                return filled
        encrypted = self._encrypted(size)
        position = 0
        while position < len(encrypted):
            piece = encrypted[position : position + self._most(FED_AT_ONCE)]
            position += len(piece)
            self._incoming.write(piece)
            self._fed += len(piece)
            self._costly = min(self._costly + len(piece), COSTLY_MAX)
            if filled < size:
                filled += self._decrypt(target[filled:])
            if self._is_costly and position < len(encrypted):
                self._kept = memoryview(bytes(encrypted[position:]))
                self.may_have_more = True
                break
        if filled == 0 and encrypted and not self._has_ended:
            raise BlockingIOError
        return filled

    def _encrypted(self, size: int) -> memoryview:
        """What was kept, or what the socket has; empty at the end.

        raises  BlockingIOError, OSError
        """
        kept, self._kept = self._kept, None
        if kept is not None:
            return kept
        received = self._received
        most = self._most(min(max(size, RECEIVED_LEAST), RECEIVED_AT_ONCE))
        return received[: self._socket.recv_into(received, most)]

    def _most(self, bytes_max: int) -> int:
        return min(bytes_max, COSTLY_AT_ONCE) if self._is_costly else bytes_max

    def _decrypt(self, target: memoryview) -> int:
        """Fill the target with what OpenSSL has; 0 also when the client has ended."""
        size = len(target)
        filled = 0
        has_more = False
        read = cast(Callable[[int, memoryview], int], self._tls.read)
        try:
            while filled < size:
                count = read(size - filled, target[filled:])
                if not count:
                    self._has_ended = True
                    break
                filled += count
            has_more = True
        except SSLWantReadError:
            pass
        self.may_have_more = has_more or self._kept is not None
        self._fed -= FRUITFUL * filled
        self._costly = max(0, self._costly - CONTENT_LEAST * filled)
        if not has_more:
            self._is_costly = self._costly > (0 if self._is_costly else COSTLY)
            self._fruitless = max(0, self._fruitless + self._fed)
            self._fed = 0
            if self._fruitless > FRUITLESS_MAX:
                raise ConnectionAbortedError(FRUITLESS)
        if self._outgoing.pending:
            with contextlib.suppress(BlockingIOError):
                self.flush()  # a new key of TLS 1.3 is confirmed
        return filled

    @property
    def unsent_bytes(self) -> int:
        """Encrypted bytes that wait for the socket."""
        return (0 if self._unsent is None else len(self._unsent)) + self._outgoing.pending

    def send(self, content: bytes | memoryview) -> None:
        """Encrypt all of the content, and send what the socket takes.

        raises  BlockingIOError when a part is unsent: `flush` goes on; OSError
        """
        self._tls.write(content)
        self.flush()

    def flush(self) -> None:
        """Send what is encrypted.

        raises  BlockingIOError, OSError
        """
        while True:
            unsent = self._unsent
            if unsent is None:
                if not self._outgoing.pending:
                    return
                unsent = self._unsent = memoryview(self._outgoing.read())
            sent = self._socket.send(unsent)
            self._unsent = unsent[sent:] if sent < len(unsent) else None

    def close(self) -> None:
        """Close the socket; the client is sent a close_notify if the socket takes it."""
        if self.is_established and not self._has_ended:
            with contextlib.suppress(OSError):
                self._tls.unwrap()
        if self.is_established:
            with contextlib.suppress(OSError):
                self.flush()
        self._socket.close()


def protocol_of(head: bytes) -> str:
    """What the first bytes of a connection are, if not TLS."""
    if head in HTTP_METHODS:
        return "HTTP"
    if head[:1] == b"\0":
        return "a request of Kafka's protocol without TLS"
    return "bytes that are not TLS"
