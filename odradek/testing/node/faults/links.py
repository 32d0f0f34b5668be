"""Links to other brokers and to the coordination, which can be cut and slowed in each direction.

A cut is that of a cable: what is sent meanwhile arrives after it, and a connection is not made
before; time-outs pass as usual.  A connection that is closed meanwhile is closed on this side only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from odradek.runtime.clock import Clock
from odradek.runtime.wheel_driver import WheelDriver

HELD_BYTES_MAX: Final = 1 << 20
"""Received bytes of one connection that may wait before it is not read any further."""
DELAY_MAX_MS: Final = 600_000


class Direction:
    """One direction of a link, which several connections use."""

    def __init__(self) -> None:
        self.is_cut = False
        self.delay_ms = 0
        self._on_change: dict[Callable[[], None], None] = {}

    def set(self, *, is_cut: bool, delay_ms: int) -> None:
        """From now on; what was sent before keeps its delay."""
        self.is_cut = is_cut
        self.delay_ms = delay_ms
        for changed in tuple(self._on_change):
            changed()

    def observe(self, changed: Callable[[], None]) -> None:
        """Have `changed` called after each change."""
        self._on_change[changed] = None

    def forget(self, changed: Callable[[], None]) -> None:
        self._on_change.pop(changed, None)


class Link:
    """Both directions between this node and a peer."""

    def __init__(self) -> None:
        self.outgoing = Direction()
        self.incoming = Direction()

    @property
    def is_cut(self) -> bool:
        """Whether no connection can be made."""
        return self.outgoing.is_cut or self.incoming.is_cut

    async def until_open(self) -> None:
        """Wait until connections can be made."""
        while self.is_cut:
            changed = asyncio.Event()
            directions = (self.outgoing, self.incoming)
            for direction in directions:
                direction.observe(changed.set)
            try:
                await changed.wait()
            finally:
                for direction in directions:
                    direction.forget(changed.set)


class Pipe:
    """The bytes of one connection in one direction.

    deliver  takes bytes, or None for the end, in order
    hold     called with True when so much waits that no more should be sent, with False when it
             has been delivered
    """

    def __init__(
        self,
        direction: Direction,
        wheel: WheelDriver,
        clock: Clock,
        deliver: Callable[[bytes | None], None],
        hold: Callable[[bool], None] = lambda is_full: None,
    ) -> None:
        self._direction = direction
        self._wheel = wheel
        self._clock = clock
        self._deliver = deliver
        self._hold = hold
        self._waiting: deque[tuple[int, bytes | None]] = deque()
        self._held_bytes = 0
        self._is_held = False
        self._is_closed = False
        self._pumped = self.pump
        direction.observe(self._pumped)

    def send(self, content: bytes | None) -> None:
        """Deliver after what was sent before, when the link lets it pass."""
        if self._is_closed:
            return
        direction = self._direction
        if not self._waiting and not direction.is_cut and not direction.delay_ms:
            self._deliver(content)
            return
        due_ms = self._clock.monotonic_ms() + direction.delay_ms
        self._waiting.append((due_ms, content))
        self._held_bytes += len(content or b"")
        if self._held_bytes > HELD_BYTES_MAX and not self._is_held:
            self._is_held = True
            self._hold(True)
        self._wake_at(due_ms)

    def _wake_at(self, due_ms: int) -> None:
        if not self._direction.is_cut:
            self._wheel.add(due_ms, self._pumped)

    def pump(self) -> None:
        """Deliver what is due."""
        while self._waiting and not self._direction.is_cut and not self._is_closed:
            due_ms, content = self._waiting[0]
            if due_ms > self._clock.monotonic_ms():
                self._wake_at(due_ms)
                break
            self._waiting.popleft()
            self._held_bytes -= len(content or b"")
            self._deliver(content)
        if self._is_held and self._held_bytes <= HELD_BYTES_MAX and not self._is_closed:
            self._is_held = False
            self._hold(False)

    def close(self) -> None:
        """Drop what is not delivered."""
        self._is_closed = True
        self._waiting.clear()
        self._direction.forget(self._pumped)


class Links:
    """The links of one node to other brokers, and to the coordination."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wheel: WheelDriver, clock: Clock) -> None:
        self._loop = loop
        self._wheel = wheel
        self._clock = clock
        self._brokers: dict[int, Link] = {}
        self.coordination = Link()

    def to_broker(self, broker_id: int) -> Link:
        """The link to a broker, which need not be registered."""
        return self._brokers.setdefault(broker_id, Link())

    def all(self) -> Iterable[tuple[int | None, Link]]:
        """(broker id, link); None for the coordination."""
        yield from sorted(self._brokers.items())
        yield None, self.coordination

    def heal(self) -> None:
        """Let everything pass."""
        for _, link in self.all():
            link.outgoing.set(is_cut=False, delay_ms=0)
            link.incoming.set(is_cut=False, delay_ms=0)

    def pipe(
        self,
        direction: Direction,
        deliver: Callable[[bytes | None], None],
        hold: Callable[[bool], None] = lambda is_full: None,
    ) -> Pipe:
        """One direction of a connection."""
        return Pipe(direction, self._wheel, self._clock, deliver, hold)

    async def open_connection(
        self,
        make_protocol: Callable[[], asyncio.BufferedProtocol],
        host: str,
        port: int,
        *,
        broker_at: Callable[[str, int], int | None],
        **tls: Any,
    ) -> None:
        """Connect to a broker over its link; as `create_connection` of a loop.

        broker_at  the id of the broker of an address
        tls        as of that function
        raises     OSError
        """
        broker_id = broker_at(host, port)
        if broker_id is None:
            await self._loop.create_connection(make_protocol, host, port, **tls)
            return
        link = self.to_broker(broker_id)
        await link.until_open()
        await self._loop.create_connection(
            lambda: _LinkedProtocol(self, link, make_protocol()), host, port, **tls
        )


