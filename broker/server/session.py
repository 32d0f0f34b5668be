"""One client connection on a raw non-blocking socket.

Readable: receive, split into frames, dispatch each in order, write the turn's staged appends, send.
Frames beyond the time of one slice are held back and go on in rounds with those of others.
Reading stops while a request is done in slices, frames are held back, too many responses are
outstanding or too many bytes wait to be sent.

An exception anywhere closes this connection and gives back what it held.
"""

from __future__ import annotations

import logging
import os
import socket
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from odradek.broker.server.transmit import Progress, Transmitter
from odradek.broker.server.windows import Windows
from odradek.protocol.connection import AnswerQueue, FrameReader, Slot
from odradek.protocol.decode_error import DecodeError
from odradek.runtime.loop_watch import LoopWatch

if TYPE_CHECKING:
    from odradek.broker.server.budget import Budget
    from odradek.broker.server.rounds import Rounds, SlicedSteps

OUTSTANDING_MAX: Final = 100
"""Requests of one connection that may wait for their answers before reading stops."""
QUEUED_BYTES_MAX: Final = 4 << 20
"""Bytes of one connection that may wait for the socket before reading stops."""

logger = logging.getLogger("odradek.server")


class Waiting(Protocol):
    """A request that waits for its response."""

    def cancel(self) -> None:
        """Wait no more, without a response; what is held is given back."""


