"""A proxy before a broker, which loses Produce responses: it closes the connection instead.

The broker has stored the batch, and the producer cannot know.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import Final

from odradek.demo.proxy import HOST, Proxy, pass_both_ways
from odradek.protocol.api_keys import ApiKey

FRAME_BYTES_MAX: Final = 16 << 20
_REQUEST: Final = struct.Struct(">hhi")
_INT32: Final = struct.Struct(">i")


class LostResponses:
    """Connections of one event loop to one broker."""

    def __init__(self, every: int) -> None:
        """every  how many Produce responses pass, and then one is lost"""
        self.lost = 0
        self._every = every
        self._passed = 0
        self._proxy = Proxy(self._connect)

    async def open(self, port: int, target: int) -> None:
        """Listen on `port`, and pass connections on to the port `target`; raises OSError."""
        await self._proxy.open(port, target)

    async def close(self) -> None:
        """Close the ports and every connection."""
        await self._proxy.close()

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int
    ) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, target)
        except OSError:
            return
        produced: dict[int, bool] = {}
        try:
            await pass_both_ways(
                self._pass_requests(reader, far_writer, produced),
                self._pass_responses(far_reader, writer, produced),
            )
        finally:
            far_writer.close()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, produced: dict[int, bool]
    ) -> None:
        """produced  correlation ids of requests that wait, and whether each is a Produce"""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                body = await _frame(reader)
                api_key, _, correlation_id = _REQUEST.unpack_from(body)
                produced[correlation_id] = api_key == ApiKey.PRODUCE
                writer.write(_INT32.pack(len(body)) + body)
                await writer.drain()

    async def _pass_responses(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, produced: dict[int, bool]
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                body = await _frame(reader)
                if produced.pop(_INT32.unpack_from(body)[0], False) and self._is_lost():
                    return
                writer.write(_INT32.pack(len(body)) + body)
                await writer.drain()

    def _is_lost(self) -> bool:
        if self._passed < self._every:
            self._passed += 1
            return False
        self._passed = 0
        self.lost += 1
        return True


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _INT32.unpack(await reader.readexactly(4))
    if not _REQUEST.size <= size <= FRAME_BYTES_MAX and size != _INT32.size:
        raise OSError(f"a frame of {size} bytes")
    return await reader.readexactly(size)
