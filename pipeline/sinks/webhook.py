"""Sends rows to an HTTP endpoint, one request per row, at least once.

The driver sends the requests of a batch.  A batch that is repeated after a crash sends its requests
again, with the same idempotency keys.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from urllib3 import PoolManager, Retry
from urllib3.exceptions import HTTPError, MaxRetryError

from odradek.pipeline.causes import error_line
from odradek.pipeline.sinks.query_id import query_id
from odradek.pipeline.spec.field_types import duration_ms
from odradek.pipeline.spec.sinks import HttpSink
from odradek.pipeline.transforms.columns import column

RETRIED: Final = (408, 425, 429, 500, 502, 503, 504)
"""Statuses of a request that may succeed later."""
SAID_BYTES_MAX: Final = 200


class RequestFailed(Exception):
    """The endpoint has not accepted a row."""


class IdempotencyKeys:
    """The keys of a batch: one row has the same key whenever the batch is repeated.

    Equal rows of a batch are numbered, whatever their order, so that each has a key of its own.
    The counts are bounded by the different rows of a batch.
    """

    def __init__(self, batch: str) -> None:
        self._batch = batch
        self._counts: dict[bytes, int] = {}

    def next(self, body: bytes) -> str:
        """The key of the next row with this body."""
        digest = hashlib.sha256(self._batch.encode() + b"\0" + body).digest()
        number = self._counts.get(digest, 0)
        self._counts[digest] = number + 1
        return hashlib.sha256(digest + number.to_bytes(8, "big")).hexdigest()[:32]


def batch_writer(
    sink: HttpSink, checkpoint: Path, *, sender: str | None = None
) -> Callable[[DataFrame, int], None]:
    """A function for foreachBatch; a failure is raised in one line, as in `upsert.batch_writer`.

    checkpoint  of the query: its id, which is stored there, is a part of the idempotency keys
    sender      the sink, where its query has others; None: it has none
    """

    def write(rows: DataFrame, batch_id: int) -> None:
        query = query_id(checkpoint)
        if sender is not None:
            query = f"{query}/{sender}"
        try:
            send(rows, sink, batch=f"{query}/{batch_id}")
        except (RequestFailed, PySparkException, Py4JError) as error:
            raise RequestFailed(error_line(error)) from None

    return write


def send(rows: DataFrame, sink: HttpSink, *, batch: str) -> None:
    """Send a batch; with one connection in the order of its rows.

    batch   identifies it, for idempotency keys
    raises  RequestFailed
    """
    keys = IdempotencyKeys(batch)
    with (
        PoolManager(maxsize=sink.connections, block=True) as pool,
        ThreadPoolExecutor(sink.connections) as senders,
    ):
        waiting: deque[Future[None]] = deque()
        try:
            for body in _bodies(rows, sink):
                waiting.append(senders.submit(_request, pool, sink, body, keys.next(body)))
                if len(waiting) >= sink.connections:
                    waiting.popleft().result()
            while waiting:
                waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()


def _bodies(rows: DataFrame, sink: HttpSink) -> Iterator[bytes]:
    if sink.value == "value":
        body = F.col("value")
    else:
        names = rows.columns if sink.value == "*" else sink.value
        body = F.to_json(F.struct(*(column(rows, name) for name in names)))
    for row in rows.select(
        F.coalesce(body.cast("binary"), F.lit(b"")).alias("body")
    ).toLocalIterator():
        yield bytes(row.body)


def _request(pool: PoolManager, sink: HttpSink, body: bytes, key: str) -> None:
    """raises  RequestFailed"""
    backoff_max_s = duration_ms(sink.backoff_max) / 1000
    retries = Retry(
        total=sink.retries,
        redirect=False,
        status_forcelist=RETRIED,
        allowed_methods=None,
        backoff_factor=duration_ms(sink.backoff) / 1000,
        backoff_max=backoff_max_s,
        retry_after_max=ceil(backoff_max_s),
        raise_on_status=False,
    )
    headers = {"Content-Type": "application/json", **sink.headers, sink.idempotency_header: key}
    try:
        response = pool.request(
            sink.method,
            sink.url,
            body=body,
            headers=headers,
            timeout=duration_ms(sink.timeout) / 1000,
            retries=retries,
            redirect=False,
        )
    except MaxRetryError as error:
        reason = str(error.reason or error)
        raise RequestFailed(f"{_place(sink)}: {sink.retries + 1} attempts: {reason}") from error
    except HTTPError as error:
        raise RequestFailed(f"{_place(sink)}: {error}") from error
    if 200 <= response.status < 300 or response.status in sink.drop_statuses:
        return
    said = response.data[:SAID_BYTES_MAX].decode(errors="replace").partition("\n")[0]
    tried = f" after {sink.retries + 1} attempts" if response.status in RETRIED else ""
    raise RequestFailed(f"{_place(sink)}: status {response.status}{tried}: {said or 'no text'}")


def _place(sink: HttpSink) -> str:
    """Method and address, without the query, which may contain a token."""
    return f"{sink.method} {sink.url.partition('?')[0]}"
