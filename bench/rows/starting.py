"""How long a broker takes from its process to its first acknowledged record."""

from __future__ import annotations

import time
from typing import Final

from bench import clients, wire
from bench.rows.row import DURABLE, EVERYONE, Aim, Metric, Row, Values
from bench.targets.target import READY_TIMEOUT_S, Target, TargetError

MANY_PARTITIONS: Final = 1000
POLL_S: Final = 0.001


def _elapsed_ms(target: Target) -> float:
    return (time.monotonic_ns() - target.spawned_ns) / 1e6


def _wait_for_response(target: Target, topic: str, partitions: int, *, create: bool) -> Values:
    """Wait until a record is acknowledged by the last partition.

    Returns the times since the process was spawned: when the broker listened, when all partitions
    had a leader, and when the record was acknowledged.
    """
    values: Values = {}
    end_s = time.monotonic() + READY_TIMEOUT_S
    with target.connect() as connection:
        values["listening_ms"] = _elapsed_ms(target)
        while True:
            errors = wire.metadata(connection, topic, create=create)[1]
            if len(errors) >= partitions and not any(errors.values()):
                break
            if time.monotonic() > end_s:
                raise TargetError(f"{target.key}: {topic} has no leaders: {errors}")
            time.sleep(POLL_S)
        values["led_ms"] = _elapsed_ms(target)
        while wire.produce(connection, topic, b"first", partition=partitions - 1):
            if time.monotonic() > end_s:
                raise TargetError(f"{target.key}: {topic} takes no record")
            time.sleep(POLL_S)
        values["first_ack_ms"] = _elapsed_ms(target)
    return values


def start(target: Target, topic: str, scale: float) -> Values:
    """An empty directory, a topic that comes into being by being asked for."""
    del scale
    target.spawn()
    return _wait_for_response(target, topic, 1, create=True)


def start_with_partitions(target: Target, topic: str, scale: float) -> Values:
    """A directory with 1,000 partitions, left by a clean stop and by a kill."""
    partitions = max(10, int(MANY_PARTITIONS * scale))
    target.start()
    start_ns = time.monotonic_ns()
    target.create_topic(topic, partitions)
    values = {"create_ms": (time.monotonic_ns() - start_ns) / 1e6}
    clients.run(
        "bench",
        "produce",
        brokers=target.bootstrap,
        topic=topic,
        partitions=partitions,
        records=500 * partitions,
        size=100,
        settings={"acks": 1},
    )
    start_ns = time.monotonic_ns()
    target.stop()
    values["stop_ms"] = (time.monotonic_ns() - start_ns) / 1e6
    target.spawn()
    values |= _wait_for_response(target, topic, partitions, create=False)
    target.kill()
    target.spawn()
    killed = _wait_for_response(target, topic, partitions, create=False)
    return values | {"after_kill_ms": killed["first_ack_ms"]}


START: Final = Row(
    key="start",
    title="From process start to the first acknowledged record, empty directory",
    measure=start,
    metrics=(Metric("first_ack_ms", "first ack ms", 0), Metric("listening_ms", "listening ms", 0)),
    aims=(Aim("first_ack_ms", 200.0),),
    targets=EVERYONE,
    is_steady=False,
    notes=("ZooKeeper runs already, KRaft's directory is formatted already; neither is timed.",),
)
PARTITIONS: Final = Row(
    key="partitions",
    title="Start on a directory of 1,000 partitions, until all are led and the last took a record",
    measure=start_with_partitions,
    metrics=(
        Metric("first_ack_ms", "after a clean stop ms", 0),
        Metric("after_kill_ms", "after kill -9 ms", 0),
        Metric("listening_ms", "listening ms", 0),
        Metric("create_ms", "creating them ms", 0),
        Metric("stop_ms", "clean stop ms", 0),
    ),
    aims=(Aim("first_ack_ms", 3000.0),),
    targets=DURABLE,
    is_steady=False,
    notes=("With ZooKeeper, the wait after kill -9 until the old session expires is not timed.",),
)

ROWS: Final = (START, PARTITIONS)
