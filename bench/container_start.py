"""`python -m bench.container_start IMAGE IMAGE...`: from `docker run` to the first record.

The images are started in turn, one at a time, with the variables of one node in KRaft mode.  A
client of librdkafka sends a record from the moment of `docker run`; the time ends when it is
acknowledged with acks=all.  It also creates the topic.  Then the resident memory of the container's
processes is added up.  Needs a Docker engine; prints each run, and medians.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from tests.support.ports import free_port

ROUNDS: Final = 5
TIMEOUT_S: Final = 120.0
PAGE_BYTES: Final = 4096


class Run(NamedTuple):
    """One container."""

    first_record_s: float
    memory_mb: float


def environment(port: int) -> dict[str, str]:
    """The variables of one node."""
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }


def docker(*words: str) -> str:
    """What a command of the engine prints."""
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout


def measure(image: str) -> Run:
    """Start a container, send a record, and remove the container."""
    port = free_port()
    words = [word for row in environment(port).items() for word in ("-e", "=".join(row))]
    began_s = time.monotonic()
    container = docker("run", "-d", "-p", f"127.0.0.1:{port}:9092", *words, image).strip()
    try:
        first_record_s = _send(port) - began_s
        return Run(first_record_s, _memory_mb(container))
    finally:
        docker("rm", "--force", "--volumes", container)


def _send(port: int) -> float:
    """Send a record; the time of its acknowledgement."""
    acknowledged_s: list[float] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged_s.append(time.monotonic())

    producer = Producer(
        {
            "bootstrap.servers": f"localhost:{port}",
            "acks": "all",
            "linger.ms": 0,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "log_level": 0,
        }
    )
    producer.produce("first", b"record", on_delivery=on_delivery)
    assert producer.flush(TIMEOUT_S) == 0
    return acknowledged_s[0]


def _memory_mb(container: str) -> float:
    """Resident memory of the processes."""
    rows = docker("top", container, "-o", "pid").split()[1:]
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in rows]
    return sum(pages) * PAGE_BYTES / 1e6


def main(images: Sequence[str]) -> None:
    """Measure each image in turn."""
    runs: dict[str, list[Run]] = {image: [] for image in images}
    for number in range(ROUNDS):
        for image in images:
            run = measure(image)
            runs[image].append(run)
            print(f"{number + 1} {image}: {run.first_record_s:.2f} s, {run.memory_mb:.0f} MB")
    for image, rows in runs.items():
        first_s = median(run.first_record_s for run in rows)
        print(f"{image}: {first_s:.2f} s, {median(run.memory_mb for run in rows):.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
