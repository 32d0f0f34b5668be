"""The sockets of ZooKeeper's protocol, on the event loop of the process that serves the tree.

Source: ZooKeeper's NIOServerCnxnFactory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from time import monotonic_ns
from typing import Final

from odradek.controller.coordination.server.client_connection import ClientConnection, ClientService
from odradek.controller.coordination.server.client_sessions import AddTimer
from odradek.controller.coordination.server.jute import MalformedFrame
from odradek.runtime.clock import Clock
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.scheduler import scheduler_of

CONNECTIONS_MAX: Final = 256
HOST_CONNECTIONS_MAX: Final = 128
"""Connections of one host (ZooKeeper: maxClientCnxns)."""
ACCEPTS_PER_TURN: Final = 16
READ_BYTES: Final = 64 * 1024
HANDSHAKE_MS: Final = 10_000
"""A connection that has no session after this time is closed."""
ACCEPT_PAUSE_MS: Final = 1_000
"""After the process had no descriptor left."""
_BACKLOG: Final = 128


class ClientListener:
    """Accepts the connections of clients and closes them at the end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bound: socket.socket,
        service: ClientService,
        *,
        clock: Clock,
        add_timer: AddTimer,
        loop_watch: LoopWatch,
        on_problem: Callable[[str], None],
    ) -> None:
        """
        bound       a bound socket that does not block
        on_problem  called with a line for the operator
        """
        self.loop = loop
        self.clock = clock
        self.loop_watch = loop_watch
        self.scheduler = scheduler_of(clock, loop.call_soon, "requests to the embedded tree")
        self.on_problem = on_problem
        self._bound = bound
        self._service = service
        self._add_timer = add_timer
        self._transports: dict[SocketTransport, str] = {}
        """Each with its host, in the order in which they were accepted."""
        self._hosts: Counter[str] = Counter()
        self._is_listening = False

    def listen(self) -> None:
        """Start accepting.

        raises  OSError when another process listens there since it was bound
        """
        self._bound.listen(_BACKLOG)
        self._is_listening = True
        self._accept_again()

    def close(self) -> None:
        """Close all connections; the sessions of the clients are not ended."""
        if self._is_listening:
            self._is_listening = False
            self.loop.remove_reader(self._bound.fileno())
        self._service.sessions.close()
        for transport in list(self._transports):
            transport.connection.close()
        self._bound.close()

    def closed(self, transport: SocketTransport) -> None:
        """A connection is closed."""
        host = self._transports.pop(transport, None)
        if host is not None:
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]
        self._service.statistics.connections = len(self._transports)

    def _accept_again(self) -> None:
        if self._is_listening:
            self.loop.add_reader(self._bound.fileno(), self._accept)

    def _accept(self) -> None:
        began_ns = monotonic_ns()
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connected, address = self._bound.accept()
            except BlockingIOError:
                break
            except OSError as error:
                self.on_problem(f"no connection to the embedded tree is accepted: {error}")
                self.loop.remove_reader(self._bound.fileno())
                deadline_ms = self.clock.monotonic_ms() + ACCEPT_PAUSE_MS
                self._add_timer(deadline_ms, self._accept_again)
                break
            host = str(address[0])
            if self._has_place(host):
                self._open(connected, host)
            else:
                connected.close()
        self.loop_watch.ran(began_ns, "accepting connections to the embedded tree")

    def _has_place(self, host: str) -> bool:
        """Whether one more connection of a host may be opened.

        A connection that has no session yet gives its place up: sockets that say nothing refuse no
        client, which needs a millisecond to begin a session.
        """
        if self._hosts[host] >= HOST_CONNECTIONS_MAX:
            return self._close_silent(host)
        return len(self._transports) < CONNECTIONS_MAX or self._close_silent(None)

    def _close_silent(self, host: str | None) -> bool:
        """Close the oldest connection without a session, of a host or of all; False without one."""
        for transport, its_host in self._transports.items():
            if not transport.connection.has_session and host in (None, its_host):
                transport.connection.close()
                return True
        return False

    def _open(self, connected: socket.socket, host: str) -> None:
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            connected.close()
            return
        transport = SocketTransport(self, connected, self._service)
        self._transports[transport] = host
        self._hosts[host] += 1
        self._service.statistics.connections = len(self._transports)
        deadline_ms = self.clock.monotonic_ms() + HANDSHAKE_MS
        self._add_timer(deadline_ms, transport.check_handshake)
        transport.read_again()


