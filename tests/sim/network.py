"""Hosts and the connections between them, in place of sockets.

Within a connection the order is kept and nothing is lost.  A link that is cut in one direction
keeps what is sent over it until it is healed, however long that takes: what a client has given up
arrives all the same.  The connections of a process that is killed end; those of a host that loses
power are silent until it is back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from odradek.broker.server.bound_listener import BoundListener
from odradek.broker.server.socket_server import SocketServer
from odradek.broker.server.transmit import CUT, TransmitResult, Transmitter
from tests.sim.loop import Arrival, SimulatedHandle, SimulatedLoop
from tests.sim.world import World

DELAYS_US: Final = (200, 300, 500, 700, 1_000, 1_500)
DELAYS: Final = len(DELAYS_US)
LONG_DELAYS_US: Final = (20_000, 200_000, 1_000_000, 4_000_000)
CONNECT_RETRY_US: Final = 500_000
CONNECT_ATTEMPTS: Final = 12
PIECES_ONE_IN: Final = 16
END: Final = object()
"""What is received last over a connection."""


class Host:
    """A machine: what runs there now, and what new connections are given to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_powered = True
        self.loop: SimulatedLoop | None = None
        """None: what runs there never fails."""
        self.accept: Callable[[Connection], Callable[[Any], None]] | None = None
        """Takes a connection and returns what receives from it; None: nothing listens there."""


class Connection:
    """One side of a connection: `send` to the other side, and what receives here."""

    def __init__(self, network: Network, source: Host, target: Host) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.loop = source.loop
        self.peer: Connection
        self.receive: Callable[[Any], None] | None = None
        self._items: deque[Any] = deque()
        self._due_us = 0
        self._is_ended = False
        self.held = 0
        self.posted: type[SimulatedHandle] = SimulatedHandle
        """Arrival: what receives here only keeps what it gets."""

    def send(self, item: Any) -> None:
        """Arrives later, after what was sent before."""
        if self._is_ended:
            return
        network = self.network
        self._is_ended = item is END
        self._items.append(item)
        due_us = network.world.now_us + network.delay_us(self.source, self.target)
        if due_us <= self._due_us:
            due_us = self._due_us + 1
        self._due_us = due_us
        network.world.at(due_us, self.arrive)

    def arrive(self) -> None:
        """The oldest item arrives, unless the link is cut."""
        network = self.network
        if network.cuts and (self.source.name, self.target.name) in network.cuts:
            network.hold(self)
            return
        item = self._items.popleft()
        peer = self.peer
        loop = peer.loop
        if loop is None:
            peer.deliver(item)
        elif not loop.is_ended:
            loop.post_now(peer.posted(peer.deliver, (item,)))
        elif self.target.is_powered and item is not END:
            peer._is_ended = False
            peer.send(END)

    def deliver(self, item: Any) -> None:
        if self.receive is not None:
            receive = self.receive
            if item is END:
                self.receive = None
                self.network.forget(self)
            receive(item)

    def close(self) -> None:
        """Receive nothing more, and end the other side."""
        self.receive = None
        self.network.forget(self)
        self.send(END)


class Network:
    """Every host and the links between them.

    long_one_in  of how many messages one takes long; 0: none does
    prompt_host  no message to it, or from it, takes long
    """

    def __init__(self, world: World, *, long_one_in: int, prompt_host: str) -> None:
        self.world = world
        self._random = world.random.random
        self.hosts: dict[str, Host] = {}
        self.cuts: set[tuple[str, str]] = set()
        self._long_one_in = long_one_in
        self._prompt_host = prompt_host
        self._held: dict[Connection, None] = {}
        self._open: dict[Connection, None] = {}
        self.next_descriptor = 1_000

    def host(self, name: str) -> Host:
        return self.hosts.setdefault(name, Host(name))

    def delay_us(self, source: Host, target: Host) -> int:
        if self._long_one_in and not self.world.is_calm:
            is_prompt = self._prompt_host in (source.name, target.name)
            if not is_prompt and self._random() * self._long_one_in < 1:
                self.world.counts["delay"] += 1
                return self.world.random.choice(LONG_DELAYS_US)
        return DELAYS_US[int(self._random() * DELAYS)]

    def hold(self, connection: Connection) -> None:
        self.world.counts["cut"] += 1
        connection.held += 1
        self._held[connection] = None

    def heal(self) -> None:
        """Every link works; what they have kept arrives."""
        self.cuts.clear()
        held, self._held = self._held, {}
        for connection in held:
            count, connection.held = connection.held, 0
            for number in range(count):
                self.world.after(1_000 + number, connection.arrive)

    def forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)

    def end_connections(self, loop: SimulatedLoop) -> None:
        """Those of a process that has ended, as its kernel does."""
        for connection in [connection for connection in self._open if connection.loop is loop]:
            connection.close()

    def is_cut(self, host: Host, other: Host) -> bool:
        return (host.name, other.name) in self.cuts or (other.name, host.name) in self.cuts

    def connect(
        self,
        source: Host,
        target: Host,
        done: Callable[[Connection | None], None],
        attempts: int = CONNECT_ATTEMPTS,
    ) -> None:
        """Connect; `done` gets the connection, or None when it is refused."""
        loop = source.loop
        assert loop is not None

        def reach() -> None:
            if loop.is_ended:
                return
            if self.is_cut(source, target) or not target.is_powered:
                if attempts > 1:
                    self.world.after(
                        CONNECT_RETRY_US, lambda: self.connect(source, target, done, attempts - 1)
                    )
                return
            connection = None
            if target.accept is not None:
                connection = self._pair(source, loop, target)
            loop.post(self.delay_us(target, source), lambda: done(connection))

        self.world.after(self.delay_us(source, target), reach)

    def _pair(self, source: Host, loop: SimulatedLoop, target: Host) -> Connection:
        ours, theirs = Connection(self, source, target), Connection(self, target, source)
        ours.peer, theirs.peer = theirs, ours
        ours.loop = loop
        self._open[ours] = self._open[theirs] = None
        accept = target.accept
        assert accept is not None

        def open_there() -> None:
            theirs.receive = accept(theirs)

        if target.loop is None:
            open_there()
        else:
            target.loop.post(0, open_there)
        return ours


