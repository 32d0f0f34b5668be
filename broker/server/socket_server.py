"""Accepts connections, bounds their number and memory, and closes them.

Differs from Kafka: one thread serves every connection, so num.network.threads and num.io.threads
have no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import select
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from heapq import nsmallest
from itertools import count
from time import monotonic_ns
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from odradek.broker.security.kafka_principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.server.bound_listener import BoundListener, client_host
from odradek.broker.server.budget import BYTES_MAX, Budget
from odradek.broker.server.connection import Connection, ServerContext, peer_host
from odradek.broker.server.connection_quotas import (
    ConnectionQuotas,
    Refusal,
    connection_rates,
    is_loopback,
    rate_limits,
    reason,
)
from odradek.broker.server.dispatch import Dispatcher
from odradek.broker.server.throttled_sockets import ThrottledSockets
from odradek.broker.services import Services
from odradek.broker.settings.listeners import SASL_PROTOCOLS
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.frames import BufferPool, FrameReader, ScratchBuffer
from odradek.runtime.host_names import first_address
from odradek.runtime.lent_memory import POISON
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.tasks import Supervisor
from odradek.runtime.wheel_driver import WheelDriver

if TYPE_CHECKING:
    from odradek.broker.security.sasl.authenticator import SaslListener
    from odradek.broker.server.handshakes import Handshakes
    from odradek.broker.server.sasl_gate import SaslGates
    from odradek.broker.server.tls_connection import TlsConnection

ACCEPTS_PER_TURN: Final = 64
NO_SASL: Final[Mapping[str, SaslListener]] = MappingProxyType({})
POOL_FREE_BYTES_MAX: Final = 16 << 20
ACCEPT_PAUSE_S: Final = 0.1
"""How long accepting pauses when the process has no descriptors left; open connections go on."""
EVICTION_INTERVAL_MS: Final = 100
"""The least time between two searches of all connections for idle ones."""
EVICTED_AT_ONCE: Final = 64
IDLE_LEAST_MS: Final = 1_000
"""A connection that was used within this time is not evicted."""
RESET_NOTICED_MS: Final = 15_000
"""How long after its last bytes a connection is looked at for a reset; `close_left` is called more
often."""
PEER_HAS_CLOSED: Final = getattr(select, "POLLRDHUP", select.POLLHUP)
"""Linux tells it before what was received earlier is read."""

logger = logging.getLogger("odradek.server")


class SocketServer:
    """The connections of one node."""

    _handshakes: Handshakes | None = None
    """Made for the first connection over TLS."""

    def __init__(  # noqa: PLR0913 - its parts are keywords
        self,
        loop: asyncio.AbstractEventLoop,
        services: Services,
        executor: Executor,
        supervisor: Supervisor,
        scheduler: Scheduler,
        connections_max: Callable[[], int],
        *,
        loop_watch: LoopWatch,
        sasl_listeners: Mapping[str, SaslListener] = NO_SASL,
        wheel: WheelDriver,
        make_dispatcher: Callable[[Services, Scheduler, Budget], Dispatcher] = Dispatcher,
        make_connection: Callable[..., Connection] = Connection,
        make_tls_connection: Callable[..., TlsConnection] | None = None,
    ) -> None:
        """
        services         what handlers get
        executor         reads pages that are not in memory
        scheduler        that of the purgatory of `services`, too
        connections_max  for how many the process has descriptors
        sasl_listeners   those whose clients authenticate, by name; `wheel` times them
        make_...         called in place of the classes; None: TlsConnection
        """
        self._services = services
        self._make_connection = make_connection
        self._make_connection_with_tls = make_tls_connection
        self._loop, self._executor, self._supervisor = loop, executor, supervisor
        self._metrics = services.metrics
        self.budget = Budget(max(0, services.settings.queued_max_request_bytes) or BYTES_MAX)
        self.scheduler = scheduler
        self.dispatcher = dispatcher = make_dispatcher(services, scheduler, self.budget)
        self.context = ServerContext(
            loop=loop,
            loop_watch=loop_watch,
            metrics=services.metrics,
            scheduler=self.scheduler,
            budget=self.budget,
            dispatch=dispatcher.dispatch,
            end_of_turn=dispatcher.end_of_turn,
            wake=services.purgatory.run_notified,
            in_thread=self._in_thread,
            on_large_frame=self._on_large_frame,
            on_closed=self._on_closed,
            after=wheel.after,
            now_ms=services.clock.monotonic_ms,
        )
        self._gates = self._make_gates(sasl_listeners, dispatcher, wheel)
        self.scratch = ScratchBuffer(poison=POISON)
        self.frame_memory = BufferPool(free_bytes_max=POOL_FREE_BYTES_MAX, poison=POISON)
        self.connections: dict[Connection, None] = {}
        self._numbers = count(1)
        self.connections_max = connections_max
        self._quotas = ConnectionQuotas(connections_max(), self._look_up)
        self.rates = connection_rates(services.settings, self._look_up)
        self._throttled = ThrottledSockets(loop)
        self._evict_at_ms = 0
        self._receiving: OrderedDict[Connection, None] = OrderedDict()
        """Connections with an unfinished large frame, by the time of its last bytes."""
        self._listeners: list[BoundListener] = []

    def _make_gates(
        self, sasl_listeners: Mapping[str, SaslListener], dispatcher: Dispatcher, wheel: WheelDriver
    ) -> dict[str, SaslGates]:
        if not sasl_listeners:
            return {}
        # Imported only where clients authenticate.
        from odradek.broker.server.sasl_gate import SaslGates

        services = self._services
        return {
            name: SaslGates(
                listener,
                dispatcher,
                wheel,
                services.clock,
                lambda: services.settings.socket_request_max_bytes,
            )
            for name, listener in sasl_listeners.items()
        }

    def listen(self, listener: BoundListener) -> None:
        """Start accepting.

        raises  OSError when another process listens there since it was bound
        """
        listener.socket.listen(self._services.settings.socket_listen_backlog_size)
        self._listeners.append(listener)
        self._metrics.listener(listener.name)
        self._quotas.look_up_hosts(self._services.settings)
        self._loop.add_reader(listener.socket.fileno(), lambda: self._accept(listener))

    def _accept(self, listener: BoundListener) -> None:
        began_ns = monotonic_ns()
        self._accept_some(listener)
        self.context.loop_watch.ran(began_ns, "accepting connections")

    def _accept_some(self, listener: BoundListener) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connected, address = listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._pause(listener, error)
                return
            host = client_host(address) if isinstance(address, tuple) else peer_host(connected)
            limits = rate_limits(listener.name, self._services.settings)
            throttle_ms = self.rates.record(limits, self.context.now_ms())
            if throttle_ms:
                self._count_throttled(listener, throttle_ms)
                self._admit_later(listener, connected, host, throttle_ms)
                return
            self._admit(listener, connected, host)

    def _admit_later(
        self, listener: BoundListener, connected: socket.socket, host: str, throttle_ms: int
    ) -> None:
        """Accept no more until the rate of new connections is down to its limit (KIP-612)."""
        self._loop.remove_reader(listener.socket.fileno())

        def go_on() -> None:
            self._admit(listener, connected, host)
            self._loop.add_reader(listener.socket.fileno(), lambda: self._accept(listener))

        self._throttled.hold(connected, throttle_ms, go_on)

    def _admit(self, listener: BoundListener, connected: socket.socket, host: str) -> None:
        settings = self._services.settings
        limits = rate_limits(listener.name, settings)
        # Differs from Kafka: this machine may connect once a second, however low its limit is, so
        # that the limit can be changed again.
        throttle_ms = self.rates.record_host(
            host, limits, self.context.now_ms(), least=1 if is_loopback(host) else 0
        )
        try:
            if throttle_ms:
                self._count_throttled(listener, throttle_ms)
                self._throttled.close_later(connected, throttle_ms, self._descriptors_left())
            elif self._admits(host, listener.name):
                self._open(listener, connected, host)
            else:
                connected.close()
        except Exception:
            logger.exception("a connection of %s could not be opened", host)
            connected.close()

    def _descriptors_left(self) -> int:
        return self._quotas.descriptors_max - self._quotas.count

    def _count_throttled(self, listener: BoundListener, throttle_ms: int) -> None:
        metrics = self._metrics.listener(listener.name)
        metrics.throttled_connections += 1
        metrics.accept_throttle_ms += throttle_ms

    def _look_up(self, host: str, then: Callable[[str], None]) -> None:
        """Look up a name in a thread."""

        async def run() -> None:
            address = await self._loop.run_in_executor(self._executor, first_address, host)
            if address is None:
                logger.warning("%s has no address: its limit of connections is left out", host)
            else:
                then(client_host(address))

        self._supervisor.start("look-up of a host", run())

    def _admits(self, host: str, listener: str) -> bool:
        """Whether a host gets one more connection; idle ones may be closed for it."""
        quotas, settings = self._quotas, self._services.settings
        refusal = quotas.refusal(host, listener, settings)
        if refusal is Refusal.DESCRIPTORS:
            self.evict_idle()
            refusal = quotas.refusal(host, listener, settings)
        if refusal is None:
            return True
        self._metrics.connections_refused += 1
        self._metrics.listener(listener).connections_refused += 1
        logger.warning(
            "a connection of %s is refused: %s", host, reason(refusal, listener, settings)
        )
        return False

    def evict_idle(self) -> None:
        """Close idle connections, if there are as many as the process has descriptors for.

        Those that never sent anything are closed first, then the least recently used ones.
        cost  one check of every connection, at most once in `EVICTION_INTERVAL_MS`
        """
        quotas = self._quotas
        quotas.descriptors_max = self.connections_max()
        now_ms = self.context.now_ms()
        if quotas.count < quotas.descriptors_max or now_ms < self._evict_at_ms:
            return
        self._evict_at_ms = now_ms + EVICTION_INTERVAL_MS
        idle = (
            (connection.has_received, connection.last_active_ms, number, connection)
            for number, connection in enumerate(self.connections)
            if now_ms - connection.last_active_ms >= IDLE_LEAST_MS and connection.is_idle()
        )
        surplus = quotas.count - quotas.descriptors_max
        victims = nsmallest(surplus + EVICTED_AT_ONCE, idle)
        for _, _, _, connection in victims:
            connection.close()
        if victims:
            logger.warning(
                "there are descriptors for %d connections: %d idle ones were closed",
                quotas.descriptors_max,
                len(victims),
            )

    def _pause(self, listener: BoundListener, error: OSError) -> None:
        logger.warning("accepting on %s pauses: %s", listener.name, error)
        self._loop.remove_reader(listener.socket.fileno())

        def again() -> None:
            if listener in self._listeners:
                self._loop.add_reader(listener.socket.fileno(), lambda: self._accept(listener))

        self._loop.call_later(ACCEPT_PAUSE_S, again)

    def _open(self, listener: BoundListener, connected: socket.socket, host: str) -> None:
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
        gates = self._gates.get(listener.name)
        frame_bytes_max = settings.socket_request_max_bytes
        context = self.context
        if gates is not None:
            frame_bytes_max = gates.listener.receive_bytes_max
            context = gates.context(context)
        reader = FrameReader(self.scratch, self.frame_memory, frame_bytes_max)
        if listener.tls is not None:
            connection = self._make_tls_connection(listener, context, connected, reader, host)
        else:
            connection = self._make_connection(
                context,
                connected,
                reader,
                number=next(self._numbers),
                listener_name=listener.name,
                client_host=host,
            )
        try:
            self._quotas.opened(host, listener.name)
        except BaseException:
            connection.close()
            raise
        self.connections[connection] = None
        self._metrics.connections_opened += 1
        self._metrics.listener(listener.name).connections_opened += 1

    def _make_tls_connection(
        self,
        listener: BoundListener,
        context: ServerContext,
        connected: socket.socket,
        reader: FrameReader,
        host: str,
    ) -> Connection:
        assert listener.tls is not None, "its protocol has TLS"
        # Imported at their first use: most brokers need neither OpenSSL nor certificates.
        from odradek.broker.security.tls.tls_transport import TlsTransport
        from odradek.broker.server.handshakes import Handshakes
        from odradek.broker.server.tls_connection import TlsConnection

        if self._handshakes is None:
            self._handshakes = Handshakes(
                self._loop, self._metrics, self.context.now_ms, sasl_listeners=self._gates
            )
        # With SASL a client is who has logged in, whatever its certificate (KIP-684).
        has_sasl = listener.protocol in SASL_PROTOCOLS
        make_connection = self._make_connection_with_tls or TlsConnection
        connection = make_connection(
            context,
            reader,
            number=next(self._numbers),
            listener_name=listener.name,
            client_host=host,
            transport=TlsTransport(connected, listener.tls.state.server),
            principal_of=anonymous if has_sasl else listener.tls.principal_of,
            observer=self._handshakes,
        )
        self._handshakes.begin(connection)
        return connection

    def _on_large_frame(self, connection: Connection) -> None:
        """Keep the memory of unfinished large frames in bounds.

        The connection whose large frame has grown least recently is closed first: memory is for
        clients that send.  All together may take what the budget allows; one alone, as much as
        socket.request.max.bytes.
        """
        receiving = self._receiving
        receiving[connection] = None
        receiving.move_to_end(connection)
        while self.frame_memory.held_bytes > self.budget.bytes_max and len(receiving) > 1:
            stalled, _ = receiving.popitem(last=False)
            if stalled.reader.has_large_frame():
                logger.warning("closing %s: its large frame does not arrive", stalled.client_host)
                stalled.close()

    def _in_thread(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run `work` in the executor and `done` on the loop, whether or not it failed."""

        async def run() -> None:
            try:
                await self._loop.run_in_executor(self._executor, work)
            except (OSError, MemoryError) as error:
                logger.warning("reading cold pages failed: %s", error)
            began_ns = monotonic_ns()
            done()
            self.context.loop_watch.ran(began_ns, "sending what was read in a thread")

        self._supervisor.start("cold read", run())

    def _on_closed(self, connection: Connection) -> None:
        """Forget a connection, and cancel its requests that wait."""
        self._metrics.connections_closed += 1
        if connection in self.connections:
            del self.connections[connection]
            self._quotas.closed(connection.client_host, connection.listener_name)
            self._metrics.listener(connection.listener_name).connections_closed += 1
        self._receiving.pop(connection, None)
        self.budget.forget(connection)
        for waiting in tuple(connection.waiting):
            waiting.cancel()
        connection.waiting.clear()

    def close_idle(self, idle_max_ms: int) -> None:
        """Close connections that have sent nothing for `idle_max_ms` and wait for nothing."""
        oldest_ms = self.context.now_ms() - idle_max_ms
        for connection in tuple(self.connections):
            is_idle = connection.last_active_ms < oldest_ms and connection.under_way is None
            if is_idle and not connection.waiting:
                connection.close()

    def close_left(self) -> None:
        """Notice clients that have left.

        A connection that is not read from is closed: requests that its client sent last are lost; a
        Fetch may have to wait for 24 days.  One that was read lately is read again: uvloop calls
        its reader once for a reset, which then reads what had arrived before.
        cost  one check of every connection
        """
        self._read_again_after_resets()
        unread = {
            connection.descriptor: connection
            for connection in self.connections
            if connection.is_unread()
        }
        if not unread:
            return
        poller = select.poll()
        for descriptor in unread:
            poller.register(descriptor, PEER_HAS_CLOSED)
        for descriptor, events in poller.poll(0):
            if events & (PEER_HAS_CLOSED | select.POLLHUP | select.POLLERR):
                unread[descriptor].close()

    def _read_again_after_resets(self) -> None:
        since_ms = self.context.now_ms() - RESET_NOTICED_MS
        lately = {
            connection.descriptor: connection
            for connection in self.connections
            if connection.last_active_ms >= since_ms
        }
        poller = select.poll()
        for descriptor in lately:
            poller.register(descriptor, 0)  # errors are reported anyway
        for descriptor, events in poller.poll(0):
            if events & (select.POLLERR | select.POLLHUP):
                lately[descriptor].read_again()

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        for listener in self._listeners:
            self._loop.remove_reader(listener.socket.fileno())
            listener.socket.close()
        self._listeners.clear()
        self._throttled.close()

    def close(self) -> None:
        """Close the listeners and the connections; requests in threads are not awaited."""
        self.stop_accepting()
        for connection in tuple(self.connections):
            connection.close()
        if self._handshakes is not None:
            self._handshakes.close()


def anonymous(certificate: bytes | None) -> KafkaPrincipal:
    """The principal of a client that has not authenticated yet."""
    return ANONYMOUS


def apis_of(frames: Sequence[memoryview]) -> str:
    """The number of a turn's requests and the names of their APIs, for the log."""
    if not frames:
        return "a turn of a connection without a whole request (a part of one, or its end)"
    keys = dict.fromkeys(int.from_bytes(frame[:2], "big") for frame in frames)
    names = {api.value: api.name for api in ApiKey}
    return f"{len(frames)} requests ({', '.join(names.get(key, str(key)) for key in keys)})"


def grow(connected: socket.socket, option: int, wanted_bytes: int) -> None:
    """Raise a socket buffer to `wanted_bytes`; a larger one that the host chose is kept.

    A size that is set switches off the host's own tuning, which costs throughput on loopback and on
    long links.
    """
    if connected.getsockopt(socket.SOL_SOCKET, option) < wanted_bytes:
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, option, wanted_bytes)
