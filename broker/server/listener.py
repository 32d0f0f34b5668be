"""Listening sockets, and the server that sessions belong to.

Differs from Kafka: one thread serves every connection, so num.network.threads and num.io.threads
have no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from broker.server.dispatch import Dispatcher
from broker.server.session import Session, peer_host
from broker.server.windows import Windows
from broker.services import Services
from protocol.connection import SCRATCH_BYTES, BufferPool, FrameReader
from runtime.tasks import Supervisor

ACCEPTS_PER_TURN: Final = 64
POOL_FREE_BYTES_MAX: Final = 16 << 20
HELD_BYTES_MAX: Final = 256 << 20
"""Received bytes of unfinished large frames, all connections together; one frame alone may have as
much as socket.request.max.bytes."""
ACCEPT_PAUSE_S: Final = 0.1
"""How long accepting rests when the process has no descriptors left; connections go on."""

logger = logging.getLogger("odradek.server")


class Listener:
    """A bound socket under a listener name."""

    def __init__(self, name: str, bound: socket.socket) -> None:
        self.name = name
        self.socket = bound
        self.port: int = bound.getsockname()[1]


def bind(name: str, host: str, port: int, backlog: int) -> Listener:
    """Bind and listen; an empty host means every interface.

    raises  OSError when the address is taken or not ours
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(backlog)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return Listener(name, bound)


class SocketServer:
    """Accepts connections and hands their requests to the dispatcher."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        services: Services,
        executor: Executor,
        supervisor: Supervisor,
    ) -> None:
        self.loop = loop
        self._services = services
        self._settings = services.settings
        self._metrics = services.metrics
        self._clock = services.clock
        self._executor = executor
        self._supervisor = supervisor
        self._dispatcher = Dispatcher(services)
        self.dispatch = self._dispatcher.dispatch
        self.end_of_turn = self._dispatcher.end_of_turn
        self.wake = services.purgatory.run_notified
        self.now_ms = services.clock.monotonic_ms
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._pool = BufferPool(free_bytes_max=POOL_FREE_BYTES_MAX)
        self.windows = Windows()
        self._sessions: dict[Session, None] = {}
        self._holders: OrderedDict[Session, None] = OrderedDict()
        """Sessions with a large frame, by the time of its last bytes."""
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Start accepting."""
        self._listeners.append(listener)
        self.loop.add_reader(listener.socket.fileno(), lambda: self._accept(listener))

    def _accept(self, listener: Listener) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connected, _ = listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._rest(listener, error)
                return
            if len(self._sessions) >= self._settings.max_connections:
                connected.close()
                continue
            self._open(listener, connected)

    def _rest(self, listener: Listener, error: OSError) -> None:
        logger.warning("accepting on %s rests: %s", listener.name, error)
        self.loop.remove_reader(listener.socket.fileno())

        def again() -> None:
            if listener in self._listeners:
                self.loop.add_reader(listener.socket.fileno(), lambda: self._accept(listener))

        self.loop.call_later(ACCEPT_PAUSE_S, again)

    def _open(self, listener: Listener, connected: socket.socket) -> None:
        connected.setblocking(False)
        settings = self._settings
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if settings.socket_send_buffer_bytes > 0:
                grow(connected, socket.SO_SNDBUF, settings.socket_send_buffer_bytes)
            if settings.socket_receive_buffer_bytes > 0:
                grow(connected, socket.SO_RCVBUF, settings.socket_receive_buffer_bytes)
        except OSError:
            connected.close()
            return
        reader = FrameReader(self._scratch, self._pool, settings.socket_request_max_bytes)
        host = peer_host(connected)
        session = Session(
            self,
            connected,
            reader,
            listener_name=listener.name,
            client_host=host,
            windows=self.windows if is_loopback(host) else None,
        )
        self._sessions[session] = None
        self._metrics.connections_opened += 1

    def holds_memory(self, session: Session) -> None:
        """Keep the memory of unfinished large frames in bounds.

        Who promised a large frame and has sent nothing of it for longest is closed first: memory
        is for those who send.
        """
        holders = self._holders
        holders[session] = None
        holders.move_to_end(session)
        while self._pool.held_bytes > HELD_BYTES_MAX and len(holders) > 1:
            idle, _ = holders.popitem(last=False)
            if idle.reader.holds_memory():
                logger.warning("closing %s: its large frame does not arrive", idle.client_host)
                idle.close()

    def in_thread(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run `work` in the executor and `done` on the loop, whether or not it failed."""

        async def run() -> None:
            try:
                await self.loop.run_in_executor(self._executor, work)
            except OSError as error:
                logger.warning("reading cold pages failed: %s", error)
            done()

        self._supervisor.start("cold read", run())

    def closed(self, session: Session) -> None:
        """Forget a session and what it waited for."""
        self._metrics.connections_closed += 1
        self._sessions.pop(session, None)
        self._holders.pop(session, None)
        if session.operations:
            for operation in tuple(session.operations):
                self._services.purgatory.forget(operation)
            session.operations = None

    def close_idle(self, idle_max_ms: int) -> None:
        """Close sessions that have sent nothing for `idle_max_ms` and wait for nothing."""
        oldest_ms = self.now_ms() - idle_max_ms
        for session in tuple(self._sessions):
            if session.last_active_ms < oldest_ms and not session.operations:
                session.close()

    def session_count(self) -> int:
        """Open connections."""
        return len(self._sessions)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        for listener in self._listeners:
            self.loop.remove_reader(listener.socket.fileno())
            listener.socket.close()
        self._listeners.clear()

    def close(self) -> None:
        """Close everything."""
        self.stop_accepting()
        for session in tuple(self._sessions):
            session.close()


def is_loopback(host: str) -> bool:
    """Whether an address is that of this machine's loopback interface."""
    return host.startswith("127.") or host in ("::1", "::ffff:127.0.0.1")


def grow(connected: socket.socket, option: int, wanted_bytes: int) -> None:
    """Raise a socket buffer to `wanted_bytes`; a larger one that the host chose is kept.

    Setting a size switches the host's own tuning off, which costs throughput on loopback and long
    links, so the host's choice stays unless more was asked for.
    """
    if connected.getsockopt(socket.SOL_SOCKET, option) < wanted_bytes:
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, option, wanted_bytes)
