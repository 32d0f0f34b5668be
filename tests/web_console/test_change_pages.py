"""Changes by the console, in Chromium: each is previewed, confirmed once, and logged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from playwright.sync_api import Page, expect

from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.compacted import wait_until
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
PASSWORD = "never-shown-7351"
ROLES = ("leader", "follower")
SETTINGS = {
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "auto.leader.rebalance.enable": "false",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with broker_cluster(folder, zookeeper_connect=None, count=2, overrides=SETTINGS) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def console(
    cluster: BrokerCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    words = ["--bootstrap-server", f"c={cluster.bootstrap}", "--allow-changes"]
    with web_console(tmp_path_factory.mktemp("console"), words) as process:
        yield process


def fill(page: Page, title: str, **values: str) -> None:
    """Open the form of a change, fill it in and ask for the preview."""
    form = page.locator("details.change", has=page.get_by_text(title, exact=True))
    if form.get_attribute("open") is None:
        form.locator("summary").click()
    for name, value in values.items():
        field = form.locator(f"[name={name}]")
        kind = field.evaluate("field => field.type")
        if kind == "checkbox":
            field.check()
        elif kind.startswith("select"):
            field.select_option(value)
        else:
            field.fill(value)
    form.get_by_role("button", name="Preview").click()


def confirm(page: Page) -> None:
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator("h1")).to_contain_text("done")


def log_of(console: ConsoleProcess, kind: str) -> dict[str, Any]:
    """The last change of a kind in the log."""
    lines = console.process.log.read_text().splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    row: dict[str, Any] = next(row for row in reversed(rows) if row["change"] == kind)
    return row


def throttles(cluster: BrokerCluster, topic: str) -> list[str]:
    """The replicas of leaders and followers that are throttled, then both rates of each broker."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    values = []
    for kind, name, what in (
        (ResourceType.TOPIC, topic, "replicas"),
        (ResourceType.BROKER, "1", "rate"),
        (ResourceType.BROKER, "2", "rate"),
    ):
        resource = ConfigResource(kind, name)
        rows = admin.describe_configs([resource])[resource].result(WAIT_S)
        names = [f"{role}.replication.throttled.{what}" for role in ROLES]
        # A rate that no broker has is not described.
        values += [rows[name].value if name in rows else "" for name in names]
    return values


def shown_throttle(console: ConsoleProcess) -> str:
    """The leaders of the topic `moved` that are throttled, as the console reads it."""
    configs = console.json("/clusters/c/topics/moved/configs")["configs"]
    name = "leader.replication.throttled.replicas"
    return next(str(row["value"] or "") for row in configs if row["name"] == name)


def source_of(console: ConsoleProcess, name: str) -> str:
    """The source of a config of the topic `made`."""
    configs = console.json("/clusters/c/topics/made/configs")["configs"]
    return next(str(row["source"]) for row in configs if row["name"] == name)


def wait_for_topic(cluster: BrokerCluster, console: ConsoleProcess, topic: str) -> None:
    """Until each broker has heard of it, since the console asks either of them, and the console."""
    cluster.wait(
        lambda: all(topic in cluster.topics(of=broker_id) for broker_id in cluster.running), topic
    )
    wait_until(topic, lambda: console.get(f"/api/clusters/c/topics/{topic}")[0] == 200)


def test_topic_is_created_filled_configured_and_deleted(
    cluster: BrokerCluster, console: ConsoleProcess, page: Page
) -> None:
    topic = f"{console.url}/clusters/c/topics/made"
    page.goto(f"{console.url}/clusters/c/topics")
    fill(page, "Create a topic", name="made", partitions="2", configs="retention.ms=1000000")
    expect(page.locator("#preview")).to_contain_text("1000000")
    assert console.get("/api/clusters/c/topics/made")[0] == 404, "a preview changes nothing"
    confirm(page)
    wait_for_topic(cluster, console, "made")
    page.get_by_role("link", name="Continue").click()
    expect(page.locator("tbody tr")).to_have_count(2)

    page.goto(f"{topic}/change")
    fill(page, "Produce a record", record_key="k1", value="<b>v</b>", headers="a: 1", partition="1")
    confirm(page)
    expect(page.locator("main")).to_contain_text("Produced offset 0 of partition 1.")
    page.goto(f"{topic}/change")
    fill(page, "Produce a record", record_key="6b31", format="hex", tombstone="1", partition="1")
    confirm(page)
    rows = console.json("/clusters/c/topics/made/records?from=beginning")["records"]
    assert [(row["key"], row["value"], row["is_tombstone"]) for row in rows] == [
        ("k1", "<b>v</b>", False),
        ("k1", None, True),
    ]
    assert "<b>" not in json.dumps(log_of(console, "produce")), "contents are not logged"

    for value, shown in (("2000000", "2000000"), ("", "the default")):
        page.goto(f"{topic}/change")
        delete = {} if value else {"delete": "1"}
        fill(page, "Change a config", config="retention.ms", value=value, **delete)
        expect(page.locator("#preview")).to_contain_text(shown)
        confirm(page)
    wait_until("the default", lambda: source_of(console, "retention.ms") == "DEFAULT_CONFIG")

    page.goto(f"{topic}/change")
    fill(page, "Delete the topic")
    page.locator("[name=typed]").fill("other")
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator("#trouble")).to_contain_text("has to be typed")
    page.goto(f"{topic}/change")
    fill(page, "Delete the topic")
    page.locator("[name=typed]").fill("made")
    confirm(page)
    wait_until("the deletion", lambda: console.get("/api/clusters/c/topics/made")[0] == 404)
    row = log_of(console, "delete-topic")
    assert (row["cluster"], row["what"], row["result"]) == ("c", {"topic": "made"}, "done")
    assert row["from"] == "127.0.0.1"


