"""The runbook has a section for each alert, and its commands print what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.tool_cache import PROJECT

PAGE = (PROJECT / "docs" / "runbook.md").read_text()
RULES = (PROJECT / "config" / "prometheus" / "alerts.yml").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
SAMPLE_ADDRESS = "localhost:9092"
WAIT_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """What the page says of its cluster."""
    overrides = {"offsets.topic.num.partitions": "1"}
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=overrides) as process:
        admin = AdminClient({"bootstrap.servers": process.address})
        topics = [NewTopic("orders", 1, 1, config={"min.insync.replicas": "2"})]
        topics.append(NewTopic("events", 1, 1))
        for created in admin.create_topics(topics).values():
            created.result(WAIT_S)
        producer = Producer({"bootstrap.servers": process.address})
        for number in range(5):
            producer.produce("events", str(number).encode())
        assert producer.flush(WAIT_S) == 0
        consumer = Consumer({"bootstrap.servers": process.address, "group.id": "billing"})
        place = TopicPartition("events", 0, 2)
        consumer.assign([place])
        consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()
        yield process


def commands() -> list[tuple[str, list[str]]]:
    """Each command of the page, and the lines that it prints."""
    rows: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(PAGE):
        for line in block.splitlines():
            if line.startswith("$ "):
                rows.append((line.removeprefix("$ "), []))
            else:
                rows[-1][1].append(line)
    return rows


def normalized(line: str) -> str:
    """A line whose numbers and spaces do not matter."""
    return " ".join(re.sub(r"\d+", "#", line).split())


def test_each_alert_has_a_section_and_no_other() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES)
    assert sorted(re.findall(r"^## (\w+)$", PAGE, re.M)) == sorted(alerts)


@pytest.mark.client
def test_commands_print_what_the_page_shows(broker: BrokerProcess, tmp_path: Path) -> None:
    rows = commands()
    assert len(rows) >= 9
    for command, lines in rows:
        program, *words = shlex.split(command.replace(SAMPLE_ADDRESS, broker.address))
        assert program == "odradek"
        done = subprocess.run(
            [sys.executable, "-m", "odradek", *words],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed = {normalized(line) for line in (done.stdout + done.stderr).splitlines()}
        assert {normalized(line) for line in lines} <= printed, f"{command}\n{done.stdout}"
        if not lines:
            assert not done.stdout.strip(), command
