"""Burrow reports the true lags: it reads `__consumer_offsets` with the oldest request versions."""

from __future__ import annotations

import select
import time
from pathlib import Path

import confluent_kafka

from tests.clients.burrow import burrow
from tests.clients.confluent_client import Confluent
from tests.clients.contract import How, Message
from tests.clients.records import BASE_MS

PARTITIONS = 3
END = 40
WAIT_S = 120.0
LOOK_AGAIN_S = 0.3


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Write `count` records to each partition."""
    client = Confluent(bootstrap)
    messages = [
        Message(partition, BASE_MS, None, b"x")
        for partition in range(PARTITIONS)
        for _ in range(count)
    ]
    client.produce(topic, messages, How(acks="all"))


def test_burrow_reports_the_true_lag_of_a_group(
    group_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    Confluent(group_bootstrap).create_topic(topic, PARTITIONS)
    produce(group_bootstrap, topic, END)
    group = f"{topic}-group"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": group_bootstrap, "group.id": group})

    def commit(offsets: list[int]) -> None:
        consumer.commit(
            offsets=[
                confluent_kafka.TopicPartition(topic, number, offset)
                for number, offset in enumerate(offsets)
            ],
            asynchronous=False,
        )

    with burrow(tmp_path, group_bootstrap) as watcher:

        def wait_for(lags: dict[int, int], commit_again: list[int]) -> None:
            """Commit repeatedly: Burrow ignores commits before it knows the end offset."""
            deadline = time.monotonic() + WAIT_S
            while (current_lags := watcher.lags(group, topic)) != lags:
                assert time.monotonic() < deadline, (current_lags, lags, watcher.process.tail())
                commit(commit_again)
                select.select([], [], [], LOOK_AGAIN_S)

        wait_for({0: END, 1: END - 7, 2: 0}, [0, 7, END])
        produce(group_bootstrap, topic, 5)
        wait_for({0: END + 4, 1: 5, 2: 0}, [1, END, END + 5])
    consumer.close()
