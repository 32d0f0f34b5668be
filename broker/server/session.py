"""One client connection on a raw non-blocking socket.

Readable: receive, split into frames, dispatch each in order, write the turn's staged appends, send.
Reading stops while too many answers are outstanding or too many bytes wait to be sent.
"""

from __future__ import annotations

import logging
import os
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker.server.transmit import Progress, Transmitter
from broker.server.windows import Windows
from protocol.connection import AnswerQueue, FrameReader, Slot
from protocol.decode_error import DecodeError

if TYPE_CHECKING:
    from broker.delayed import Operation

OUTSTANDING_MAX: Final = 100
"""Requests of one connection that may wait for their answers before reading stops."""
QUEUED_BYTES_MAX: Final = 4 << 20
"""Bytes of one connection that may wait for the socket before reading stops."""

logger = logging.getLogger("odradek.server")


class Server(Protocol):
    """What a session needs of its server."""

    loop: AbstractEventLoop

    def dispatch(self, session: Session, frame: memoryview) -> None:
        """Handle one request."""

    def end_of_turn(self) -> None:
        """Write what the turn staged and answer it."""

    def wake(self) -> None:
        """Ask the waiting requests whose keys were notified."""

    def in_thread(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run `work` off the loop, then `done` on it."""

    def holds_memory(self, session: Session) -> None:
        """A large frame of the session has grown; some other session may have to go for it."""

    def closed(self, session: Session) -> None:
        """The session is over."""

    def now_ms(self) -> int:
        """Monotonic milliseconds."""


class Session:
    """A connection: its socket, frame reader, answer queue and out-queue."""

    __slots__ = (
        "_blocked",
        "_held",
        "_in_turn",
        "_reading",
        "_server",
        "_socket",
        "answers",
        "client_host",
        "descriptor",
        "is_closed",
        "last_active_ms",
        "listener_name",
        "operations",
        "reader",
        "transmitter",
    )

    def __init__(
        self,
        server: Server,
        connected: socket.socket,
        reader: FrameReader,
        *,
        listener_name: str,
        client_host: str,
        windows: Windows | None,
    ) -> None:
        self._server = server
        self._socket = connected
        self.descriptor = connected.fileno()
        self.reader = reader
        self.answers: AnswerQueue | None = None
        """Made when a first answer has to wait; most connections never need it."""
        self.operations: dict[Operation, None] | None = None
        self.transmitter = Transmitter(connected, windows)
        self.listener_name = listener_name
        self.client_host = client_host
        self.last_active_ms = server.now_ms()
        self.is_closed = False
        self._blocked = False
        self._held: list[memoryview] = []
        """Requests that were received and wait until there is room for their answers."""
        self._in_turn = False
        self._reading = True
        server.loop.add_reader(self.descriptor, self._on_readable)

    def _on_readable(self) -> None:
        try:
            count = self._socket.recv_into(self.reader.target())
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if count == 0:
            self.close()
            return
        server = self._server
        self.last_active_ms = server.now_ms()
        try:
            frames = self.reader.received(count)
        except DecodeError as error:
            logger.warning("closing %s: %s", self.client_host, error)
            self.close()
            return
        if self.reader.holds_memory():
            server.holds_memory(self)
        if not frames:
            return
        self._turn(frames)

    def _turn(self, frames: list[memoryview]) -> None:
        server = self._server
        self._in_turn = True
        for number, frame in enumerate(frames):
            if self._is_full():
                # The answers to what came in one read may be a thousand times as large.
                self._held = [memoryview(bytearray(rest)) for rest in frames[number:]]
                break
            server.dispatch(self, frame)
            if self.is_closed:
                break
        server.end_of_turn()
        self._in_turn = False
        self.reader.settle()
        if self.is_closed:
            self.reader.close()
        self.flush()
        server.wake()

    def _turn_with_held(self) -> None:
        """Go on with the frames that were held back."""
        frames, self._held = self._held, []
        if not self.is_closed:
            self._turn(frames)

    def _is_full(self) -> bool:
        """Whether so much waits to be answered or sent that no more requests are taken."""
        answers = self.answers
        return self.transmitter.queued_bytes > QUEUED_BYTES_MAX or (
            answers is not None and len(answers) >= OUTSTANDING_MAX
        )

    def reserve(self) -> Slot:
        """A place for an answer that comes later."""
        if self.answers is None:
            self.answers = AnswerQueue()
        return self.answers.reserve()

    def answer(self, parts: list[Any]) -> None:
        """The answer to the request being dispatched, known at once."""
        if self.answers:
            self.fill(self.answers.reserve(), parts)
        else:
            self.transmitter.add(parts)

    def fill(self, slot: Slot, parts: list[Any]) -> None:
        """The answer to an earlier request."""
        if self.is_closed:
            release(parts)
            return
        assert self.answers is not None, "a slot was reserved"
        leaving = self.answers.fill(slot, parts)
        if leaving:
            self.transmitter.add(leaving)
            if not self._in_turn:
                self.flush()

    def flush(self) -> None:
        """Send what is queued, unless the socket is known to be full."""
        if self._blocked or self.is_closed:
            return
        if self.transmitter.queue:
            self._transmit()
        if not self.is_closed:
            self._consider_reading()

    def _transmit(self) -> None:
        try:
            progress = self.transmitter.run()
        except OSError:
            self.close()
            return
        if progress is Progress.BLOCKED:
            if not self._blocked:
                self._blocked = True
                self._server.loop.add_writer(self.descriptor, self._on_writable)
        elif progress is Progress.COLD:
            self._stop_writer()
            self._blocked = True
            self._server.in_thread(self.transmitter.cold_slice(), self._on_warm)
        else:
            self._stop_writer()

    def _stop_writer(self) -> None:
        if self._blocked:
            self._blocked = False
            self._server.loop.remove_writer(self.descriptor)

    def _on_writable(self) -> None:
        self._transmit()
        if not self.is_closed:
            self._consider_reading()

    def _on_warm(self) -> None:
        if self.is_closed:
            return
        self._blocked = False
        self.transmitter.warmed()
        self.flush()

    def _consider_reading(self) -> None:
        if self._is_full():
            self._pause()
        elif self._held:
            self._pause()
            self._server.loop.call_soon(self._turn_with_held)
        elif not self._reading:
            self._reading = True
            self._server.loop.add_reader(self.descriptor, self._on_readable)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._server.loop.remove_reader(self.descriptor)

    def close(self) -> None:
        """End the connection; answers that still wait are dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        self._pause()
        self._server.loop.remove_writer(self.descriptor)
        if not self._in_turn:
            self.reader.close()
        self.transmitter.close()
        if self.answers is not None:
            release(self.answers.clear())
        self._socket.close()
        self._server.closed(self)


def release(parts: list[Any]) -> None:
    """Let go of the slices among parts that will not be sent."""
    for part in parts:
        if type(part) is not bytes:
            part.release()


def peer_host(connected: socket.socket) -> str:
    """The address of the other side, or an empty string when it is gone already."""
    try:
        address = connected.getpeername()
    except OSError:
        return ""
    return str(address[0]) if isinstance(address, tuple) else os.fsdecode(address)
