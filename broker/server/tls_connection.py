"""A client connection over TLS: the frames, memory, fairness and bounds of `Connection`.

The handshake is done in turns, as requests are: what it takes counts in the rounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Protocol

from odradek.broker.security.kafka_principal import KafkaPrincipal
from odradek.broker.security.tls.principal_mapper import NoMatchingRule
from odradek.broker.security.tls.tls_transport import SENT_AT_ONCE, TlsTransport
from odradek.broker.server.connection import Connection, ServerContext
from odradek.broker.server.transmit import CUT, Parts, TransmitResult, Transmitter, is_in_memory
from odradek.protocol.frames import FrameReader

RUN_BYTES_MAX: Final = 512 << 10
"""What one run of a transmitter encrypts, for the sake of the other connections: 0.4 ms."""


class HandshakeObserver(Protocol):
    """Learns how handshakes end."""

    def established(self, connection: TlsConnection) -> None:
        """The client may send requests."""

    def failed(self, connection: TlsConnection, reason: str) -> None:
        """The connection is closed."""

    def ended(self, connection: TlsConnection) -> None:
        """The connection is closed, perhaps before its handshake was over."""


class TlsTransmitter(Transmitter):
    """Encrypts bytes and slices of files in pieces of `SENT_AT_ONCE`, whatever their borders."""

    __slots__ = ("_transport",)

    def __init__(self, transport: TlsTransport) -> None:
        super().__init__(transport)  # type: ignore[arg-type]
        self._transport = transport

    def held_bytes(self) -> int:
        return super().held_bytes() + self._transport.unsent_bytes

    def run(self) -> TransmitResult:
        encrypted = 0
        try:
            self._transport.flush()
            while self.queue:
                if encrypted >= RUN_BYTES_MAX:
                    return TransmitResult.BLOCKED  # to go on in the next iteration of the loop
                first = self.queue[0]
                if type(first) is not bytes:
                    if first.is_truncated:
                        raise OSError(CUT)
                    if self._is_cold():
                        return TransmitResult.COLD
                pieces = self._gather()
                piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                # What is encrypted has left the queue, also when the socket takes a part of it.
                self._advance(len(piece))
                encrypted += len(piece)
                self._transport.send(piece)
        except BlockingIOError:
            return TransmitResult.BLOCKED
        return TransmitResult.EMPTY

    def _gather(self) -> Parts:
        """The next bytes of the queue, `SENT_AT_ONCE` at most, up to a slice that is cold."""
        pieces: Parts = []
        space = SENT_AT_ONCE
        position = self._sent
        for part in self.queue:
            size = min(len(part) - position, space)
            if type(part) is bytes:
                whole = size == len(part)
                pieces.append(part if whole else memoryview(part)[position : position + size])
            else:
                start = part.position + position
                if pieces and (part.is_truncated or not is_in_memory(part.fileno(), start, size)):
                    break
                content = os.pread(part.fileno(), size, start)
                if len(content) != size:
                    raise OSError("a file ended within a slice that is being sent")
                pieces.append(content)
            space -= size
            position = 0
            if not space:
                break
        return pieces


class TlsConnection(Connection):
    """Reads no frame before the handshake is over."""

    __slots__ = ("_observer", "_principal_of", "_transport")

    def __init__(
        self,
        server: ServerContext,
        reader: FrameReader,
        *,
        number: int,
        listener_name: str,
        client_host: str,
        transport: TlsTransport,
        principal_of: Callable[[bytes | None], KafkaPrincipal],
        observer: HandshakeObserver,
    ) -> None:
        """principal_of  whom a certificate in DER belongs to; raises NoMatchingRule"""
        super().__init__(
            server,
            transport,  # type: ignore[arg-type]
            reader,
            number=number,
            listener_name=listener_name,
            client_host=client_host,
        )
        self.transmitter = TlsTransmitter(transport)
        self._transport = transport
        self._principal_of = principal_of
        self._observer = observer

    def _on_readable(self) -> None:
        # A part of a record has no byte of a request for the reader.
        self.last_active_ms = self._server.now_ms()
        super()._on_readable()
        self._read_what_is_left()

    def _consider_reading(self) -> None:
        super()._consider_reading()
        self._read_what_is_left()

    def _read_what_is_left(self) -> None:
        """Have the rounds read what is decrypted, or nearly: the descriptor need not be readable
        for it."""
        if self._transport.may_have_more and self._reading and not self.is_closed:
            self._put_off()

    def _read(self, deadline_ns: int | None = None) -> list[memoryview]:
        if not self._transport.is_established and not self._shake_hands():
            return []
        return super()._read(deadline_ns)

    def _shake_hands(self) -> bool:
        """A turn of the handshake; whether it is over."""
        transport = self._transport
        try:
            transport.handshake()
            self.principal = self._principal_of(transport.certificate())
        except BlockingIOError:
            return False
        except NoMatchingRule as error:
            self._observer.failed(self, str(error))
        except OSError as error:
            self._observer.failed(self, reason_of(error))
        except Exception:  # noqa: BLE001 - nothing of one connection reaches the loop
            self._break("a handshake")
        else:
            self._observer.established(self)
            return True
        self.close()
        return False

    @property
    def plaintext(self) -> str | None:
        """What the client speaks instead of TLS, if that has shown."""
        return self._transport.plaintext

    def is_idle(self) -> bool:
        return super().is_idle() and not self._transport.may_have_more

    def close(self) -> None:
        was_closed = self.is_closed
        super().close()
        if not was_closed:
            self._observer.ended(self)


def reason_of(error: OSError) -> str:
    """Why a handshake failed, for the log."""
    verification = getattr(error, "verify_message", None)
    reason = getattr(error, "reason", None)
    if verification:
        return f"its certificate: {verification}"
    if reason:
        return str(reason).lower().replace("_", " ")
    return error.strerror or str(error)