class SocketTransport:
    """The socket of one connection."""

    def __init__(
        self, listener: ClientListener, connected: socket.socket, service: ClientService
    ) -> None:
        self._listener = listener
        self._loop = listener.loop
        self._memory = service.memory
        self._socket = connected
        self._unsent = bytearray()
        self._is_reading = False
        self._is_writing = False
        self._is_flush_scheduled = False
        self._is_ending = False
        self._is_closed = False
        self.connection = ClientConnection(service, self)

    # `ClientTransport`.

    def send(self, content: bytes) -> None:
        """Send after everything that waits, once the current callback has returned."""
        if self._is_closed:
            return
        self._unsent += content
        self._memory.add(self.connection, len(content))
        if not self._is_flush_scheduled and not self._is_writing and not self._is_closed:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)

    def unsent_bytes(self) -> int:
        """How much waits for the client to take it."""
        return len(self._unsent)

    def close(self) -> None:
        """Close at once; may be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        self._pause_reading()
        if self._is_writing:
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._unsent.clear()
        self._listener.closed(self)

    def close_when_sent(self) -> None:
        """Close after everything is sent that waits; nothing more is read."""
        self._is_ending = True
        self._pause_reading()
        if not self._is_flush_scheduled and not self._is_writing:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)

    def read_again(self) -> None:
        """Handle what has been received, and read on."""
        if not self._is_closed and not self._is_ending:
            self._listener.scheduler.add_first(self)

    # The socket.

    def check_handshake(self) -> None:
        """Close the connection if it has no session."""
        if not self.connection.has_session:
            self.connection.close()

    def _readable(self) -> None:
        try:
            content = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self.connection.close()
            return
        self.connection.receive(content)
        self._handle()

    def _handle(self) -> None:
        scheduler = self._listener.scheduler
        if self.run_slice(scheduler.first_deadline_ns()):
            scheduler.add(self)

    def run_slice(self, deadline_ns: int) -> bool:
        """Handle frames until the deadline; a bug costs this connection only."""
        began_ns = monotonic_ns()
        connection, clock = self.connection, self._listener.clock
        try:
            while connection.step(clock.monotonic_ms()):
                if self._listener.scheduler.now_ns() >= deadline_ns:
                    self._pause_reading()
                    return not (self._is_closed or self._is_ending)
        except MalformedFrame:
            connection.close()
        except Exception as error:  # noqa: BLE001 - reported; the process goes on
            self._listener.on_problem(f"a request to the embedded tree failed: {error!r}")
            connection.close()
        else:
            if connection.is_blocked():
                self._pause_reading()
            else:
                self._resume_reading()
        finally:
            self._listener.loop_watch.ran(began_ns, "requests to the embedded tree")
        return False

    def abandon(self, error: Exception) -> None:
        """Close after a slice that has failed."""
        self.connection.close()

    def _pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket.fileno())

    def _resume_reading(self) -> None:
        if not self._is_reading and not self._is_closed and not self._is_ending:
            self._is_reading = True
            self._loop.add_reader(self._socket.fileno(), self._readable)

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        if self._is_closed:
            return
        try:
            with contextlib.suppress(BlockingIOError):
                while self._unsent:
                    sent = self._socket.send(self._unsent)
                    del self._unsent[:sent]
                    self._memory.remove(self.connection, sent)
        except OSError:
            self.connection.close()
            return
        if self._unsent:
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._socket.fileno(), self._flush)
            return
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket.fileno())
        if self._is_ending:
            self.connection.close()
        elif not self._is_reading:
            # The connection was blocked, perhaps by what was not sent.
            self.read_again()
