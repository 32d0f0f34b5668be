"""Sends rows to an HTTP endpoint, one request per row, at least once.

The driver sends the requests of a batch.  A batch that is repeated after a crash sends its requests
again, with the same idempotency keys.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from urllib3 import BaseHTTPResponse, PoolManager, Retry
from urllib3.exceptions import HTTPError, MaxRetryError

from odradek.pipeline.report.failures import WriteBatch, in_one_line
from odradek.pipeline.sinks.written_batch import query_id
from odradek.pipeline.spec.field_types import duration_ms
from odradek.pipeline.spec.sinks import HttpSink
from odradek.pipeline.transforms.columns import column

RETRIED: Final = (408, 425, 429, 500, 502, 503, 504)
"""Statuses of a request that may succeed later."""
SAID_BYTES_MAX: Final = 200
REPORT_INTERVAL_S: Final = 10.0


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


class Outage:
    """Reports failed requests of an endpoint at once, then every REPORT_INTERVAL_S, and their end.

    place   method and address
    report  is called with one line
    now_s   a clock
    """

    def __init__(
        self,
        place: str,
        report: Callable[[str], object] = lambda line: print(line, file=sys.stderr, flush=True),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._report = report
        self._now_s = now_s
        self._lock = Lock()
        self._reported_s: float | None = None

    def note_failure(self, reason: str, *, attempt: int, attempts: int, delay_s: float) -> None:
        """Report a failed request that is sent again.

        attempt  the number of the next attempt
        delay_s  until that
        """
        with self._lock:
            now_s = self._now_s()
            if self._reported_s is not None and now_s - self._reported_s < REPORT_INTERVAL_S:
                return
            self._reported_s = now_s
        self._report(
            f"WARN {self._place} does not accept a row ({reason});"
            f" attempt {attempt} of {attempts} in {delay_s:g} s"
        )

    def note_success(self) -> None:
        """Report the end of a reported outage."""
        if self._reported_s is None:
            return
        with self._lock:
            self._reported_s, was_reported = None, self._reported_s is not None
        if was_reported:
            self._report(f"{self._place} accepts rows again")


class ReportedRetry(Retry):
    """Retries of urllib3 that are noted."""

    outage: Outage

    def new(self, **changes: Any) -> Self:
        """The next state, with the same outage."""
        following = super().new(**changes)
        following.outage = self.outage
        return following

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        *others: Any,
        **more: Any,
    ) -> Self:
        """Count a failure, and note it.

        raises  MaxRetryError when no attempt is left
        """
        following = super().increment(method, url, response, error, *others, **more)
        after_s = None if response is None else following.get_retry_after(response)
        attempts = len(following.history) + int(following.total or 0) + 1
        self.outage.note_failure(
            str(error) if response is None else f"status {response.status}",
            attempt=len(following.history) + 1,
            attempts=attempts,
            delay_s=min(after_s or following.get_backoff_time(), following.backoff_max),
        )
        return following


def webhook_writer(sink: HttpSink, checkpoint: Path, *, sender: str | None = None) -> WriteBatch:
    """A function for foreachBatch.

    checkpoint  of the query: its id, which is stored there, is a part of the idempotency keys
    sender      the sink, where its query has others; None: it has none
    """

    outage = Outage(_place(sink))

    def write(rows: DataFrame, batch_id: int) -> None:
        query = query_id(checkpoint)
        if sender is not None:
            query = f"{query}/{sender}"
        send(rows, sink, batch=f"{query}/{batch_id}", outage=outage)

    return in_one_line(write, RequestFailed)


def send(rows: DataFrame, sink: HttpSink, *, batch: str, outage: Outage | None = None) -> None:
    """Send a batch; with one connection in the order of its rows.

    batch   identifies it, for idempotency keys
    outage  of an earlier batch
    raises  RequestFailed
    """
    outage = outage or Outage(_place(sink))
    keys = IdempotencyKeys(batch)
    with (
        PoolManager(maxsize=sink.connections, block=True) as pool,
        ThreadPoolExecutor(sink.connections) as senders,
    ):
        waiting: deque[Future[None]] = deque()
        try:
            for body in _bodies(rows, sink):
                waiting.append(senders.submit(_request, pool, sink, outage, body, keys.next(body)))
                if len(waiting) >= sink.connections:
                    waiting.popleft().result()
            while waiting:
                waiting.popleft().result()
        finally:
            for request in waiting:
                request.cancel()


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


def _request(pool: PoolManager, sink: HttpSink, outage: Outage, body: bytes, key: str) -> None:
    """raises  RequestFailed"""
    backoff_max_s = duration_ms(sink.backoff_max) / 1000
    retries = ReportedRetry(
        total=sink.retries,
        redirect=False,
        status_forcelist=RETRIED,
        allowed_methods=None,
        backoff_factor=duration_ms(sink.backoff) / 1000,
        backoff_max=backoff_max_s,
        retry_after_max=ceil(backoff_max_s),
        raise_on_status=False,
    )
    retries.outage = outage
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
        outage.note_success()
        return
    text = response.data[:SAID_BYTES_MAX].decode(errors="replace").partition("\n")[0]
    tried = f" after {sink.retries + 1} attempts" if response.status in RETRIED else ""
    raise RequestFailed(f"{_place(sink)}: status {response.status}{tried}: {text or 'no text'}")


def _place(sink: HttpSink) -> str:
    """Method and address, without the query, which may contain a token."""
    return f"{sink.method} {sink.url.partition('?')[0]}"
