"""What proxies of demos share: ports that are listened on, and connections in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

HOST: Final = "127.0.0.1"
READ_BYTES: Final = 64 * 1024
Connect = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


class Proxy:
    """The ports and connections of one proxy.

    connect  serves one client until it has ended; its last argument is the port to connect to
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, port: int, target: int) -> None:
        """Listen on `port`, and connect to the port `target` for each client.

        raises  OSError
        """

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

    async def close(self) -> None:
        """Close the ports and every connection."""
        for server in self._servers:
            server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def pass_both_ways(*ways: Awaitable[None]) -> None:
    """Run both directions until one has ended: a side that has closed closes the other."""
    running = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in running:
            way.cancel()
        await asyncio.gather(*running, return_exceptions=True)