class ClientTransport:
    """The transport of a connection that was asked of `SimulatedLoop.create_connection`."""

    def __init__(self, connection: Connection, protocol: Any) -> None:
        self._connection = connection
        self._protocol = protocol
        self._is_closed = False

    def write(self, data: bytes) -> None:
        if not self._is_closed:
            self._connection.send(bytes(data))

    def writelines(self, parts: list[bytes]) -> None:
        if parts:
            self.write(b"".join(parts))

    def abort(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._connection.close()

    def received(self, item: Any) -> None:
        """Give it to the protocol, in pieces where its buffer is small."""
        if self._is_closed:
            return
        if item is END:
            self._is_closed = True
            self._protocol.connection_lost(None)
            return
        view = memoryview(item)
        while view and not self._is_closed:
            buffer = self._protocol.get_buffer(-1)
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            self._protocol.buffer_updated(size)
            view = view[size:]


def connector(network: Network, source: Host) -> Callable[..., Any]:
    """`connect` of the loop of a process on `source`."""

    async def connect(
        loop: SimulatedLoop, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[Any, Any]:
        future = loop.create_future()

        def done(connection: Connection | None) -> None:
            if future.done():
                if connection is not None:
                    connection.close()
            elif connection is None:
                future.set_exception(ConnectionRefusedError(111, "refused"))
            else:
                protocol = factory()
                transport = ClientTransport(connection, protocol)
                connection.receive = transport.received
                protocol.connection_made(transport)
                future.set_result((transport, protocol))

        network.connect(source, network.host(host), done)
        connected: tuple[Any, Any] = await future
        return connected

    return connect


class SimulatedSocket:
    """The server's side of a connection, as `broker.server` uses a socket."""

    def __init__(self, connection: Connection, loop: SimulatedLoop) -> None:
        network = connection.network
        network.next_descriptor += 1
        self._descriptor = network.next_descriptor
        self._connection = connection
        self._loop = loop
        self._received = bytearray()
        self._has_ended = False
        self._is_signalled = False
        self._is_closed = False

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def setsockopt(self, *arguments: int) -> None:
        """It has no options."""

    def getsockopt(self, *arguments: int) -> int:
        return 1 << 30

    def recv_into(self, target: memoryview) -> int:
        received = self._received
        if not received:
            if self._has_ended:
                return 0
            raise BlockingIOError
        size = min(len(target), len(received))
        random = self._loop.world.random
        if size > 1 and random.random() * PIECES_ONE_IN < 1:
            size = random.randrange(1, size)
        target[:size] = received[:size]
        del received[:size]
        return size

    def send(self, data: Any) -> int:
        self._connection.send(bytes(data))
        return len(data)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._connection.close()

    def receive(self, item: Any) -> None:
        if item is END:
            self._has_ended = True
        else:
            self._received += item
        self.signal()

    def signal(self) -> None:
        """Have the reader called when there is something to read."""
        if self._is_signalled or not (self._received or self._has_ended):
            return
        if self._descriptor in self._loop.readers:
            self._is_signalled = True
            self._loop.call_soon(self._call_reader)

    def _call_reader(self) -> None:
        self._is_signalled = False
        reader = self._loop.readers.get(self._descriptor)
        if reader is not None:
            reader()
            if not self._is_closed:
                self.signal()


class SimulatedTransmitter(Transmitter):
    """Files in memory have no descriptors: slices are read, and everything is sent at once."""

    __slots__ = ()

    def run(self) -> TransmitResult:
        parts = []
        for part in self.queue:
            if type(part) is bytes:
                parts.append(part)
                continue
            if part.is_truncated:
                raise OSError(CUT)
            parts.append(part.read())
            part.release()
        self.queue.clear()
        self.queued_bytes = self._slices_bytes = 0
        self._socket.send(b"".join(parts))
        return TransmitResult.EMPTY


class SimulatedListener:
    """A port of a simulated host."""

    def __init__(self, name: str, host: Host, port: int) -> None:
        self.name = name
        self.port = port
        self.address = f"{host.name}:{port}"
        self.socket = self
        self.tls = None
        self._host = host

    def serve(self, server: SocketServer, loop: SimulatedLoop) -> None:
        """Give new connections to the server."""
        sockets: dict[int, SimulatedSocket] = {}

        def accept(connection: Connection) -> Callable[[Any], None]:
            connection.loop = loop
            connection.posted = Arrival
            opened = SimulatedSocket(connection, loop)
            sockets[opened.fileno()] = opened
            listener: BoundListener = self  # type: ignore[assignment]
            server._open(listener, opened, connection.target.name)  # type: ignore[arg-type]
            served = next(reversed(server.connections))
            served.transmitter = SimulatedTransmitter(opened)  # type: ignore[arg-type]
            return opened.receive

        def added(descriptor: int) -> None:
            if descriptor in sockets:
                sockets[descriptor].signal()

        loop.on_reader_added = added
        self._host.accept = accept

    def close(self) -> None:
        self._host.accept = None
