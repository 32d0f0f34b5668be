"""One client connection on a raw non-blocking socket.

Readable: receive, split into frames, dispatch each in order, write the turn's staged appends, send.
After others have used up the time of this iteration of the loop it is read in the rounds instead,
unless its last turns were short.
Frames beyond the time of one slice are held back and go on in rounds with those of other
connections.  Reading stops while a request is done in slices, frames are held back, too many
responses are outstanding or too many bytes wait to be sent.

An exception anywhere closes this connection and gives back what it held.
"""

from __future__ import annotations

import logging
import os
import socket
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Protocol

from odradek.broker.security.kafka_principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.server.budget import Budget
from odradek.broker.server.connection_throttle import ConnectionThrottle, measured
from odradek.broker.server.transmit import Parts, TransmitResult, Transmitter
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.frames import FrameReader
from odradek.protocol.response_queue import ResponseQueue, ResponseSlot
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.scheduler import SHORT_SLICE_NS, Scheduler
from odradek.runtime.timers import Timer
from odradek.runtime.work import Later, Work

if TYPE_CHECKING:
    from odradek.broker.server.request_times import ApiTimes

OUTSTANDING_MAX: Final = 100
"""Requests of one connection that may wait for their responses before reading stops."""
OUTSTANDING_LEAST: Final = 5
"""Requests that each connection may have, however many others wait: clients have five in flight."""
WAITING_MAX: Final = 4_096
"""Requests of all connections that wait, beyond `OUTSTANDING_LEAST` of each.  Each consists of some
30 objects, which every full garbage collection walks."""
WAITING_SHARES: Final = 32
"""A connection takes at most this part of those that are left to all: none takes the whole."""
QUEUED_BYTES_MAX: Final = 4 << 20
"""Bytes of one connection that may wait for the socket before reading stops."""
SLICE_BYTES: Final = 16 * 1024
"""Bytes of small frames that are received in a slice: to split 256 KiB of them takes 5 ms."""
NEW_TRUST: Final = -3
"""Each short turn adds one: a new connection is trusted after four, as is one that has had to hold
requests back, so that a cheap request does not make up for an expensive one.  Above it, those that
are put off come before connections of which nothing is known."""
TRUST_MAX: Final = 8

EVERYTHING: Final = TransmitResult.EMPTY
"""What most turns end with: to find a member of an enumeration takes as long as the comparison."""

logger = logging.getLogger("odradek.server")


class CancellableRequest(Protocol):
    """A request that waits for its response."""

    @property
    def api_key(self) -> int:
        """What waits."""

    def cancel(self) -> None:
        """Wait no more, without a response, and give back what is held."""


@dataclass(slots=True)
class ServerContext:
    """What the connections of one server share.

    dispatch        handles one request
    end_of_turn     writes what the turn staged, and responds to it
    wake            attempts the parked requests whose keys were notified
    in_thread       runs its first argument off the loop, then its second on the loop
    on_large_frame  a large frame of the connection has grown; may close another connection
    on_closed       the connection is closed
    after           adds a timer that is due in so many milliseconds
    now_ms          monotonic milliseconds
    on_opened       the connection is open; None: nothing follows from it
    """

    loop: AbstractEventLoop
    loop_watch: LoopWatch
    metrics: BrokerMetrics
    scheduler: Scheduler
    budget: Budget
    dispatch: Callable[[Connection, memoryview], None]
    end_of_turn: Callable[[], None]
    wake: Callable[[], None]
    in_thread: Callable[[Callable[[], None], Callable[[], None]], None]
    on_large_frame: Callable[[Connection], None]
    on_closed: Callable[[Connection], None]
    after: Callable[[int, Callable[[], None]], Timer]
    now_ms: Callable[[], int]
    on_opened: Callable[[Connection], None] | None = None


