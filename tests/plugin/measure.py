"""`python -m tests.plugin.measure`: from asking for a broker to the first acknowledged record."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from time import perf_counter

from confluent_kafka import Producer

from odradek.testing import Broker, Cluster
from odradek.testing.namespace import KafkaNamespace

RUNS = 20
CLUSTER_RUNS = 5
SNAPSHOT_TOPICS = 5
FLUSH_S = 60


def acknowledged_ms(start_s: float, kafka: Broker | Cluster, name: str = "orders") -> float:
    """Milliseconds from a time until a record of a new topic is acknowledged."""
    topic = kafka.create_topic(name)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    producer.produce(topic, b"one")
    assert producer.flush(FLUSH_S) == 0
    return (perf_counter() - start_s) * 1000


def resident_mb(pid: int) -> float:
    """Memory of a process now."""
    with open(f"/proc/{pid}/status") as file:
        (line,) = (line for line in file if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def report(what: str, values: list[float], unit: str) -> None:
    """Median and 95th percentile."""
    ordered = sorted(values)
    median, p95 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95) - 1]
    print(f"{what}: median {median:.1f} {unit}, p95 {p95:.1f} {unit} of {len(ordered)}")


def report_snapshots() -> None:
    """From asking for a broker, or for three, that begins with a snapshot until it is ready."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/snapshot"
        for name, make, runs in (("", Broker, RUNS), (" of three brokers", Cluster, CLUSTER_RUNS)):
            with make() as kafka:
                for number in range(SNAPSHOT_TOPICS):
                    acknowledged_ms(0, kafka, f"orders-{number}")
                kafka.save(path)
            ready = []
            for _ in range(runs):
                start_s = perf_counter()
                with make(snapshot=path):
                    ready.append((perf_counter() - start_s) * 1000)
            report(f"ready with a snapshot{name}", ready, "ms")


def main() -> None:
    first, ready, memory, topics = [], [], [], []
    for _ in range(RUNS):
        start_s = perf_counter()
        with Broker() as broker:
            ready.append((perf_counter() - start_s) * 1000)
            first.append(acknowledged_ms(start_s, broker))
            memory.append(resident_mb(broker.pid))
    with Broker() as broker:
        test = KafkaNamespace(broker, "measure")
        test.topic("first")
        for _ in range(RUNS):
            start_s = perf_counter()
            test.topic("orders")
            topics.append((perf_counter() - start_s) * 1000)
    clusters = []
    for _ in range(CLUSTER_RUNS):
        start_s = perf_counter()
        with Cluster() as cluster:
            clusters.append(acknowledged_ms(start_s, cluster))
    report_snapshots()
    report("broker ready", ready, "ms")
    report("first acknowledged record", first, "ms")
    report("the same of three brokers", clusters, "ms")
    report("fresh topic", topics, "ms")
    report("memory", memory, "MB")


if __name__ == "__main__":
    main()
