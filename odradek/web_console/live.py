"""Server-sent events: a page's content each time it changes, and when it cannot be had."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from odradek.tools.errors import ToolError

INTERVAL_S: Final = 2.0
INTERVAL_MAX_S: Final = 10.0
COST_SHARE: Final = 0.2
"""The share of the time that a page or a sample may take: what is slow is done less often."""
KEEP_ALIVE_S: Final = 15.0
STREAMS_MAX: Final = 64


def interval_s(cost_s: float) -> float:
    """The pause after something that took so long."""
    return min(max(INTERVAL_S, cost_s / COST_SHARE), INTERVAL_MAX_S)


def event(name: str, data: object) -> bytes:
    """An event as bytes; its data is JSON in one line."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Streams:
    """Bounds how many streams there are at once."""

    def __init__(self) -> None:
        self._count = 0
        self._closing = asyncio.Event()

    @property
    def is_closing(self) -> bool:
        """Whether the console ends, and streams with it."""
        return self._closing.is_set()

    def close(self) -> None:
        """Let all streams end; called in the event loop."""
        self._closing.set()

    async def pause(self, seconds: float) -> None:
        """Wait, unless streams have to end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    def respond(self, events: AsyncGenerator[bytes, None]) -> Response:
        """A stream of events, or 503 when there are STREAMS_MAX."""
        if self._count >= STREAMS_MAX:
            return PlainTextResponse("The console serves too many live pages.\n", 503)
        return StreamingResponse(self._counted(events), media_type="text/event-stream")

    async def _counted(self, events: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
        # Counted here: what follows `yield` runs only if the client was still there at the start.
        self._count += 1
        try:
            # What a stream holds is free as soon as its reader is gone.
            async with aclosing(events):
                async for data in events:
                    yield data
        finally:
            self._count -= 1


async def content_events(
    request: Request, streams: Streams, render: Callable[[], Awaitable[str]]
) -> AsyncGenerator[bytes, None]:
    """Content when it differs from what was sent; an event `trouble` while it cannot be made.

    render  raises ToolError
    """
    sent: str | None = None
    trouble: str | None = None
    sent_at_s = time.monotonic()
    while not streams.is_closing and not await request.is_disconnected():
        started_s = time.monotonic()
        try:
            html = await render()
        except ToolError as error:
            if trouble != str(error):
                trouble = str(error)
                yield event("trouble", trouble)
                sent_at_s = time.monotonic()
        else:
            if html != sent or trouble is not None:
                sent, trouble = html, None
                yield event("content", html)
                sent_at_s = time.monotonic()
        if time.monotonic() - sent_at_s >= KEEP_ALIVE_S:
            yield b": \n\n"
            sent_at_s = time.monotonic()
        await streams.pause(interval_s(time.monotonic() - started_s))
