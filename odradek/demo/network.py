"""The network between brokers: TCP proxies that can be cut and joined again.

While it is cut, no byte passes in either direction and connections stay open, as when packets are
lost: what was on its way arrives when it is joined again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from odradek.demo.proxy import HOST, READ_BYTES, Proxy, pass_both_ways


class Network:
    """Proxies of one event loop, all of which pass bytes on, or none."""

    def __init__(self) -> None:
        self._joined = asyncio.Event()
        self._joined.set()
        self._proxy = Proxy(self._connect)

    async def open(self, port: int, target: int) -> None:
        """Listen on `port`, and pass connections on to the port `target`; raises OSError."""
        await self._proxy.open(port, target)

    def cut(self) -> None:
        """Pass nothing on from now on."""
        self._joined.clear()

    def join(self) -> None:
        """Pass everything on again."""
        self._joined.set()

    async def close(self) -> None:
        """Close the ports and every connection."""
        await self._proxy.close()

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int
    ) -> None:
        await self._joined.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, target, limit=READ_BYTES)
        except OSError:
            return
        try:
            await pass_both_ways(
                self._pass_on(reader, far_writer),
                self._pass_on(far_reader, writer),
            )
        finally:
            far_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(READ_BYTES):
                await self._joined.wait()
                writer.write(data)
                await writer.drain()