class _LinkedProtocol(asyncio.Protocol):
    """A connection over a link, for a protocol that knows nothing of it."""

    def __init__(self, links: Links, link: Link, inner: asyncio.BufferedProtocol) -> None:
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._incoming = links.pipe(link.incoming, self._receive, self._hold)
        self._outgoing = links.pipe(link.outgoing, self._send)
        self._error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made: Any = transport
        self._transport = made
        self._inner.connection_made(_LinkedTransport(made, self._outgoing, self._incoming))

    def data_received(self, data: bytes) -> None:
        self._incoming.send(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, after what was received."""
        self._error = exc
        self._outgoing.close()
        self._incoming.send(None)

    def _receive(self, content: bytes | None) -> None:
        inner = self._inner
        if content is None:
            self._incoming.close()
            inner.connection_lost(self._error)
            return
        rest = memoryview(content)
        while rest:
            target: Any = inner.get_buffer(len(rest))
            size = min(len(target), len(rest))
            target[:size] = rest[:size]
            rest = rest[size:]
            inner.buffer_updated(size)

    def _send(self, content: bytes | None) -> None:
        assert self._transport is not None, "it was made"
        assert content is not None, "an end is not sent"
        if not self._transport.is_closing():
            self._transport.write(content)

    def _hold(self, is_full: bool) -> None:
        assert self._transport is not None, "it was made"
        if self._transport.is_closing():
            return
        if is_full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


class _LinkedTransport(asyncio.Transport):
    """What the inner protocol writes to."""

    def __init__(self, transport: asyncio.Transport, outgoing: Pipe, incoming: Pipe) -> None:
        super().__init__()
        self._transport = transport
        self._outgoing = outgoing
        self._incoming = incoming

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._outgoing.send(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._outgoing.send(b"".join(list_of_data))

    def abort(self) -> None:
        """End the connection; what was received is dropped."""
        self._outgoing.close()
        self._incoming.close()
        self._transport.abort()
