"""Relays the connections of a coordination session, so that their link can be cut and slowed.

The library that makes them connects to a port of this process instead of the ensemble's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Final

from odradek.testing.node.faults.links import Links, Pipe

HOST: Final = "127.0.0.1"
PORT: Final = 2181
BACKLOG: Final = 16


class CoordinationRelay:
    """A listening port for each server of an ensemble; they accept while the loop runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, links: Links, hosts: str) -> None:
        """hosts  `host:port`, separated by commas"""
        self._loop = loop
        self._sockets: list[socket.socket] = []
        self._connections: dict[RelayedConnection, None] = {}
        self._links = links
        for text in hosts.split(","):
            host, _, port = text.strip().rpartition(":") if ":" in text else (text.strip(), "", "")
            self._listen(host.strip("[]"), int(port or PORT))

    @property
    def hosts(self) -> str:
        """`host:port` of this process, separated by commas."""
        return ",".join(
            f"{HOST}:{listening_socket.getsockname()[1]}" for listening_socket in self._sockets
        )

    def _listen(self, host: str, port: int) -> None:
        listening = socket.create_server((HOST, 0), backlog=BACKLOG)
        listening.setblocking(False)
        self._sockets.append(listening)
        self._loop.add_reader(listening.fileno(), lambda: self._accept(listening, host, port))

    def _accept(self, listening: socket.socket, host: str, port: int) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = listening.accept()
            accepted.setblocking(False)
            connection = RelayedConnection(self._loop, self._links, self._forget)
            self._connections[connection] = None
            connection.start(accepted, host, port)

    def _forget(self, connection: RelayedConnection) -> None:
        self._connections.pop(connection, None)

    def close(self) -> None:
        """Accept no more, and end the connections."""
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        for connection in tuple(self._connections):
            connection.close()


class RelayedConnection:
    """A connection from this process, and that to the ensemble."""

    def __init__(self, loop: asyncio.AbstractEventLoop, links: Links, on_closed: Any) -> None:
        self._loop = loop
        self._links = links
        self._on_closed = on_closed
        self._task: asyncio.Task[None] | None = None
        self._sides: list[_Side] = []
        self._is_closed = False

    def start(self, accepted: socket.socket, host: str, port: int) -> None:
        """Connect to the ensemble when the link lets it."""
        self._task = self._loop.create_task(self._relay(accepted, host, port), name="relay")

    async def _relay(self, accepted: socket.socket, host: str, port: int) -> None:
        link = self._links.coordination
        here, there = _Side(self), _Side(self)
        try:
            await link.until_open()
            await self._loop.create_connection(lambda: there, host, port)
            self._sides.append(there)
            here.pipe = self._links.pipe(link.outgoing, there.write, here.hold)
            there.pipe = self._links.pipe(link.incoming, here.write, there.hold)
            await self._loop.connect_accepted_socket(lambda: here, accepted)
            self._sides.append(here)
        except OSError:
            accepted.close()
            self.close()
        except BaseException:
            accepted.close()
            raise

    def close(self) -> None:
        """End both sides."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
        for side in self._sides:
            side.close()
        self._on_closed(self)


class _Side(asyncio.Protocol):
    """One of the two connections."""

    def __init__(self, owner: RelayedConnection) -> None:
        self._owner = owner
        self.pipe: Pipe | None = None
        """To the other side."""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made: Any = transport
        self._transport = made

    def data_received(self, data: bytes) -> None:
        if self.pipe is not None:
            self.pipe.send(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side ends, too, after what it has to get."""
        if self.pipe is not None:
            self.pipe.send(None)

    def write(self, content: bytes | None) -> None:
        """What the other side has received, or its end."""
        if content is None:
            self._owner.close()
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(content)

    def hold(self, is_full: bool) -> None:
        """Whether this side is not read for now."""
        if self._transport is not None and not self._transport.is_closing():
            if is_full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def close(self) -> None:
        """End the connection."""
        if self.pipe is not None:
            self.pipe.close()
        if self._transport is not None:
            self._transport.abort()
