"""The pages of records: a stream of those that match, one in full, its bytes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from odradek.protocol.errors import ErrorCode
from odradek.tools.client import ClientError
from odradek.tools.errors import ToolError, refused
from odradek.web_console.arguments import PageArgumentError, PageArguments
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.live import Streams, event
from odradek.web_console.records.decoding import Schemas, TextDecoder
from odradek.web_console.records.query import OFFSET, RecordQuery, new_filter, parse_query
from odradek.web_console.records.scan import RecordScan
from odradek.web_console.records.shown_record import ShownRecord, full_row, row_of

SCANS_MAX: Final = 4
"""Searches at once; each has a connection of its own to each leader."""
DEADLINE_S: Final = 30.0
"""After which a JSON response is sent with what was read so far."""
PROGRESS_S: Final = 0.25

RenderRows = Callable[[Request, list[dict[str, Any]]], str]


class RecordSearches:
    """The searches in all clusters of a console."""

    def __init__(self, registries: Mapping[str, Schemas], streams: Streams) -> None:
        """registries  by name of the cluster"""
        self._registries = registries
        self._streams = streams
        self._slots = anyio.CapacityLimiter(SCANS_MAX)

    def decoder(self, cluster: ShownCluster, query: RecordQuery) -> TextDecoder:
        """What decodes the records that a query finds."""
        return TextDecoder(query.key_format, query.value_format, self._registries.get(cluster.name))

    @asynccontextmanager
    async def _scan(
        self, cluster: ShownCluster, query: RecordQuery, decoder: TextDecoder
    ) -> AsyncIterator[RecordScan]:
        """A scan with a client of its own.

        raises  ToolError
        """
        matches = new_filter(query, decoder)
        slot = object()
        try:
            self._slots.acquire_on_behalf_of_nowait(slot)
        except anyio.WouldBlock:
            raise ClientError("the console searches for as many others as it may") from None
        try:
            with ExitStack() as stack:
                client = await anyio.to_thread.run_sync(stack.enter_context, cluster.client())
                yield await anyio.to_thread.run_sync(partial(RecordScan, client, query, matches))
        finally:
            self._slots.release_on_behalf_of(slot)

    async def events(
        self, request: Request, cluster: ShownCluster, query: RecordQuery, render: RenderRows
    ) -> AsyncGenerator[bytes, None]:
        """Rows that match as they are read, how far it is, and the end.

        render  HTML of rows
        """
        decoder = self.decoder(cluster, query)
        reported_s = 0.0
        count = 0
        try:
            async with self._scan(cluster, query, decoder) as scan:
                while not (scan.is_done or self._streams.is_closing):
                    if await request.is_disconnected():
                        return
                    records = await anyio.to_thread.run_sync(scan.step)
                    if records:
                        rows = await anyio.to_thread.run_sync(_rows, records, decoder)
                        count += len(rows)
                        yield event("rows", render(request, rows))
                    if records or time.monotonic() - reported_s >= PROGRESS_S:
                        reported_s = time.monotonic()
                        yield event("progress", _progress(scan, count))
                yield event("end", _progress(scan, count))
        except ToolError as error:
            yield event("trouble", str(error))

    async def as_json(self, cluster: ShownCluster, query: RecordQuery) -> Response:
        """The records that match, of what can be read in DEADLINE_S.

        raises  ToolError
        """
        decoder = self.decoder(cluster, query)
        deadline_s = time.monotonic() + DEADLINE_S
        rows: list[dict[str, Any]] = []
        async with self._scan(cluster, query, decoder) as scan:
            while not scan.is_done and time.monotonic() < deadline_s:
                records = await anyio.to_thread.run_sync(scan.step)
                rows += await anyio.to_thread.run_sync(_rows, records, decoder)
                if len(rows) >= query.limit:
                    break
            return JSONResponse(
                {"records": rows, "scanned": scan.scanned, "is_complete": scan.is_done}
            )

    async def find(
        self, cluster: ShownCluster, arguments: PageArguments
    ) -> tuple[ShownRecord, TextDecoder]:
        """The record at an offset of a partition.

        raises  ToolError
        """
        query = parse_query(arguments)._replace(
            origin=OFFSET, limit=1, key="", text="", path="", shows_control=True
        )
        if query.partition is None:
            raise PageArgumentError("'partition' is missing")
        decoder = self.decoder(cluster, query)
        async with self._scan(cluster, query, decoder) as scan:
            records: list[ShownRecord] = []
            while not records and not scan.is_done:
                records = await anyio.to_thread.run_sync(scan.step)
        if not records or records[0].record.offset != query.offset:
            raise refused(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"there is no record at offset {query.offset}"
            )
        return records[0], decoder

    async def one_content(self, cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
        """A record in full.

        raises  ToolError
        """
        shown, decoder = await self.find(cluster, arguments)
        return {"record": await anyio.to_thread.run_sync(full_row, shown, decoder)}

    async def raw(self, cluster: ShownCluster, arguments: PageArguments) -> Response:
        """The bytes of a key or a value.

        raises  ToolError
        """
        part = arguments.choice("part", ("value", "key"))
        shown, _ = await self.find(cluster, arguments)
        data = shown.record.key if part == "key" else shown.record.value
        name = f"{shown.partition}-{shown.record.offset}.{part}"
        return Response(
            data or b"",
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )


def _rows(records: list[ShownRecord], decoder: TextDecoder) -> list[dict[str, Any]]:
    return [row_of(shown, decoder) for shown in records]


def _progress(scan: RecordScan, count: int) -> dict[str, int]:
    return {"scanned": scan.scanned, "total": scan.total, "shown": count}
