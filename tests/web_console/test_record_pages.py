"""Records in Chromium and as JSON: origins, filters, formats, marks of transactions."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until
from tests.web_console.console_process import (
    WAIT_S,
    ConsoleProcess,
    create_topics,
    produce,
    web_console,
)

pytestmark = pytest.mark.client

expect.set_options(timeout=WAIT_S * 1000)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
HOSTILE = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
MANY = 100_000
WIDE = 20
SEARCH_MAX_S = 30.0
"""A bound on a search of MANY records, which takes 1 s, on a machine that is busy."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=SETTINGS) as process:
        create_topics(process.address, {"mixed": 1, "money": 1, "many": 3, "new": 1, "wide": 4})
        produce_mixed(process.address)
        open_transaction = produce_transactions(process.address)
        produce_wide(process.address)
        produce(process.address, "many", [(f"key-{i}", f'{{"n":{i}}}') for i in range(MANY)])
        yield process
        open_transaction.abort_transaction(WAIT_S)


def produce_mixed(address: str) -> None:
    """Records of all kinds, at offsets 0, 1, 2 and so on; their times are 1, 2, 3 s."""
    producer = Producer({"bootstrap.servers": address})
    records: list[tuple[Any, Any, Any]] = [
        ("plain", "Text of A Line", [("trace", b"0042"), ("empty", None)]),
        ("json", '{"user":"ann","amount":120.5,"tags":["a","b"]}', None),
        ("json", '{"user":"bob","amount":7}', None),
        ("bytes", b"\x00\xff\x01", None),
        ("tombstone", None, None),
        (HOSTILE, HOSTILE, [(HOSTILE, HOSTILE.encode())]),
        (None, "x" * 500_000, None),
    ]
    for number, (key, value, headers) in enumerate(records):
        producer.produce("mixed", value, key, headers=headers, timestamp=1000 * (number + 1))
        assert producer.flush(WAIT_S) == 0


def produce_wide(address: str) -> None:
    """More bytes in each of four partitions than a few responses hold, each record in a batch."""
    producer = Producer({"bootstrap.servers": address, "batch.num.messages": 1})
    padding = "x" * 60_000
    for number in range(WIDE):
        for partition in range(4):
            producer.produce("wide", f'{{"n":{number},"padding":"{padding}"}}', partition=partition)
    assert producer.flush(WAIT_S) == 0


def produce_transactions(address: str) -> Producer:
    """One that is committed, one that is aborted, one that is open, of the result."""
    # It is open until the last test of the module, however busy the machine is.
    settings = {"bootstrap.servers": address, "transaction.timeout.ms": 900_000}
    for name in ("committed", "aborted", "open"):
        producer = Producer({**settings, "transactional.id": name})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce("money", f"of {name}", name)
        assert producer.flush(WAIT_S) == 0
        if name == "committed":
            producer.commit_transaction(WAIT_S)
        elif name == "aborted":
            producer.abort_transaction(WAIT_S)
    return producer


