"""Rows that are sent to a real HTTP server, which fails in many ways."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.sinks.webhook import IdempotencyKeys, Outage
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError

TIMEOUT_S: Final = 60.0
FILE = """\
[pipeline]
name = "hooks"
mode = "available_now"
checkpoint = "state"

[sources.rows]
kind = "files"
path = "in"
format = "json"
schema = "id BIGINT, name STRING"
max_files_per_trigger = 1

[sinks.hook]
kind = "http"
from = "rows"
url = "{url}/new?token=hidden-token"
headers = {{ Authorization = "Bearer of-the-shop" }}
retries = 3
backoff = "1 ms"
backoff_max = "5 ms"
timeout = "500 ms"
"""


@dataclass(slots=True)
class Endpoint:
    """A server: what it received, and the responses that it gives next instead of 200.

    responses  a status, or "close": no response; "hang": none until the client has given up
    """

    url: str = ""
    responses: list[int | str] = field(default_factory=list)
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    given_up: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ids(self) -> list[int]:
        return [json.loads(body)["id"] for _, _, body in self.received]

    @property
    def keys(self) -> list[str]:
        return [headers["Idempotency-Key"] for _, headers, _ in self.received]


@contextmanager
def serving() -> Iterator[Endpoint]:
    """Serve an endpoint on a free port."""
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with endpoint.lock:
                endpoint.received.append((self.path, dict(self.headers), body))
                response = endpoint.responses.pop(0) if endpoint.responses else 200
            if response == "hang":
                endpoint.given_up.wait(TIMEOUT_S)
            if isinstance(response, str):
                self.close_connection = True
                return
            text = b"" if response == 200 else b"the row is not wanted\nbecause"
            self.send_response(response)
            if response == 429:
                self.send_header("Retry-After", "3600")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield endpoint
    finally:
        endpoint.given_up.set()
        server.shutdown()
        server.server_close()
        thread.join(TIMEOUT_S)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as started:
        yield started


def put(folder: Path, *batches: list[int]) -> None:
    """Write a file per batch."""
    (folder / "in").mkdir(exist_ok=True)
    for number, ids in enumerate(batches):
        rows = (json.dumps({"id": row_id, "name": f"n{row_id}"}) + "\n" for row_id in ids)
        (folder / "in" / f"{number}.json").write_text("".join(rows))


def go(spark: SparkSession, folder: Path, text: str) -> None:
    """Run a file to its end."""
    pipeline = parse(text, folder / "my.toml")
    run.wait(pipeline, run.start_stream(run.build(spark, pipeline, folder)))


def test_rows_are_sent_in_order_and_again_with_their_keys_when_a_batch_is_repeated(
    spark: SparkSession, endpoint: Endpoint, tmp_path: Path
) -> None:
    put(tmp_path, [3, 1, 2, 2])
    text = FILE.format(url=endpoint.url)
    go(spark, tmp_path, text)
    assert endpoint.ids == [3, 1, 2, 2]
    first = endpoint.keys
    assert len(set(first)) == 4, "equal rows are two rows"
    path, headers, body = endpoint.received[0]
    assert (path, headers["Authorization"]) == ("/new?token=hidden-token", "Bearer of-the-shop")
    assert json.loads(body) == {"id": 3, "name": "n3"}
    assert headers["Content-Type"] == "application/json"
    # As a kill before Spark's commit leaves it.
    for name in ("0", ".0.crc"):
        (tmp_path / "state" / "hook" / "commits" / name).unlink()
    go(spark, tmp_path, text)
    assert endpoint.keys == first * 2


def test_requests_are_repeated_until_the_endpoint_takes_them(
    spark: SparkSession, endpoint: Endpoint, tmp_path: Path
) -> None:
    put(tmp_path, [1, 2, 3])
    endpoint.responses = [503, "close", 429, 200, 500, "hang", 200, 422]
    text = FILE.format(url=endpoint.url) + "drop_statuses = [422]\n"
    go(spark, tmp_path, text)
    assert endpoint.ids == [1, 1, 1, 1, 2, 2, 2, 3]
    assert len(set(endpoint.keys)) == 3


def test_endpoint_that_does_not_take_a_row_ends_the_query_which_repeats_the_batch(
    spark: SparkSession, endpoint: Endpoint, tmp_path: Path
) -> None:
    put(tmp_path, [1, 2, 3])
    text = FILE.format(url=endpoint.url)
    endpoint.responses = [200, 400]
    message = r"sinks.hook: POST http://[\d.:]+/new: status 400: the row is not wanted$"
    with pytest.raises(PartFailed, match=message):
        go(spark, tmp_path, text)
    endpoint.responses = [502] * 4
    with pytest.raises(PartFailed, match="status 502 after 4 attempts"):
        go(spark, tmp_path, text)
    assert endpoint.ids == [1, 2, 1, 1, 1, 1], "no row after a failed one; three retries"
    go(spark, tmp_path, text)
    assert endpoint.ids[6:] == [1, 2, 3]


def test_endpoint_that_is_away_is_reported_at_its_first_failure_and_ends_the_query_in_one_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, [1])
    with serving() as endpoint:
        text = FILE.format(url=endpoint.url)
    with pytest.raises(PartFailed, match=r"4 attempts: .*refused") as failed:
        go(spark, tmp_path, text)
    assert "hidden-token" not in str(failed.value)
    assert "\n" not in str(failed.value)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(r"WARN POST http://[\d.:]+/new does not accept a row \(", line)
    assert "refused" in line
    assert re.search(r"; attempt 2 of 4 in [\d.e-]+ s$", line)
    assert "hidden-token" not in line


def test_outage_is_reported_at_intervals_and_at_its_end() -> None:
    lines: list[str] = []
    now_s = 0.0
    outage = Outage("POST /new", lines.append, lambda: now_s)
    outage.note_success()
    for attempt, at_s in enumerate((0.0, 1.0, 9.9, 10.0, 30.0), 2):
        now_s = at_s
        outage.note_failure("status 503", attempt=attempt, attempts=9, delay_s=0.5)
    outage.note_success()
    outage.note_success()
    message = "WARN POST /new does not accept a row (status 503); attempt"
    assert lines == [
        *(f"{message} {attempt} of 9 in 0.5 s" for attempt in (2, 5, 6)),
        "POST /new accepts rows again",
    ]


def test_several_connections_send_every_row(
    spark: SparkSession, endpoint: Endpoint, tmp_path: Path
) -> None:
    put(tmp_path, list(range(40)))
    endpoint.responses = ["close"] * 3
    go(spark, tmp_path, FILE.format(url=endpoint.url) + "connections = 4\n")
    assert sorted(set(endpoint.ids)) == list(range(40))
    assert len(set(endpoint.keys)) == 40


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "http://", "http://user:pass@host/", "host/x", "http://a b/"]
)
def test_wrong_address_is_reported_without_its_account(tmp_path: Path, url: str) -> None:
    text = FILE.format(url="URL").replace("URL/new?token=hidden-token", url)
    with pytest.raises(SpecError, match="not an address like https") as failed:
        parse(text, tmp_path / "my.toml")
    assert "pass" not in str(failed.value)


@given(st.lists(st.binary(max_size=2)), st.randoms(use_true_random=False))
def test_keys_of_a_batch_are_distinct_and_the_same_in_any_order(
    bodies: list[bytes], chance: Any
) -> None:
    def keys(batch: str, ordered: list[bytes]) -> list[str]:
        source = IdempotencyKeys(batch)
        return [source.next(body) for body in ordered]

    shuffled = bodies.copy()
    chance.shuffle(shuffled)
    first = keys("query/1", bodies)
    assert len(set(first)) == len(bodies)
    assert sorted(first) == sorted(keys("query/1", shuffled))
    assert not set(first) & set(keys("query/2", bodies))
