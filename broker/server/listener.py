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
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from heapq import nsmallest
from time import monotonic_ns
from typing import Final

from odradek.broker.server.budget import BYTES_MAX, Budget
from odradek.broker.server.connection_quotas import ConnectionQuotas, Refusal
from odradek.broker.server.dispatch import Dispatcher
from odradek.broker.server.rounds import Rounds
from odradek.broker.server.session import Session, peer_host
from odradek.broker.server.windows import Windows
from odradek.broker.services import Services
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.connection import SCRATCH_BYTES, BufferPool, FrameReader
from odradek.runtime.tasks import Supervisor

ACCEPTS_PER_TURN: Final = 64
POOL_FREE_BYTES_MAX: Final = 16 << 20
REQUEST_THREADS: Final = 2
"""Each may decompress one batch at a time, up to 64 MiB."""
ACCEPT_PAUSE_S: Final = 0.1
"""How long accepting rests when the process has no descriptors left; connections go on."""
MAKE_ROOM_INTERVAL_MS: Final = 100
"""Between two looks at all connections for those that are idle."""
EVICTED_AT_ONCE: Final = 64
IDLE_LEAST_MS: Final = 1_000
"""A connection that was used since then is not closed to make room."""

logger = logging.getLogger("odradek.server")


class Listener:
    """A bound socket under a listener name."""

    def __init__(self, name: str, bound: socket.socket) -> None:
        self.name = name
        self.socket = bound
        host, port, *_ = bound.getsockname()
        self.port: int = port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        """What is listened on; 0.0.0.0 or [::] for every interface."""