class Server(Protocol):
    """What a session needs of its server."""

    loop: AbstractEventLoop
    loop_watch: LoopWatch
    rounds: Rounds
    budget: Budget

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
        "_held_bytes",
        "_in_turn",
        "_owes",
        "_reading",
        "_server",
        "_socket",
        "answers",
        "client_host",
        "descriptor",
        "has_received",
        "is_closed",
        "last_active_ms",
        "listener_name",
        "reader",
        "transmitter",
        "under_way",
        "waiting",
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
        self.waiting: dict[Waiting, None] = {}
        """Requests in the purgatory, and those whose result is not done."""
        self.transmitter = Transmitter(connected, windows)
        self.listener_name = listener_name
        self.client_host = client_host
        self.last_active_ms = server.now_ms()
        self.has_received = False
        """Whether anything was sent on it."""
        self.is_closed = False
        self._blocked = False
        self._held: deque[memoryview] = deque()
        """Requests that were received and wait for a slice, or for room for their responses."""
        self._held_bytes = 0
        self._owes = False
        """Whether the budget knows of responses that wait for the client."""
        self.under_way: SlicedSteps | None = None
        """The request that is done in slices, if any; the next ones wait for it."""
        self._in_turn = False
        self._reading = True
        server.loop.add_reader(self.descriptor, self._on_readable)

    def _on_readable(self) -> None:
        began_ns = monotonic_ns()
        server = self._server
        frames: list[memoryview] = []
        try:
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
            self.last_active_ms = server.now_ms()
            self.has_received = True
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
            self._in_turn = True
            if len(frames) == 1:
                server.dispatch(self, frames[0])
            else:
                self._dispatch_some(frames)
        except Exception:  # noqa: BLE001 - nothing of one connection reaches the loop
            self._break("a turn")
            if not self._in_turn:
                return
        self._end_turn()
        server.loop_watch.ran(began_ns, frames)

    def _dispatch_some(self, frames: list[memoryview]) -> None:
        """Dispatch frames of the receive buffer, and hold back those beyond this slice."""
        server = self._server
        deadline_ns = server.rounds.first_deadline_ns()
        for number, frame in enumerate(frames):
            if number and (
                self.under_way is not None
                or self._is_full()
                # What takes long works in slices of its own: now and then is often enough.
                or (not number & 3 and monotonic_ns() >= deadline_ns)
            ):
                self._hold(frames[number:])
                break
            server.dispatch(self, frame)
            if self.is_closed:
                break

    def _hold(self, frames: list[memoryview]) -> None:
        """Copy frames out of the receive buffer, once: responses to what came in one read may take
        long and be a thousand times as large."""
        content = memoryview(bytearray().join(frames))
        end = 0
        for frame in frames:
            start, end = end, end + len(frame)
            self._held.append(content[start:end])
        self._held_bytes = end
        self._server.budget.charge(self, end)

    def run_slice(self, deadline_ns: int) -> bool:
        """Go on with the frames that were held back."""
        held = self._held
        if not held or self.under_way is not None or self.is_closed:
            return False
        self._in_turn = True
        try:
            while not self.is_closed:
                self._server.dispatch(self, held.popleft())
                if not held or self.under_way is not None or self._is_full():
                    break
                if monotonic_ns() >= deadline_ns:
                    break
        except Exception:  # noqa: BLE001 - the turn ends all the same
            self._break("a request")
        if not held:
            self._server.budget.release(self, self._held_bytes)
            self._held_bytes = 0
        self._end_turn()
        return False  # `_consider_reading` has asked for the next one

    def abandon(self, error: Exception) -> None:
        """A slice has failed."""
        self._break(f"a slice ({error!r})")

    def on_work_done(self) -> None:
        """The request in slices has ended."""
        self.under_way = None
        if not self._in_turn:
            self._in_turn = True
            self._end_turn()

    def _end_turn(self) -> None:
        """Write what was staged, send, and wake requests that waited for it."""
        server = self._server
        try:
            server.end_of_turn()
        except Exception:  # noqa: BLE001 - memory is given back all the same
            self._break("the end of a turn")
        self._in_turn = False
        if self.under_way is None:
            # Else its memory is still being read.
            self.reader.settle()
            if self.is_closed:
                self.reader.close()
        try:
            self.flush()
            server.wake()
        except Exception:  # noqa: BLE001 - as above
            self._break("the end of a turn")

    def _break(self, what: str) -> None:
        """Close after an exception that is being handled."""
        logger.exception("closing the connection of %s: %s failed", self.client_host, what)
        self.close()

    def _is_full(self) -> bool:
        """Whether so much waits to be answered or sent that no more requests are taken."""
        answers = self.answers
        if answers is None:
            return self.transmitter.queued_bytes > QUEUED_BYTES_MAX
        return (
            self.transmitter.queued_bytes + answers.held_bytes > QUEUED_BYTES_MAX
            or len(answers) >= OUTSTANDING_MAX
        )

    def is_idle(self) -> bool:
        """Whether nothing is under way on it."""
        return not (
            self.waiting or self.under_way or self._held or self.transmitter.queue or self.answers
        )

    def reserve(self) -> Slot:
        """A place for an answer that comes later."""
        if self.answers is None:
            self.answers = AnswerQueue()
        return self.answers.reserve()

    def answer(self, parts: list[Any]) -> None:
        """The answer to the request being dispatched, known at once."""
        if self.is_closed:
            release(parts)
        elif self.answers:
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
        if self.is_closed:
            return
        try:
            if self.transmitter.queue and not self._blocked:
                self._transmit()
            if not self.is_closed:
                self._consider_reading()
        except Exception:  # noqa: BLE001 - nothing of one connection reaches its neighbours
            self._break("sending")

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
        try:
            self._transmit()
            if not self.is_closed:
                self._consider_reading()
        except Exception:  # noqa: BLE001 - nothing of one connection reaches the loop
            self._break("sending")

    def _on_warm(self) -> None:
        if self.is_closed:
            return
        self._blocked = False
        self.transmitter.warmed()
        self.flush()

    def _consider_reading(self) -> None:
        """Read on, or wait for what is under way, held back, or not taken yet."""
        answers = self.answers
        if self._blocked or self._owes or (answers is not None and answers.held_bytes):
            self._report_responses()
            if self.is_closed:
                return
        if self.under_way is not None or self._is_full():
            self._pause()
        elif self._held:
            self._pause()
            self._server.rounds.add(self)
        elif not self._reading:
            self._reading = True
            self._server.loop.add_reader(self.descriptor, self._on_readable)

    def _report_responses(self) -> None:
        """Charge what the client has not taken."""
        held = self.transmitter.held_bytes()
        if self.answers is not None:
            held += self.answers.held_bytes
        self._owes = held > 0
        self._server.budget.set_responses(self, held)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._server.loop.remove_reader(self.descriptor)

    def close(self) -> None:
        """End the connection; responses that still wait are dropped.

        Every step is taken, whatever fails in another: what is held here is missed elsewhere.
        """
        if self.is_closed:
            return
        self.is_closed = True
        for step in (
            self._pause,
            lambda: self._server.loop.remove_writer(self.descriptor),
            self._cancel_work,
            lambda: None if self._in_turn or self.under_way else self.reader.close(),
            self.transmitter.close,
            lambda: release([] if self.answers is None else self.answers.clear()),
            self._held.clear,
            self._socket.close,
            lambda: self._server.closed(self),
        ):
            try:
                step()
            except Exception:
                logger.exception("a step of closing %s failed", self.client_host)

    def _cancel_work(self) -> None:
        if self.under_way is not None:
            self.under_way.cancel()


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