class Connection:
    """A socket, its frame reader, and its responses until they are sent."""

    __slots__ = (
        "__weakref__",
        "_blocked",
        "_held",
        "_held_bytes",
        "_in_turn",
        "_is_charged",
        "_is_put_off",
        "_reading",
        "_reads_frames",
        "_server",
        "_socket",
        "_throttle",
        "_trust",
        "client_host",
        "descriptor",
        "filled_since_ns",
        "full_since_ns",
        "has_received",
        "held_since_ns",
        "is_closed",
        "last_active_ms",
        "listener_name",
        "number",
        "principal",
        "reader",
        "responses",
        "times",
        "transmitter",
        "under_way",
        "waiting",
    )

    def __init__(
        self,
        server: ServerContext,
        connected: socket.socket,
        reader: FrameReader,
        *,
        number: int,
        listener_name: str,
        client_host: str,
    ) -> None:
        self._server = server
        self._socket = connected
        self.descriptor = connected.fileno()
        self.reader = reader
        self.responses: ResponseQueue | None = None
        """Made when a response has to wait for the first time; most connections never need it."""
        self.waiting: dict[CancellableRequest, None] = {}
        """Requests in the purgatory."""
        self.transmitter = Transmitter(connected)
        self.number = number
        """Rises with each connection of the server."""
        self.listener_name = listener_name
        self.client_host = client_host
        self.principal = ANONYMOUS
        """Who has authenticated."""
        self.last_active_ms = server.now_ms()
        self.has_received = False
        """Whether the client has sent anything."""
        self.is_closed = False
        self._blocked = False
        self._held: deque[bytearray] = deque()
        """Requests that were received and wait for a slice, or until responses are sent."""
        self._held_bytes = 0
        self.held_since_ns = 0
        """When the first of them were received; 0: there are none."""
        self.times: ApiTimes | None = None
        """Counts how long responses wait; None: nothing does."""
        self.filled_since_ns = 0
        """When a response was made that waits for an earlier one; 0: there is none."""
        self.full_since_ns = 0
        """When the socket took no more."""
        self._is_charged = False
        """Whether the budget counts responses that the client has not taken."""
        self.under_way: Work[None] | None = None
        """The request that goes on in slices or waits, if any; the next ones wait for it."""
        self._reads_frames = False
        """Whether it still reads its frame."""
        self._in_turn = False
        self._trust = NEW_TRUST
        """It is not put off while this is above 0."""
        self._is_put_off = False
        """Whether it is to be read in the rounds."""
        self._throttle: ConnectionThrottle | None = None
        """Made when the first request is counted for quotas."""
        self._reading = True
        if server.on_opened is not None:
            server.on_opened(self)
        server.loop.add_reader(self.descriptor, self._on_readable)

    def on_authenticated(
        self, principal: KafkaPrincipal, server: ServerContext, frame_bytes_max: int
    ) -> None:
        """The client has authenticated.

        server  the context from now on
        """
        self.principal = principal
        self._server = server
        self.reader.admit(frame_bytes_max)

    def _on_readable(self) -> None:
        began_ns = monotonic_ns()
        server = self._server
        if self._trust <= 0 and server.scheduler.is_over():
            self._put_off()
            return
        frames = self._read()
        took_ns = server.loop_watch.ran(began_ns, frames)
        self._return_memory()
        if took_ns > SHORT_SLICE_NS:
            server.scheduler.spent(took_ns)
            self._judge(took_ns, frames)
        elif self._trust < TRUST_MAX:
            self._judge(took_ns, frames)

    def _put_off(self) -> None:
        """Have the rounds read; the loop would call a reader in each iteration until then."""
        self._is_put_off = True
        try:
            self._pause()
            self._server.scheduler.add_first(self, is_known=self._trust > NEW_TRUST)
        except Exception:  # noqa: BLE001 - no other callback would come
            self._break("putting off a turn")

    def read_again(self) -> None:
        """Have the rounds read, whatever the loop says of the socket."""
        if self._reading and not self.is_closed:
            self._put_off()

    def _judge(self, took_ns: int, frames: list[memoryview]) -> None:
        """A turn is over; one without requests does not show that the next one is short."""
        work = self.under_way
        if (work is not None and not work.awaits_result) or self._held:
            self._trust = NEW_TRUST
        elif took_ns > 2 * SHORT_SLICE_NS:
            # A busy machine makes short turns long, but leaves no work behind.
            self._trust = max(NEW_TRUST, self._trust - 1)
        elif frames:
            if took_ns <= SHORT_SLICE_NS:
                self._trust = min(TRUST_MAX, self._trust + 1)
            else:
                # A client that sends little finds the processor's caches cold.
                self._trust = max(NEW_TRUST + 1, self._trust - 1)

    def _read(self, deadline_ns: int | None = None) -> list[memoryview]:
        """A turn: handle what was received; returns its frames.

        deadline_ns  when to hold back the rest; None: after a first slice
        """
        server = self._server
        frames: list[memoryview] = []
        try:
            try:
                target = self.reader.target()
                if deadline_ns is not None and not self.reader.has_large_frame():
                    target = target[:SLICE_BYTES]
                count = self._socket.recv_into(target)
            except BlockingIOError:
                return frames
            except OSError:
                self.close()
                return frames
            if count == 0:
                self.close()
                return frames
            self.last_active_ms = server.now_ms()
            self.has_received = True
            try:
                frames = self.reader.received(count)
            except DecodeError as error:
                logger.warning("closing %s: %s", self.client_host, error)
                self.close()
                return frames
            if self.reader.has_large_frame():
                server.on_large_frame(self)
            if not frames:
                return frames
            self._in_turn = True
            if len(frames) == 1:
                server.dispatch(self, frames[0])
            else:
                self._dispatch_some(frames, deadline_ns or server.scheduler.first_deadline_ns())
        except Exception:  # noqa: BLE001 - nothing of one connection reaches the loop
            self._break("a turn")
            if not self._in_turn:
                return frames
        self._end_turn()
        return frames

    def _dispatch_some(self, frames: list[memoryview], deadline_ns: int) -> None:
        """Dispatch frames of the receive buffer, and hold back those beyond this slice."""
        server = self._server
        for number, frame in enumerate(frames):
            if number and (
                self.under_way is not None or self._is_full() or monotonic_ns() >= deadline_ns
            ):
                self._hold(frames[number:])
                break
            server.dispatch(self, frame)
            if self.is_closed:
                break

    def _hold(self, frames: list[memoryview]) -> None:
        """Copy frames out of the receive buffer.

        Hundreds of thousands may be held: as bytearrays, which no garbage collection walks, and to
        which the offsets of batches can be written.
        """
        self._held.extend(map(bytearray, frames))
        self._held_bytes = sum(map(len, frames))
        self.held_since_ns = monotonic_ns()
        self._server.budget.charge(self, self._held_bytes)

    def run_slice(self, deadline_ns: int) -> bool:
        """Read what was put off, or dispatch frames that were held back."""
        if self._is_put_off:
            self._read_in_round(deadline_ns)
            return False
        held = self._held
        if not held or self.under_way is not None or self.is_closed:
            return False
        self._in_turn = True
        try:
            while not self.is_closed:
                self._server.dispatch(self, memoryview(held.popleft()))
                if not held or self.under_way is not None or self._is_full():
                    break
                if monotonic_ns() >= deadline_ns:
                    break
        except Exception:  # noqa: BLE001 - the turn ends all the same
            self._break("a request")
        if not held:
            self._server.budget.release(self, self._held_bytes)
            self._held_bytes = self.held_since_ns = 0
        self._end_turn()
        self._return_memory()
        return False  # `_consider_reading` has added the connection to the rounds again

    def _read_in_round(self, deadline_ns: int) -> None:
        self._is_put_off = False
        if self.is_closed:
            return
        if not self._is_full():
            began_ns = monotonic_ns()
            frames = self._read(deadline_ns)
            self._judge(monotonic_ns() - began_ns, frames)
            self._return_memory()
        self.flush()  # to be read by the loop again, also if there was no request

    def abandon(self, error: Exception) -> None:
        """Close after a slice that has failed."""
        self._break(f"a slice ({error!r})")

    def on_work_done(self) -> None:
        """The request in slices has ended."""
        self.under_way = None
        self._reads_frames = False
        if not self._in_turn:
            self._in_turn = True
            self._end_turn()
            self._return_memory()

    def own_frames(self) -> None:
        """The request that is being dispatched reads its frame after the turn: keep its memory
        until `frames_are_read`, or until it is done."""
        self._reads_frames = True
        self.reader.own_frames()

    def frames_are_read(self) -> None:
        """The request under way is decoded, and nothing refers to its frame any more."""
        self._reads_frames = False
        if not self._in_turn:
            self._return_memory()

    def _return_memory(self) -> None:
        """Give back the memory of the frames, unless the request under way still reads it."""
        if self.under_way is None or not self._reads_frames:
            self.reader.settle()
            if self.is_closed:
                self.reader.close()

    def _end_turn(self) -> None:
        """Write what was staged, send, and attempt the requests that waited for it."""
        server = self._server
        try:
            server.end_of_turn()
        except Exception:  # noqa: BLE001 - the memory is given back below
            self._break("the end of a turn")
        self._in_turn = False
        try:
            self.flush()
            server.wake()
        except Exception:  # noqa: BLE001 - as above
            self._break("the end of a turn")
        if self._throttle is not None:
            self._throttle.end()

    def counted(self, work: Later[None]) -> Later[None]:
        """Work in slices, whose time is counted if that of requests is."""
        return work if self._throttle is None else measured(work, self._throttle)

    def metered(self) -> ConnectionThrottle:
        """Have the time of requests counted from now on."""
        if self._throttle is None:
            self._throttle = ConnectionThrottle(self._server.after, self.flush)
        return self._throttle

    def _break(self, what: str) -> None:
        """Close after an exception that is being handled."""
        logger.exception("closing the connection of %s: %s failed", self.client_host, what)
        self.close()

    def _is_full(self) -> bool:
        """Whether so many responses are outstanding or unsent that no more requests are taken, or
        a quota is exceeded."""
        if self._throttle is not None and self._throttle.is_muted:
            return True
        responses = self.responses
        if responses is None or not responses.slots:
            return self.transmitter.queued_bytes > QUEUED_BYTES_MAX
        outstanding = len(responses.slots)
        return (
            outstanding >= OUTSTANDING_MAX
            or self.transmitter.queued_bytes + responses.held_bytes > QUEUED_BYTES_MAX
            or (outstanding >= OUTSTANDING_LEAST and outstanding > self._waiting_share())
        )

    def _waiting_share(self) -> int:
        """How many requests this connection may have waiting, of what is left to all."""
        return (WAITING_MAX - self._server.metrics.delayed_requests) // WAITING_SHARES

    def is_idle(self) -> bool:
        """Whether every request has its response, and the client has taken all of them; false, too,
        while requests that may have arrived are not read."""
        return not (
            self.waiting
            or self.under_way
            or self._held
            or self._is_put_off
            or self.transmitter.queue
            or self.responses
        )

    def is_unread(self) -> bool:
        """Whether nothing is read, the end of the stream neither, until waiting requests end."""
        if self.under_way is not None:
            return self.under_way.awaits_result
        is_muted = self._throttle is not None and self._throttle.is_muted
        return (is_muted or bool(self.waiting)) and not (
            self._reading or self._is_put_off or self._server.scheduler.is_waiting(self)
        )

    def reserve(self) -> ResponseSlot:
        """A place for a response that is made later."""
        if self.responses is None:
            self.responses = ResponseQueue()
        return self.responses.reserve()

    def respond(self, parts: Parts) -> None:
        """Send the response to the request that is being dispatched, after those before it."""
        responses = self.responses
        if self.is_closed:
            release(parts)
        elif responses is not None and responses.slots:
            self.fill(responses.reserve(), parts)
        else:
            self.transmitter.add(parts)

    def fill(self, slot: ResponseSlot, parts: Parts) -> None:
        """Send the response to an earlier request, after those before it."""
        if self.is_closed:
            release(parts)
            return
        assert self.responses is not None, "a slot was reserved"
        leaving = self.responses.fill(slot, parts)
        if leaving:
            self.transmitter.add(leaving)
            if self.filled_since_ns and self.times is not None:
                self.times.leaving.record_ns(monotonic_ns() - self.filled_since_ns)
                self.filled_since_ns = 0
            if not self._in_turn:
                self.flush()
        elif not self.filled_since_ns and self.times is not None:
            self.filled_since_ns = monotonic_ns()

    def flush(self) -> None:
        """Send what is queued, unless the socket is known to be full."""
        if self.is_closed:
            return
        try:
            if self.transmitter.queue and not self._blocked:
                self._transmit()
            if not self.is_closed:
                self._consider_reading()
        except Exception:  # noqa: BLE001 - nothing of one connection reaches the others
            self._break("sending")

    def _transmit(self) -> None:
        try:
            progress = self.transmitter.run()
        except OSError:
            self.close()
            return
        if progress is EVERYTHING:
            if self._blocked:
                self._stop_writer()
        elif progress is TransmitResult.BLOCKED:
            if not self._blocked:
                self._blocked = True
                self.full_since_ns = monotonic_ns()
                self._server.loop.add_writer(self.descriptor, self._on_writable)
        else:
            if self._blocked:
                self._stop_writer()
            self._blocked = True
            self._server.in_thread(self.transmitter.cold_slice(), self._on_warm)

    def _stop_writer(self) -> None:
        self._blocked = False
        self._server.loop.remove_writer(self.descriptor)
        if self.times is not None:
            self.times.sending.record_ns(monotonic_ns() - self.full_since_ns)

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
        """Read on, unless a request is in slices, frames are held back, or too much is unsent."""
        responses = self.responses
        if self._blocked or self._is_charged or (responses is not None and responses.held_bytes):
            self._report_responses()
            if self.is_closed:
                return
        if self.under_way is not None or self._is_full():
            self._pause()
        elif self._held:
            self._pause()
            self._server.scheduler.add(self)
        elif not (self._reading or self._is_put_off):
            self._reading = True
            self._server.loop.add_reader(self.descriptor, self._on_readable)

    def _report_responses(self) -> None:
        """Charge the budget with the responses that the client has not taken."""
        held = self.transmitter.held_bytes()
        if self.responses is not None:
            held += self.responses.held_bytes
        self._is_charged = held > 0
        self._server.budget.set_responses(self, held)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._server.loop.remove_reader(self.descriptor)

    def close_after_responses(self) -> None:
        """Send the responses that are ready, as far as the socket takes them, and end."""
        self.flush()
        self.close()

    def close(self) -> None:
        """End the connection; responses that are not sent are dropped.

        Every step is taken, even if another one fails: memory that is held here is missing to other
        connections.
        """
        if self.is_closed:
            return
        self.is_closed = True
        for step in (
            self._pause,
            lambda: self._server.loop.remove_writer(self.descriptor),
            self._cancel_work,
            lambda: None if self._throttle is None else self._throttle.close(),
            lambda: None if self._in_turn or self.under_way else self.reader.close(),
            self.transmitter.close,
            lambda: release([] if self.responses is None else self.responses.clear()),
            self._held.clear,
            self._socket.close,
            lambda: self._server.on_closed(self),
        ):
            try:
                step()
            except Exception:
                logger.exception("a step of closing %s failed", self.client_host)

    def _cancel_work(self) -> None:
        if self.under_way is not None:
            self.under_way.cancel()


def release(parts: Parts) -> None:
    """Release the slices among parts that will not be sent."""
    for part in parts:
        if type(part) is not bytes:
            part.release()


def peer_host(connected: socket.socket) -> str:
    """The address of the client, or an empty string when it has left already."""
    try:
        address = connected.getpeername()
    except OSError:
        return ""
    return str(address[0]) if isinstance(address, tuple) else os.fsdecode(address)
