"""Notifications to a real server over HTTP, of the notifier and of the tools that have one."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.tools.notifications import ATTEMPTS, Notifier
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until

pytestmark = pytest.mark.client
WAIT_S = 60.0


class Webhook:
    """A server that keeps what is posted to it, and responds with statuses that a test chooses."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.times: list[float] = []
        self.statuses: list[int] = []
        """Of the next responses; 200 after that."""
        self.may_respond = threading.Event()
        self.may_respond.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                assert hook.may_respond.wait(WAIT_S)
                status = hook.statuses.pop(0) if hook.statuses else 200
                hook.times.append(time.monotonic())
                if status == 200:
                    hook.posted.append(json.loads(content))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is printed."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hooks/secret"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


@pytest.fixture
def notifier(webhook: Webhook) -> Iterator[Callable[..., Notifier]]:
    made = []

    def make(**configs: Any) -> Notifier:
        lines: list[str] = []
        settings = {"report": lines.append, "rate_s": 0.05, "first_pause_s": 0.01, **configs}
        made.append(Notifier(settings.pop("url", webhook.url), **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_failed_attempts_are_repeated(webhook: Webhook, notifier: Callable[..., Notifier]) -> None:
    webhook.statuses = [500, 503, 429]
    notifier().notify("a", {"text": "it is late"})
    wait_until("the notification", lambda: webhook.posted, timeout_s=WAIT_S)
    assert webhook.posted == [{"text": "it is late"}]
    assert len(webhook.times) == 4


@pytest.mark.parametrize(("statuses", "requests"), [([404], 1), ([500] * ATTEMPTS, ATTEMPTS)])
def test_notification_that_is_refused_is_reported_without_the_secret_address(
    webhook: Webhook, notifier: Callable[..., Notifier], statuses: list[int], requests: int
) -> None:
    webhook.statuses = list(statuses)
    lines: list[str] = []
    notifier(report=lines.append).notify("a", {})
    wait_until("the report", lambda: lines, timeout_s=WAIT_S)
    assert lines == [f"no notification to http://127.0.0.1: status {statuses[0]}"]
    assert len(webhook.times) == requests


def test_server_that_is_away_is_reported(notifier: Callable[..., Notifier]) -> None:
    lines: list[str] = []
    notifier(report=lines.append, url="http://127.0.0.1:1/secret").notify("a", {})
    wait_until("the report", lambda: lines, timeout_s=WAIT_S)
    assert lines == ["no notification to http://127.0.0.1: Connection refused"]


def test_flood_is_sent_slowly_with_the_last_state_of_each_subject(
    webhook: Webhook, notifier: Callable[..., Notifier]
) -> None:
    rate_s = 0.2
    sender = notifier(rate_s=rate_s)
    webhook.may_respond.clear()
    for number in range(1_000):
        sender.notify(f"subject {number % 3}", {"subject": number % 3, "number": number})
    webhook.may_respond.set()
    sender.close()
    last = {row["subject"]: row["number"] for row in webhook.posted}
    assert last == {0: 999, 1: 997, 2: 998}
    assert len(webhook.posted) <= 1 + len(last)
    pauses = [
        after - before for before, after in zip(webhook.times, webhook.times[1:], strict=False)
    ]
    assert min(pauses) >= rate_s * 0.9


def test_template_is_filled(webhook: Webhook, notifier: Callable[..., Notifier]) -> None:
    template = {"blocks": [{"text": "$text ($broker), not $absent"}], "raw": "$json", "n": 1}
    fields = {"text": 'a "quote" and $x', "broker": 3}
    notifier(template=template).notify("a", fields)
    (posted,) = wait_until("the notification", lambda: webhook.posted, timeout_s=WAIT_S)
    assert posted["blocks"] == [{"text": 'a "quote" and $x (3), not $absent'}]
    assert json.loads(posted["raw"]) == fields
    assert posted["n"] == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--notify", "ftp://a/b"], "--notify: the address is not http://... or https://..."),
        (["--notify", "@absent"], "--notify: absent: No such file or directory"),
        (["--notify", "http://a", "--notify-template", "absent"], "absent: No such file"),
        (["--notify-template", "absent"], "--notify-template needs --notify"),
    ],
)
@pytest.mark.parametrize("tool", ["lag", "canary"])
def test_unusable_address_is_refused(tool: str, words: list[str], reason: str) -> None:
    result = our_tool_here(tool, ["--bootstrap-server", "127.0.0.1:1", *words])
    assert result.exit_code in (1, 2)
    assert reason in result.errors


