"""`python -m tests.plugin.measure [--write]`: from a test's request for a broker to the first
acknowledged record, and the same with Apache Kafka on the JVM, in turns.

--write  renew the table of docs/testing.md; on a quiet machine
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Broker, Cluster, wait_for
from odradek.testing.namespace import KafkaNamespace
from tests.support.apache import JUDGE_VERSION, apache_node

ROUNDS: Final = 3
"""In each: BROKERS brokers, a broker from a snapshot, a cluster, one from a snapshot, and one
broker of Apache Kafka."""
BROKERS: Final = 7
TOPICS: Final = 20
FLUSH_S: Final = 60
PAGE: Final = Path(__file__).parents[2] / "docs" / "testing.md"
BEGIN: Final = "<!-- figures: make measure-start -->\n"
END: Final = "<!-- end of figures -->\n"


class Start(NamedTuple):
    """One start and its end."""

    ready_ms: float
    first_ack_ms: float
    """A record of a new topic is acknowledged; both from the request for a broker."""
    processor_ms: float
    """Of all processes of the broker until they have ended, and of the client."""
    resident_mb: float
    """Of the broker's process, after the record."""


def processor_ms() -> float:
    """Of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used) * 1000


def resident_mb(pid: int) -> float:
    """Memory of a process now."""
    text = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def acknowledge(bootstrap_servers: str, topic: str) -> None:
    """Return when a record is acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
    producer.produce(topic, b"one")
    assert producer.flush(FLUSH_S) == 0


def measured(run: Callable[[float], tuple[float, float, float]]) -> Start:
    """run  called with its start: (time when ready, time of the first record, memory)"""
    used_ms, start_s = processor_ms(), perf_counter()
    ready_s, first_ack_s, memory_mb = run(start_s)
    return Start(
        (ready_s - start_s) * 1000,
        (first_ack_s - start_s) * 1000,
        processor_ms() - used_ms,
        memory_mb,
    )


def odradek_start(start_s: float, snapshot: Path | None = None) -> tuple[float, float, float]:
    """A broker as of the fixture `kafka_broker`."""
    with Broker(snapshot=snapshot) as broker:
        ready_s = perf_counter()
        topic = "orders" if snapshot is not None else broker.create_topic("orders")
        acknowledge(broker.bootstrap_servers, topic)
        return ready_s, perf_counter(), resident_mb(broker.pid)


def cluster_start(start_s: float, snapshot: Path | None = None) -> tuple[float, float, float]:
    """Three brokers as of the fixture `kafka_cluster`; the memory is that of the largest one."""
    with Cluster(snapshot=snapshot) as cluster:
        ready_s = perf_counter()
        topic = "orders" if snapshot is not None else cluster.create_topic("orders")
        acknowledge(cluster.bootstrap_servers, topic)
        largest_mb = max(resident_mb(broker.pid) for broker in cluster.brokers)
        return ready_s, perf_counter(), largest_mb


def apache_start(start_s: float) -> tuple[float, float, float]:
    """Apache Kafka and the ZooKeeper that it needs, with class data archives and small heaps."""
    with tempfile.TemporaryDirectory() as name, apache_node(Path(name)) as broker:
        ready_s = perf_counter()
        admin = AdminClient({"bootstrap.servers": broker.address})
        # librdkafka may wait for a minute when it asks before there is a controller.
        wait_for(lambda: admin.list_topics(timeout=FLUSH_S).controller_id >= 0)
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(FLUSH_S)
        acknowledge(broker.address, "orders")
        return ready_s, perf_counter(), resident_mb(broker.process.pid)


def fresh_topics_ms() -> list[float]:
    """How long each of TOPICS topics takes."""
    taken = []
    with Broker() as broker:
        test = KafkaNamespace(broker, "measure")
        test.topic("first")
        for _ in range(TOPICS):
            start_s = perf_counter()
            test.topic("orders")
            taken.append((perf_counter() - start_s) * 1000)
    return taken


def write_snapshot(kafka: Broker | Cluster, path: Path) -> None:
    """Of brokers with the topic `orders`."""
    with kafka:
        acknowledge(kafka.bootstrap_servers, kafka.create_topic("orders"))
        kafka.save(path)


def at(share: float, values: Sequence[float]) -> float:
    """The value below which a share of them is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def row(what: str, starts: Sequence[Start], beside: Sequence[Start]) -> str:
    """A line of the table; the last columns are multiples of `beside`'s medians."""
    medians = [at(0.5, column) for column in zip(*starts, strict=True)]
    p95_ms = at(0.95, [start.first_ack_ms for start in starts])
    others = [at(0.5, column) for column in zip(*beside, strict=True)]
    ratios = [f"{mine / other:.1f}" for mine, other in zip(medians, others, strict=True)]
    return (
        f"| {what} | {len(starts)} | {medians[0]:.0f} | {medians[1]:.0f} | {p95_ms:.0f} "
        f"| {medians[2]:.0f} | {medians[3]:.0f} | {ratios[1]} | {ratios[2]} | {ratios[3]} |\n"
    )


def table(measures: dict[str, list[Start]], topics_ms: Sequence[float], load: float) -> str:
    """What is printed and written; the first measure is the one that others are compared with."""
    beside = next(iter(measures.values()))
    return (
        "| | starts | ready ms | first record ms | p95 ms | processor ms | memory MB "
        "| first record, ratio | processor time, ratio | memory, ratio |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n"
        + "".join(row(what, starts, beside) for what, starts in measures.items())
        + f"\nA further topic: median {at(0.5, topics_ms):.1f} ms, p95 {at(0.95, topics_ms):.1f} ms"
        f" of {len(topics_ms)}. Load of the machine before: {load:.1f}.\n"
    )


def measure() -> str:
    """The table of a run."""
    load = os.getloadavg()[0]
    measures: dict[str, list[Start]] = {
        "one broker": [],
        "one broker from a snapshot": [],
        "three brokers": [],
        "three brokers from a snapshot": [],
        f"Apache Kafka {JUDGE_VERSION} with ZooKeeper, JVM": [],
    }
    odradek, saved, three, saved_three, apache = measures.values()
    topics_ms = fresh_topics_ms()
    with tempfile.TemporaryDirectory() as name:
        snapshot, of_three = Path(name) / "one.snapshot", Path(name) / "three.snapshot"
        write_snapshot(Broker(), snapshot)
        write_snapshot(Cluster(), of_three)
        measured(apache_start)  # Makes the archives of its classes, if they are not there.
        for _ in range(ROUNDS):
            odradek += [measured(odradek_start) for _ in range(BROKERS)]
            saved.append(measured(lambda start_s: odradek_start(start_s, snapshot)))
            three.append(measured(cluster_start))
            saved_three.append(measured(lambda start_s: cluster_start(start_s, of_three)))
            apache.append(measured(apache_start))
    return table(measures, topics_ms, load)


def main(words: list[str]) -> None:
    text = measure()
    print(text)
    if "--write" in words:
        page = PAGE.read_text()
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2])


if __name__ == "__main__":
    main(sys.argv[1:])
