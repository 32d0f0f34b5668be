"""The pages of clusters, brokers, topics and groups, in Chromium, over a broker process."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.web_console.console_process import (
    WAIT_S,
    ConsoleProcess,
    commit,
    create_topics,
    produce,
    web_console,
)

pytestmark = pytest.mark.client

expect.set_options(timeout=WAIT_S * 1000)
HOSTILE = "<script>document.title='run'</script>&\"'/../%2e"
"""A group; the names of topics cannot have such characters."""
RECORDS = 20
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "broker.rack": "north",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=SETTINGS) as process:
        create_topics(process.address, {"orders": 3, "empty": 1}, **{"retention.ms": "7654321"})
        produce(process.address, "orders", [(f"k{i}", "v") for i in range(RECORDS)])
        commit(process.address, HOSTILE, "empty", 0)
        commit(process.address, "billing", "orders", 1)
        yield process


@pytest.fixture(scope="module")
def console(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """With two clusters, one of which is not there."""
    servers = [f"shop={broker.address}", f"gone=127.0.0.1:{free_port()}"]
    words = [word for server in servers for word in ("--bootstrap-server", server)]
    with web_console(tmp_path_factory.mktemp("console"), words) as process:
        yield process


def test_clusters_are_listed_and_one_that_does_not_respond_is_said_to(
    console: ConsoleProcess, page: Page
) -> None:
    page.goto(console.url)
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tr", has_text="gone")).to_contain_text("does not respond")
    page.get_by_role("link", name="shop", exact=True).last.click()
    expect(page.locator(".figure", has_text="Brokers")).to_contain_text("1")


def test_pages_show_what_the_cluster_has(
    broker: BrokerProcess, console: ConsoleProcess, page: Page
) -> None:
    page.goto(f"{console.url}/clusters/shop/brokers")
    row = page.locator("tbody tr")
    for text in (broker.address, "controller", "north", str(broker.data)):
        expect(row).to_contain_text(text)
    page.goto(f"{console.url}/clusters/shop/topics?q=ORD")
    expect(page.locator("tbody tr")).to_have_text(re.compile(r"orders\s*healthy\s*3\s*1\s*20"))
    page.get_by_role("link", name="orders").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    ends = [int(cell) for cell in page.locator("tbody td:nth-child(5)").all_inner_texts()]
    assert sum(ends) == RECORDS
    page.get_by_role("link", name="Configs").click()
    expect(page.locator("tr", has_text="retention.ms").first).to_contain_text("7654321")
    expect(page.locator("tr", has_text="7654321")).to_contain_text("DYNAMIC_TOPIC_CONFIG")
    page.goto(f"{console.url}/clusters/shop/groups")
    expect(page.locator("tr", has_text="billing")).to_contain_text("Empty")
    page.get_by_role("link", name="billing").click()
    expect(page.locator("tbody tr")).to_contain_text("orders")
    first = console.json("/clusters/shop/topics/orders")["partitions"]["rows"][0]
    group = console.json("/clusters/shop/group?id=billing")
    assert group["lag"] == first["end"] - 1
    assert group["partitions"]["rows"][0]["committed"] == 1
    for prefix in ("", "/api"):
        for query in ("", "?id="):
            status, text = console.get(f"{prefix}/clusters/shop/group{query}")
            assert status == 400
            assert "missing" in text


def test_names_with_html_are_text(console: ConsoleProcess, page: Page) -> None:
    page.goto(f"{console.url}/clusters/shop/groups")
    page.get_by_role("link", name=HOSTILE).click()
    expect(page.locator("h1")).to_contain_text(HOSTILE)
    expect(page.locator(".figure", has_text="State")).to_contain_text("Empty")
    page.goto(f"{console.url}/clusters/shop/topics?q=<script>document.title='run'</script>")
    expect(page.locator("#content")).to_contain_text("No topic matches")
    page.goto(f"{console.url}/clusters/shop/topics/<script>document.title='run'<%2Fscript>")
    assert "run" not in page.title()
    assert page.locator("main script").count() == 0


def test_keys_move_between_pages_and_rows(console: ConsoleProcess, page: Page) -> None:
    page.goto(f"{console.url}/clusters/shop/topics?q=e")
    second = page.locator("tbody tr a").nth(1).inner_text()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr.here")).to_contain_text(second)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(second)
    # Keys are heard once the script of the page has run.
    page.wait_for_load_state()
    page.keyboard.type("gt")
    page.wait_for_url("**/topics")
    page.keyboard.type("gg")
    page.wait_for_url("**/groups")
    page.keyboard.press("/")
    page.keyboard.type("bill")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_page_fits_the_window_in_each_scheme(console: ConsoleProcess, page: Page) -> None:
    schemes: tuple[Literal["dark", "light"], ...] = ("dark", "light")
    for path in ("", "/brokers", "/brokers/0", "/topics", "/topics/orders", "/groups"):
        page.goto(f"{console.url}/clusters/shop{path}")
        for width, scheme in itertools.product((390, 1280), schemes):
            page.set_viewport_size({"width": width, "height": 700})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            back = page.evaluate("getComputedStyle(document.body).backgroundColor")
            brightness = sum(int(part) for part in re.findall(r"\d+", back)[:3]) / 3
            assert (brightness < 60) == (scheme == "dark")


def test_many_topics_are_shown_page_by_page(
    broker: BrokerProcess, console: ConsoleProcess, page: Page
) -> None:
    create_topics(broker.address, {f"many-{number:03}": 1 for number in range(120)})
    page.goto(f"{console.url}/clusters/shop/topics?q=many")
    expect(page.locator("tbody tr")).to_have_count(100)
    page.keyboard.press("]")
    expect(page.locator("tbody tr")).to_have_count(20)
    expect(page.locator("tbody tr").last).to_contain_text("many-119")
    page.wait_for_load_state()
    page.keyboard.press("[")
    expect(page.locator("tbody tr").first).to_contain_text("many-000")


def test_page_changes_by_itself(broker: BrokerProcess, console: ConsoleProcess, page: Page) -> None:
    page.goto(f"{console.url}/clusters/shop/topics?q=live")
    expect(page.locator("#content")).to_contain_text("No topic matches")
    create_topics(broker.address, {"live": 1})
    expect(page.locator("tbody tr")).to_contain_text("live")
    produce(broker.address, "live", [("k", "v")] * 7)
    expect(page.locator("tbody tr td:nth-child(5)")).to_have_text("7")


def test_rates_and_lag_of_the_home_page_are_live(
    broker: BrokerProcess, console: ConsoleProcess, page: Page
) -> None:
    page.goto(f"{console.url}/clusters/shop")
    figure = page.locator(".figure", has_text="Produced").locator("b")
    expect(figure).to_contain_text("records/s")
    create_topics(broker.address, {"busy": 1})
    commit(broker.address, "late", "busy", 0)
    late, busy = (page.locator("tr", has_text=name) for name in ("late", "busy"))

    def shows_both() -> bool:
        produce(broker.address, "busy", [("k", "v")] * 50)
        return late.count() == busy.count() == 1

    wait_until("rows of the busy topic and of the group that is late", shows_both)


def test_dead_broker_is_reported_and_the_page_comes_back(tmp_path: Path, page: Page) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        create_topics(broker.address, {"kept": 2})
        with web_console(tmp_path, ["--bootstrap-server", broker.address]) as console:
            page.goto(f"{console.url}/clusters/cluster/topics")
            expect(page.locator("tbody tr")).to_contain_text("kept")
            broker.kill()
            expect(page.locator("#trouble")).to_contain_text(broker.address)
            expect(page.locator("tbody tr")).to_contain_text("kept")
            assert console.get("/clusters/cluster/topics")[0] == 503
            assert console.get("/api/clusters/cluster/topics")[0] == 503
            broker.start()
            expect(page.locator("#trouble")).to_be_hidden()
            expect(page.locator("tbody tr")).to_contain_text("kept")
