"""The network between brokers: TCP proxies that can be cut and joined again.

While it is cut, no byte passes in either direction and connections stay open, as when packets are
lost: what was on its way arrives when it is joined again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

HOST: Final = "127.0.0.1"
READ_BYTES: Final = 64 * 1024


class Network:
    """Proxies of one event loop, all of which pass bytes on, or none."""

    def __init__(self) -> None:
        self._joined = asyncio.Event()
        self._joined.set()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, port: int, target: int) -> None:
        """Listen on `port`, and pass connections on to the port `target`; raises OSError."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None, "streams call it in a task"
            self._connections.add(task)
            try:
                await self._connect(reader, writer, target)
            finally:
                self._connections.discard(task)
                writer.close()

        self._servers.append(await asyncio.start_server(accept, HOST, port, limit=READ_BYTES))

    def cut(self) -> None:
        """Pass nothing on from now on."""
        self._joined.clear()

    def join(self) -> None:
        """Pass everything on again."""
        self._joined.set()

    async def close(self) -> None:
        """Close the ports and every connection."""
        for server in self._servers:
            server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int
    ) -> None:
        """Pass bytes on both ways until one has ended: a side that has closed closes the other."""
        await self._joined.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, target, limit=READ_BYTES)
        except OSError:
            return
        ways = [
            asyncio.ensure_future(self._pass_on(reader, far_writer)),
            asyncio.ensure_future(self._pass_on(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(READ_BYTES):
                await self._joined.wait()
                writer.write(data)
                await writer.drain()