def test_offsets_of_a_group_are_reset_unless_it_has_members(
    cluster: BrokerCluster, console: ConsoleProcess, page: Page
) -> None:
    create_topics(cluster.bootstrap, {"read": 1})
    wait_for_topic(cluster, console, "read")
    produce(cluster.bootstrap, "read", [("k", "v")] * 10)
    commit(cluster.bootstrap, "readers", "read", 4)
    group = f"{console.url}/clusters/c/group?id=readers"

    def committed() -> int:
        rows = console.json("/clusters/c/group?id=readers")["partitions"]["rows"]
        offset: int = rows[0]["committed"]
        return offset

    for target, value, expected in (
        ("shift", "3", 7),
        ("earliest", "", 0),
        ("offset", "99", 10),
        ("time", "1970-01-01", 0),
        ("latest", "", 10),
    ):
        before = committed()
        page.goto(group)
        fill(page, "Reset offsets", to=target, value=value)
        cells = page.locator("#preview tbody td")
        expect(cells).to_have_text(["read-0", str(before), str(expected)])
        assert committed() == before, "a preview changes nothing"
        confirm(page)
        assert committed() == expected

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    consumer.subscribe(["read"])
    wait_until("assignment", lambda: consumer.poll(0.1) is None and consumer.assignment())
    page.goto(group)
    fill(page, "Reset offsets", to="earliest")
    expect(page.locator("#trouble")).to_contain_text("the group is Stable")
    consumer.close()

    # A group that does not exist is created by a reset: its name has to be typed.
    page.goto(f"{console.url}/clusters/c/group?id=newcomers")
    fill(page, "Reset offsets", to="latest", topic="read")
    expect(page.locator("main")).to_contain_text("The group does not exist")
    page.get_by_label("type newcomers").fill("newcomers")
    confirm(page)
    assert (
        console.json("/clusters/c/group?id=newcomers")["partitions"]["rows"][0]["committed"] == 10
    )

    page.goto(group)
    fill(page, "Delete the group")
    confirm(page)
    assert console.json("/clusters/c/groups?q=readers")["groups"]["rows"] == []


def test_partitions_are_reassigned_and_preferred_leaders_elected(
    cluster: BrokerCluster, console: ConsoleProcess, page: Page
) -> None:
    create_topics(cluster.bootstrap, {"moved": 1})
    change = f"{console.url}/clusters/c/topics/moved/change"

    def partition() -> dict[str, Any]:
        row: dict[str, Any] = console.json("/clusters/c/topics/moved")["partitions"]["rows"][0]
        return row

    wait_for_topic(cluster, console, "moved")
    first = partition()["leader"]
    second = 3 - first
    for wrong, reason in (
        ("0: 1,9", "broker 9 is not alive"),
        ("7: 1", "not a line"),
        ("", "no line"),
    ):
        page.goto(change)
        fill(page, "Reassign partitions", plan=wrong)
        expect(page.locator("#trouble")).to_contain_text(reason)
    page.goto(change)
    fill(page, "Reassign partitions", plan=f"0: {second},{first}", throttle="-1")
    expect(page.locator("#trouble")).to_contain_text("'throttle'")
    page.goto(change)
    fill(page, "Reassign partitions", plan=f"0: {second},{first}", throttle="50000000")
    expect(page.locator("#preview tbody td")).to_have_text(
        ["moved-0", str(first), f"{second}, {first}"]
    )
    confirm(page)
    throttled = [f"0:{first}", f"0:{second}", *(["50000000"] * 4)]
    wait_until("the throttle", lambda: throttles(cluster, "moved") == throttled)
    wait_until(
        "two replicas in sync",
        lambda: (
            [row["id"] for row in partition()["replicas"] if row["is_in_sync"]] == [second, first]
        ),
    )
    # The broker that the console reads of hears of a change some time after the other one.
    wait_until("the throttle there", lambda: shown_throttle(console) == f"0:{first}")
    page.goto(change)
    fill(page, "Delete the throttle")
    expect(page.locator("#preview tbody tr")).to_have_count(4)
    confirm(page)
    wait_until("its end", lambda: throttles(cluster, "moved") == [""] * 6)
    wait_until("its end there", lambda: shown_throttle(console) == "")
    page.goto(change)
    fill(page, "Delete the throttle")
    expect(page.locator("#trouble")).to_contain_text("the topic has no throttle")
    assert partition()["leader"] == first
    page.goto(change)
    fill(page, "Elect preferred leaders")
    expect(page.locator("#preview")).to_contain_text(f"leader {second}")
    confirm(page)
    wait_until("the preferred leader", lambda: partition()["leader"] == second)


