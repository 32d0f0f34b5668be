"""What is measured on three brokers; each function gives figures by name."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import clients
from bench.cluster.members import BROKERS, Members, wait

GIGABYTE = 1_000_000_000
RECORD_BYTES = 1024
MANY_PARTITIONS = 1_000
IDLE_S = 10.0
SETTLE_S = 3.0

Values = dict[str, float]


def throughput(members: Members, scale: float) -> Values:
    """Produce with acks=all and idempotence to 6 partitions; CPU of all three brokers."""
    topic = f"load-{time.monotonic_ns()}"
    members.create_topic(topic, 6)
    size_bytes = int(GIGABYTE * scale)
    before_s = members.cpu_s()
    values = clients.run(
        "bench",
        "produce",
        brokers=members.bootstrap,
        topic=topic,
        partitions=6,
        records=size_bytes // RECORD_BYTES // 4 * 4,
        size=RECORD_BYTES,
        parts=4,
        warm_bytes=3 * size_bytes // 4,
        warm_path=members.directory,
        warm_step=1_000_061,
        timeout_s=600,
        settings={"acks": "all", "enable.idempotence": "true"},
    )
    cpu_s = members.cpu_s() - before_s
    return {"mb_s": values["mb_s"], "brokers_cpu_s_gb": cpu_s * GIGABYTE / size_bytes}


def latency(members: Members, scale: float) -> Values:
    """One record of 100 B at a time, acks=all."""
    topic = f"single-{time.monotonic_ns()}"
    members.create_topic(topic, 1)
    values = clients.run(
        "bench",
        "latency",
        brokers=members.bootstrap,
        topic=topic,
        records=int(10_000 * scale),
        size=100,
        settings={"acks": "all", "linger.ms": 0, "socket.nagle.disable": "true"},
    )
    return {name: values[name] for name in ("p50_us", "p99_us")}


class _Stall(threading.Thread):
    """Produces one record at a time; the longest time without an acknowledgement."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._is_ended = threading.Event()
        self.longest_s = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 50,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self._is_ended.is_set():
            start_s = time.monotonic()
            self._producer.produce(self._topic, b"x" * 100, partition=0)
            self._producer.flush(60)
            self.longest_s = max(self.longest_s, time.monotonic() - start_s)

    def end(self) -> float:
        self._is_ended.set()
        self.join(60)
        return self.longest_s


def _leader(members: Members, topic: str) -> int:
    broker_id: int = (
        members.admin().list_topics(topic, timeout=5).topics[topic].partitions[0].leader
    )
    return broker_id


def _stall(members: Members, how: signal.Signals) -> float:
    topic = f"stall-{time.monotonic_ns()}"
    members.create_topic(topic, 1)
    admin = members.admin()
    wait(lambda: members.in_sync(admin, topic) == 1)
    sender = _Stall(members.bootstrap, topic)
    sender.start()
    time.sleep(1)
    leader = _leader(members, topic)
    sender.longest_s = 0.0
    members.end(leader, how)
    wait(lambda: _leader(members, topic) not in (leader, -1))
    time.sleep(1)
    longest_s = sender.end()
    members.start([leader])
    wait(lambda: members.in_sync(admin, topic) == 1)
    return longest_s


def moves(members: Members, scale: float) -> Values:
    """The longest time without an acknowledgement when the leader is killed, and when it stops."""
    del scale
    return {
        "kill_stall_s": _stall(members, signal.SIGKILL),
        "shutdown_stall_s": _stall(members, signal.SIGTERM),
    }


def many(members: Members, scale: float) -> Values:
    """A topic of many partitions: created, failed over, back in sync; memory and idle CPU."""
    partitions = int(MANY_PARTITIONS * scale)
    topic = f"many-{time.monotonic_ns()}"
    admin = members.admin()
    values = {"create_s": members.create_topic(topic, partitions)}
    values["in_sync_s"] = wait(lambda: members.in_sync(admin, topic) == partitions)
    time.sleep(SETTLE_S)
    values["resident_mb"] = max(members.resident_mb())
    before_s = members.cpu_s()
    time.sleep(IDLE_S)
    values["idle_cpu_percent"] = 100 * (members.cpu_s() - before_s) / IDLE_S / len(BROKERS)
    victim = _leader(members, topic)
    start_s = time.monotonic()
    members.signal(victim, signal.SIGKILL)
    wait(lambda: members.led(admin, topic) == partitions)
    values["failover_s"] = time.monotonic() - start_s
    start_s = time.monotonic()
    members.start([victim])
    wait(lambda: members.in_sync(admin, topic) == partitions)
    values["back_in_sync_s"] = time.monotonic() - start_s
    return values


MEASURES: dict[str, Any] = {
    "throughput": throughput,
    "latency": latency,
    "moves": moves,
    "many": many,
}
FOLDER = Path("cluster")