def bind(name: str, host: str, port: int) -> Listener:
    """Bind, and refuse connections until `SocketServer.listen`; an empty host: every interface.

    raises  OSError when the address is taken or not ours
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
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
        connections_max: Callable[[], int],
    ) -> None:
        """connections_max  for how many the process has descriptors"""
        self.loop = loop
        self._services = services
        self._metrics = services.metrics
        self.loop_watch = services.loop_watch
        self.loop_watch.name_of = apis_of
        self._clock = services.clock
        self._executor = executor
        self._supervisor = supervisor
        bound = services.settings.queued_max_request_bytes
        self.budget = Budget(bound if bound > 0 else BYTES_MAX)
        # A pool of its own: what clients send must not keep disk jobs waiting.
        self._request_threads = ThreadPoolExecutor(REQUEST_THREADS, thread_name_prefix="request")
        self.rounds = Rounds(loop, self._request_threads, services.loop_watch)
        services.purgatory.on_more = partial(self.rounds.add, services.purgatory)
        self._dispatcher = Dispatcher(services, self.rounds, self.budget)
        self.dispatch = self._dispatcher.dispatch
        self.end_of_turn = self._dispatcher.end_of_turn
        self.wake = services.purgatory.run_notified
        self.now_ms = services.clock.monotonic_ms
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._pool = BufferPool(free_bytes_max=POOL_FREE_BYTES_MAX)
        self.windows = Windows()
        self._sessions: dict[Session, None] = {}
        self._connections_max = connections_max
        self._quotas = ConnectionQuotas(connections_max())
        self._make_room_at_ms = 0
        self._holders: OrderedDict[Session, None] = OrderedDict()
        """Sessions with a large frame, by the time of its last bytes."""
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Start accepting.

        raises  OSError when another process listens there since it was bound
        """
        listener.socket.listen(self._services.settings.socket_listen_backlog_size)
        self._listeners.append(listener)
        self.loop.add_reader(listener.socket.fileno(), lambda: self._accept(listener))

    def _accept(self, listener: Listener) -> None:
        began_ns = monotonic_ns()
        self._accept_some(listener)
        self.loop_watch.ran(began_ns, "accepting connections")

    def _accept_some(self, listener: Listener) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connected, address = listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._rest(listener, error)
                return
            host = str(address[0]) if isinstance(address, tuple) else peer_host(connected)
            try:
                if self._admits(host):
                    self._open(listener, connected, host)
                else:
                    connected.close()
            except Exception:
                logger.exception("a connection of %s could not be opened", host)
                connected.close()

    def _admits(self, host: str) -> bool:
        """Whether a host gets one more connection; idle ones are closed for it if need be."""
        quotas, settings = self._quotas, self._services.settings
        refusal = quotas.refusal(host, settings)
        if refusal is Refusal.DESCRIPTORS:
            self.make_room()
            refusal = quotas.refusal(host, settings)
        if refusal is None:
            return True
        self._metrics.connections_refused += 1
        logger.warning("a connection of %s is refused: %s", host, refusal.value)
        return False

    def make_room(self) -> None:
        """Close connections that are idle, if there are almost more than there are descriptors for.

        Those that never sent anything go first, then the ones that were used least recently.
        cost  a look at every connection, at most once in `MAKE_ROOM_INTERVAL_MS`
        """
        quotas = self._quotas
        quotas.descriptors_max = self._connections_max()
        now_ms = self.now_ms()
        if quotas.count < quotas.descriptors_max or now_ms < self._make_room_at_ms:
            return
        self._make_room_at_ms = now_ms + MAKE_ROOM_INTERVAL_MS
        idle = (
            (session.has_received, session.last_active_ms, number, session)
            for number, session in enumerate(self._sessions)
            if now_ms - session.last_active_ms >= IDLE_LEAST_MS and session.is_idle()
        )
        surplus = quotas.count - quotas.descriptors_max
        victims = nsmallest(surplus + EVICTED_AT_ONCE, idle)
        for _, _, _, session in victims:
            session.close()
        if victims:
            logger.warning(
                "there are descriptors for %d connections: %d idle ones were closed",
                quotas.descriptors_max,
                len(victims),
            )

    def _rest(self, listener: Listener, error: OSError) -> None:
        logger.warning("accepting on %s rests: %s", listener.name, error)
        self.loop.remove_reader(listener.socket.fileno())

        def again() -> None:
            if listener in self._listeners:
                self.loop.add_reader(listener.socket.fileno(), lambda: self._accept(listener))

        self.loop.call_later(ACCEPT_PAUSE_S, again)

    def _open(self, listener: Listener, connected: socket.socket, host: str) -> None:
        connected.setblocking(False)
        settings = self._services.settings
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
        session = Session(
            self,
            connected,
            reader,
            listener_name=listener.name,
            client_host=host,
            windows=self.windows if is_loopback(host) else None,
        )
        try:
            self._quotas.opened(host)
        except BaseException:
            session.close()
            raise
        self._sessions[session] = None
        self._metrics.connections_opened += 1

    def holds_memory(self, session: Session) -> None:
        """Keep the memory of unfinished large frames in bounds.

        The connection whose large frame has got nothing for the longest is closed first: memory is
        for those that send.  All together may have what the budget has; one alone, as much as
        socket.request.max.bytes.
        """
        holders = self._holders
        holders[session] = None
        holders.move_to_end(session)
        while self._pool.held_bytes > self.budget.bytes_max and len(holders) > 1:
            idle, _ = holders.popitem(last=False)
            if idle.reader.holds_memory():
                logger.warning("closing %s: its large frame does not arrive", idle.client_host)
                idle.close()

    def in_thread(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run `work` in the executor and `done` on the loop, whether or not it failed."""

        async def run() -> None:
            try:
                await self.loop.run_in_executor(self._executor, work)
            except (OSError, MemoryError) as error:
                logger.warning("reading cold pages failed: %s", error)
            began_ns = monotonic_ns()
            done()
            self.loop_watch.ran(began_ns, "sending what was read in a thread")

        self._supervisor.start("cold read", run())

    def closed(self, session: Session) -> None:
        """Forget a session and what it waited for."""
        self._metrics.connections_closed += 1
        if session in self._sessions:
            del self._sessions[session]
            self._quotas.closed(session.client_host)
        self._holders.pop(session, None)
        self.budget.forget(session)
        for waiting in tuple(session.waiting):
            waiting.cancel()
        session.waiting.clear()

    def close_idle(self, idle_max_ms: int) -> None:
        """Close sessions that have sent nothing for `idle_max_ms` and wait for nothing."""
        oldest_ms = self.now_ms() - idle_max_ms
        for session in tuple(self._sessions):
            is_idle = session.last_active_ms < oldest_ms and session.under_way is None
            if is_idle and not session.waiting:
                session.close()

    def held_frame_bytes(self) -> int:
        """Received bytes of large frames that are not whole, or not handled, yet."""
        return self._pool.held_bytes

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
        self._request_threads.shutdown(wait=False, cancel_futures=True)


def apis_of(frames: object) -> str:
    """Names the APIs of a turn's requests."""
    assert isinstance(frames, list), "a turn has a list of frames"
    keys = dict.fromkeys(int.from_bytes(frame[:2], "big") for frame in frames)
    known = {api.value: api.name for api in ApiKey}
    return f"{len(frames)} requests ({', '.join(known.get(key, str(key)) for key in keys)})"


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