def test_lag_and_canary_notify_of_what_is_wrong(webhook: Webhook, tmp_path: Path) -> None:
    (tmp_path / "address").write_text(f"{webhook.url}\n")
    with odradek_broker(tmp_path, overrides={"group.initial.rebalance.delay.ms": "0"}) as broker:
        address = broker.address
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("slow", 1, 1)])["slow"].result(WAIT_S)
        producer = Producer({"bootstrap.servers": address})
        for _ in range(50):
            producer.produce("slow", b"x")
        assert producer.flush(WAIT_S) == 0
        consumer = Consumer({"bootstrap.servers": address, "group.id": "slow"})
        consumer.commit(offsets=[TopicPartition("slow", 0, 2)], asynchronous=False)
        consumer.close()
        words = ["--bootstrap-server", address, "--notify", f"@{tmp_path / 'address'}"]
        # Committed longer ago than the window is long: the group has stopped.
        result = our_tool_here("lag", [*words, "--interval-ms", "3600000"])
        assert result.exit_code == 0, result.errors
        (verdict,) = webhook.posted
        assert (verdict["group"], verdict["status"], verdict["total_lag"]) == ("slow", "ERR", 48)
        assert "consumer group slow is ERR" in verdict["text"]
        fast = ["--interval-ms", "100", "--timeout-ms", "2000"]
        canary = subprocess.Popen(our_command("canary", [*words, *fast]), stdout=subprocess.PIPE)
        assert canary.stdout is not None
        assert json.loads(canary.stdout.readline())["available"]
        broker.kill()
        wait_until("the news", lambda: len(webhook.posted) > 1, timeout_s=WAIT_S)
        broker.start()
        wait_until("good news", lambda: webhook.posted[-1].get("available"), timeout_s=WAIT_S)
        canary.kill()
        canary.wait(WAIT_S)
        canary.stdout.close()
    news = webhook.posted[1]
    assert (news["kind"], news["broker"], news["available"]) == ("canary", 0, False)
    assert news["text"].startswith("Kafka broker 0 is not available: ")


def test_canary_notifies_of_a_cluster_that_is_away_at_its_start(
    webhook: Webhook, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path)
    words = ["--bootstrap-server", broker.address, "--notify", webhook.url]
    fast = ["--interval-ms", "100", "--timeout-ms", "2000"]
    bounded = our_tool_here("canary", [*words, *fast, "--rounds", "5"])
    assert bounded.exit_code == 1
    assert f"{broker.address} cannot be reached" in bounded.errors
    (first,) = webhook.posted
    canary = subprocess.Popen(our_command("canary", [*words, *fast]), stdout=subprocess.PIPE)
    try:
        assert canary.stdout is not None
        lost = json.loads(canary.stdout.readline())
        wait_until("the news", lambda: len(webhook.posted) == 2, timeout_s=WAIT_S)
        broker.start()
        wait_until("good news", lambda: len(webhook.posted) == 3, timeout_s=WAIT_S)
        lines = [json.loads(canary.stdout.readline()) for _ in range(2)]
    finally:
        canary.kill()
        canary.wait(WAIT_S)
        broker.close()
    canary.stdout.close()
    assert (lost["event"], lost["cluster"]) == ("change", broker.address)
    for news in (first, webhook.posted[1]):
        assert (news["cluster"], news["available"]) == (broker.address, False)
        assert news["text"].startswith(f"Kafka cluster {broker.address} is not available: ")
    assert webhook.posted[2]["text"] == f"Kafka cluster {broker.address} is available"
    assert webhook.posted[2]["failed_probes"] >= 1
    assert [line["available"] for line in lines] == [True, True]
    assert (lines[0]["cluster"], lines[1]["broker"]) == (broker.address, 0)