def test_acls_users_and_quotas_are_changed(console: ConsoleProcess, page: Page) -> None:
    access = f"{console.url}/clusters/c/access"

    def wait_for(part: str, column: str, expected: list[Any]) -> None:
        def is_so() -> bool:
            value = console.json("/clusters/c/access")[part]
            rows = value["rows"] if part == "acls" else value
            return [row[column] for row in rows] == expected

        wait_until(f"{part} {expected}", is_so)

    entry = {"principal": "User:<b>ann</b>", "name": "orders", "operation": "READ"}
    for act, count in (("add", 1), ("remove", 0)):
        page.goto(access)
        fill(page, "Add or remove an ACL", act=act, **entry)
        confirm(page)
        wait_for("acls", "principal", ["User:<b>ann</b>"] * count)

    for act, count in (("add", 1), ("remove", 0)):
        page.goto(access)
        values = {"password": PASSWORD} if act == "add" else {}
        fill(page, "Set or delete the password of a user", act=act, user="bob", **values)
        expect(page.locator("#preview")).to_contain_text("bob")
        assert PASSWORD not in page.content()
        confirm(page)
        wait_for("users", "user", ["bob"] * count)
    assert PASSWORD not in console.process.log.read_text()

    for value, expected in (("1024", [1024.0]), ("", [])):
        page.goto(access)
        fill(page, "Change a quota", user="eve", quota="consumer_byte_rate", value=value)
        confirm(page)
        wait_for("quotas", "value", expected)


def test_change_is_confirmed_once_and_only_by_a_form_of_the_console(
    console: ConsoleProcess, page: Page
) -> None:
    page.goto(f"{console.url}/clusters/c/topics")
    csrf = page.locator("[name=csrf]").first.input_value()

    def post(path: str, headers: dict[str, str] | None = None, **values: str) -> tuple[int, str]:
        return console.get(f"/clusters/c{path}", headers, urlencode(values).encode())

    name = "once"
    create = "/changes/create-topic"
    assert post(create, name=name)[0] == 403
    assert post(create, name=name, csrf="0" * 64)[0] == 403
    assert post(create, name=name, csrf="é")[0] == 403
    assert post(create, {"Origin": "http://evil.example"}, name=name, csrf=csrf)[0] == 403
    assert post(create, {"Sec-Fetch-Site": "cross-site"}, name=name, csrf=csrf)[0] == 403
    assert post("/changes/format-disk", csrf=csrf)[0] == 400
    for value in ("nan", "inf", "1e400", "many"):
        fields = {"user": "eve", "quota": "consumer_byte_rate", "value": value}
        assert post("/changes/quota", None, csrf=csrf, **fields)[0] == 400, value
    assert console.get(f"/clusters/c{create}?name={name}&csrf={csrf}")[0] == 405
    status, text = post(create, name=name, csrf=csrf)
    assert status == 200, text
    token = text.partition('name="token" value="')[2].partition('"')[0]
    assert post("/confirm", token=token)[0] == 403
    forged = {"X-Forwarded-For": "192.0.2.7"}
    assert post("/confirm", forged, token=token, csrf=csrf)[0] == 200
    assert "192.0.2.7" not in console.process.log.read_text()
    assert post("/confirm", token=token, csrf=csrf)[0] == 400
    wait_until("the topic", lambda: console.get(f"/api/clusters/c/topics/{name}")[0] == 200)
    status, text = post(create, name=name, csrf=csrf)
    assert (status, "TOPIC_ALREADY_EXISTS" in text) == (400, True)


def test_nothing_can_be_changed_without_the_option(
    cluster: BrokerCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    words = ["--bootstrap-server", f"c={cluster.bootstrap}"]
    with web_console(tmp_path_factory.mktemp("reader"), words) as console:
        status, text = console.get("/clusters/c/changes/create-topic", data=b"name=x")
        assert (status, "--allow-changes" in text) == (403, True)
        assert '<form method="post"' not in console.get("/clusters/c/topics")[1]