@pytest.fixture(scope="module")
def console(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    words = ["--bootstrap-server", f"c={broker.address}"]
    with web_console(tmp_path_factory.mktemp("console"), words) as process:
        yield process


def path_of(topic: str, **query: object) -> str:
    return f"/clusters/c/topics/{topic}/records?{urlencode(query)}"


def records(console: ConsoleProcess, topic: str, **query: object) -> list[Any]:
    rows: list[Any] = console.json(path_of(topic, **query))["records"]
    return rows


def test_origins_and_filters_choose_records(console: ConsoleProcess) -> None:
    table: list[tuple[dict[str, object], list[int]]] = [
        ({}, [6, 5, 4, 3, 2, 1, 0]),
        ({"limit": 2}, [6, 5]),
        ({"from": "beginning", "limit": 3}, [0, 1, 2]),
        ({"from": "offset", "offset": 5}, [5, 6]),
        ({"from": "time", "time": 4001}, [4, 5, 6]),
        ({"from": "time", "time": "1970-01-01T00:00:06.500"}, [6]),
        ({"from": "time", "time": "2100-01-01"}, []),
        ({"key": "json"}, [2, 1]),
        ({"key": "jso"}, []),
        ({"text": "TEXT of a"}, [0]),
        ({"text": "0042"}, [0]),
        ({"path": "@.amount > 100"}, [1]),
        ({"path": "$.tags[?@ == 'b']"}, [1]),
        ({"path": "search(@.user, '^b') && @.amount < 100"}, [2]),
        ({"path": "@.amount", "key": "json", "text": "ann"}, [1]),
        ({"from": "beginning", "key": "json", "limit": 1}, [1]),
        ({"path": "search(@.user, '(wrong')"}, []),
    ]
    for query, offsets in table:
        assert [row["offset"] for row in records(console, "mixed", **query)] == offsets, query
    assert "wrong" not in console.process.log.read_text(), "a pattern is not logged"


def test_wrong_arguments_are_refused_with_the_reason(console: ConsoleProcess) -> None:
    table = [
        ({"path": "@.a ="}, "JSONPath"),
        ({"path": "@.a =~ /(a+)+b/"}, "search(@.name, 'pattern')"),
        ({"from": "yesterday"}, "'from' is one of last, beginning"),
        ({"time": "soon", "from": "time"}, "is a date such as"),
        ({"offset": "-1"}, "'offset'"),
        ({"limit": "501"}, "'limit'"),
    ]
    for query, reason in table:
        status, text = console.get("/api" + path_of("mixed", **query))
        assert (status, reason in text) == (400, True), text
    assert console.get("/api" + path_of("absent"))[0] == 404
    assert console.get("/api" + path_of("mixed", partition=7))[0] == 404


def test_values_are_decoded_as_asked(console: ConsoleProcess) -> None:
    by_offset = {row["offset"]: row for row in records(console, "mixed")}
    assert (by_offset[1]["value_format"], by_offset[3]["value"]) == ("json", "00 ff 01")
    assert by_offset[4]["is_tombstone"]
    assert by_offset[0]["headers"] == [
        {"name": "trace", "value": "0042"},
        {"name": "empty", "value": None},
    ]
    assert by_offset[6]["is_cut"]
    assert by_offset[6]["value_bytes"] == 500_000
    assert len(by_offset[6]["value"]) < 1_000
    (row,) = records(console, "mixed", value_format="hex", text="text of")
    assert row["value"].startswith("54 65 78 74")
    (row,) = records(console, "mixed", value_format="json", text="text of")
    assert row["value"].startswith("not JSON")


def test_transactions_and_control_records_are_marked(console: ConsoleProcess) -> None:
    rows = records(console, "money")
    assert {row["key"]: row["transaction"] for row in rows} == {
        "committed": "committed",
        "aborted": "aborted",
        "open": "open",
    }
    control = [row["control"] for row in records(console, "money", control=1)]
    assert control == [None, "abort", None, "commit", None]


def test_record_is_found_by_its_key_among_many(console: ConsoleProcess) -> None:
    for origin in ("last", "beginning"):
        started_s = time.monotonic()
        (row,) = records(console, "many", key="key-31415", **{"from": origin})
        assert row["value"] == '{"n":31415}'
        assert time.monotonic() - started_s < SEARCH_MAX_S


def test_search_sees_partitions_that_full_responses_leave_out(console: ConsoleProcess) -> None:
    for origin in ("beginning", "last"):
        path = path_of("wide", **{"from": origin}, path=f"@.n == {WIDE - 1}")
        response = console.json(path)
        assert response["scanned"] == 4 * WIDE, origin
        assert sorted(row["partition"] for row in response["records"]) == [0, 1, 2, 3], origin


def test_searches_are_bounded_and_a_closed_one_frees_its_place(console: ConsoleProcess) -> None:
    url = f"{console.url}/stream{path_of('new', **{'from': 'new'})}"
    streams = [urllib.request.urlopen(url, timeout=WAIT_S) for _ in range(4)]
    for stream in streams:
        assert stream.readline() == b"event: progress\n"
    status, text = console.get("/api" + path_of("mixed"))
    assert (status, "searches for as many others" in text) == (503, True)
    for stream in streams:
        stream.close()
    wait_until("a free place", lambda: console.get("/api" + path_of("mixed"))[0] == 200)


def test_records_are_shown_with_a_permanent_link(console: ConsoleProcess, page: Page) -> None:
    page.goto(console.url + path_of("mixed", limit=6))
    expect(page.locator("#records tbody tr")).to_have_count(6)
    expect(page.locator("#progress")).to_contain_text("6 shown")
    expect(page.locator("tr", has_text="tombstone").last).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("json")
    page.locator("[name=path]").fill("@.amount > 100")
    page.keyboard.press("Enter")
    expect(page.locator("#records tbody tr")).to_have_count(1)
    assert "key=json" in page.url
    assert "offset=" not in page.url
    page.get_by_role("link", name="0:1").click()
    expect(page.locator("pre").last).to_contain_text('"amount": 120.5')
    page.reload()
    expect(page.locator("pre").last).to_contain_text('"user": "ann"')
    page.keyboard.press("[")
    expect(page.locator("table")).to_contain_text("trace")
    with page.expect_download() as download:
        page.get_by_role("link", name="download").last.click()
    assert Path(download.value.path()).read_bytes() == b"Text of A Line"
    status, _ = console.get("/clusters/c/topics/mixed/records/0/99")
    assert status == 404


def test_html_in_a_record_is_text(console: ConsoleProcess, page: Page) -> None:
    page.goto(console.url + path_of("mixed", key=HOSTILE))
    expect(page.locator("#records tbody tr")).to_have_count(1)
    expect(page.locator("#records tbody tr")).to_contain_text(HOSTILE)
    page.get_by_role("link", name="0:5").click()
    expect(page.locator("pre").first).to_have_text(HOSTILE)
    assert page.locator("main img, main script").count() == 0
    assert page.title() != "run"


def test_new_records_appear_until_the_stream_is_stopped(
    broker: BrokerProcess, console: ConsoleProcess, page: Page
) -> None:
    page.goto(console.url + path_of("new", **{"from": "new"}))
    expect(page.locator("#progress")).to_contain_text("0 shown")
    for number in range(3):
        produce(broker.address, "new", [(f"k{number}", "v")])
        expect(page.locator("#records tbody tr")).to_have_count(number + 1)
    expect(page.locator("#records tbody tr").first).to_contain_text("k2")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#progress")).to_contain_text("stopped")
    produce(broker.address, "new", [("late", "v")])
    assert len(records(console, "new")) == 4
    expect(page.locator("#records tbody tr")).to_have_count(3)
