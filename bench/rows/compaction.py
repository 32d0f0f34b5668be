"""What a producer notices while a gigabyte beside it is compacted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench import clients, wire
from bench.process import settle
from bench.rows.row import Aim, Metric, Row, Values
from bench.targets.target import Target
from odradek.storage.checkpoints.checkpoint_file import CLEANER_OFFSET_FILE, decode_offsets

GIGABYTE: Final = 1_000_000_000
RECORD_BYTES: Final = 1_000
KEYS: Final = 100_000
SEGMENT_BYTES: Final = 64 << 20
RECORDS_A_RUN: Final = 2_000
"""A fifth of a second: short enough for many within a cleaning."""
RUNS_ALONE: Final = 10
WARM_RUNS: Final = 10
"""Most of all for a JVM."""
WAIT_S: Final = 180.0
NEVER: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1",
    "segment.bytes": str(SEGMENT_BYTES),
}


def compaction(target: Target, topic: str, scale: float) -> Values:
    """One record at a time on one topic: alone, while another one is compacted, and alone again."""
    # Linux shares processors among sessions first (autogroup): with one for the client and one for
    # the broker, a thread of the broker's costs the client more than any other broker's would.
    target.has_own_session = False
    try:
        target.start()
    finally:
        target.has_own_session = True
    keyed = f"{topic}-keyed"
    target.create_topic(topic)
    with target.connect() as connection:
        wire.create_topic(connection, keyed, 1, NEVER)
    _fill(target, keyed, scale)
    settle(target.pid)
    for _ in range(WARM_RUNS):
        _latency(target, topic)
    alone = [_latency(target, topic) for _ in range(RUNS_ALONE)]
    _alter(target, keyed, {"min.cleanable.dirty.ratio": "0"})
    started_s = _wait_for_work(target, keyed)
    beside = list(_while_cleaning(target, topic, keyed))
    elapsed_s = time.monotonic() - started_s
    settle(target.pid)
    alone += [_latency(target, topic) for _ in range(RUNS_ALONE)]
    values = {
        "p99_us": statistics.median(run["p99_us"] for run in beside),
        "p50_us": statistics.median(run["p50_us"] for run in beside),
        "alone_p99_us": statistics.median(run["p99_us"] for run in alone),
        "alone_p50_us": statistics.median(run["p50_us"] for run in alone),
        "cleaning_s": elapsed_s,
    }
    return values | {"p99_ratio": values["p99_us"] / values["alone_p99_us"]}


def _fill(target: Target, topic: str, scale: float) -> None:
    clients.run(
        "bench",
        "produce",
        brokers=target.bootstrap,
        topic=topic,
        records=int(GIGABYTE * scale) // RECORD_BYTES,
        size=RECORD_BYTES,
        keys=KEYS,
        timeout_s=300,
        settings={"acks": 1},
    )


def _latency(target: Target, topic: str) -> Values:
    return clients.run(
        "bench",
        "latency",
        brokers=target.bootstrap,
        topic=topic,
        records=RECORDS_A_RUN,
        size=100,
        server_pid=target.pid,
        settings={"acks": 1, "linger.ms": 0, "socket.nagle.disable": "true"},
    )


def _alter(target: Target, topic: str, changes: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changes.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def _is_cleaned(target: Target, topic: str) -> bool:
    path = target.data / CLEANER_OFFSET_FILE
    return path.exists() and decode_offsets(path.read_bytes()).get((topic, 0), 0) > 0


def _wait_for_work(target: Target, topic: str) -> float:
    """When the first cleaned file was there, s."""
    end_s = time.monotonic() + WAIT_S
    while not any((target.data / f"{topic}-0").glob("*.cleaned")):
        if time.monotonic() > end_s or _is_cleaned(target, topic):
            raise target.trouble(f"was not seen cleaning {topic}")
        time.sleep(0.002)
    return time.monotonic()


def _while_cleaning(target: Target, topic: str, keyed: str) -> Iterator[Values]:
    """Runs until the cleaning is done; one that it ended within counts only as the first."""
    end_s = time.monotonic() + WAIT_S
    count = 0
    while not _is_cleaned(target, keyed):
        if time.monotonic() > end_s:
            raise target.trouble(f"did not clean {keyed}")
        values = _latency(target, topic)
        if not count or not _is_cleaned(target, keyed):
            yield values
        count += 1


COMPACTION: Final = Row(
    key="compaction",
    title="One record at a time, acks=1, while 1 GB of 1 kB records with 100,000 keys is compacted",
    measure=compaction,
    metrics=(
        Metric("p99_ratio", "p99 / p99 alone", 2),
        Metric("p99_us", "p99 us", 0),
        Metric("alone_p99_us", "alone p99 us", 0),
        Metric("p50_us", "p50 us", 0),
        Metric("alone_p50_us", "alone p50 us", 0),
        Metric("cleaning_s", "second pass s", 1),
    ),
    aims=(Aim("p99_ratio", 1.5),),
    targets=("odradek", "apache39"),
    is_steady=False,
)

ROWS: Final = (COMPACTION,)
