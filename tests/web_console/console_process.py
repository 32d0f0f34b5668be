"""The web console as a process, and what tests put into its cluster."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes import LoggedProcess

READY_S = 60.0
WAIT_S = 60.0


class ConsoleProcess:
    """A running console."""

    def __init__(self, process: LoggedProcess, url: str) -> None:
        self.process = process
        self.url = url

    def get(
        self, path: str, headers: dict[str, str] | None = None, data: bytes | None = None
    ) -> tuple[int, str]:
        """Status and text of a response."""
        request = urllib.request.Request(self.url + path, data, headers or {})
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def json(self, path: str) -> Any:
        """The value of a path below /api."""
        status, text = self.get(f"/api{path}")
        assert status == 200, text
        return json.loads(text)


@contextmanager
def web_console(folder: Path, words: Sequence[str]) -> Iterator[ConsoleProcess]:
    """A console on a free port; `words` are its other arguments, or have another --listen."""
    listen = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
    command = [sys.executable, "-I", "-m", "odradek", "console", *listen, *words]
    process = LoggedProcess(command, log=folder / "console.log", folder=folder)
    try:
        line = process.wait_for_line(r"serving on http", timeout_s=READY_S)
        yield ConsoleProcess(process, line.split()[-1])
    finally:
        process.kill()


def create_topics(address: str, partitions: dict[str, int], **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, count, 1, config=config) for name, count in partitions.items()]
    for future in admin.create_topics(topics).values():
        future.result(WAIT_S)


def produce(address: str, topic: str, records: Sequence[tuple[str, str | None]]) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(WAIT_S) == 0


def commit(address: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()
