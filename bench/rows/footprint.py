"""Memory: of an idle broker, after much data, and with many idle connections."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.process import cpu_ns, memory, settle
from bench.rows.row import Aim, Metric, Row, Values
from bench.rows.throughput import consume, produce
from bench.targets.target import Target

IDLE_CONNECTIONS: Final = 10_000
HELPERS: Final = 2
"""One process may have 20,000 descriptors, a busy broker's limit included."""
GIGABYTES: Final = 10
HELPER: Final = Path(__file__).parent.parent / "connections.py"


def idle(target: Target, topic: str, scale: float) -> Values:
    """Three seconds after it was ready, nothing asked of it."""
    del topic
    target.start()
    time.sleep(3 if scale >= 1 else 1)
    before_ns, start_ns = cpu_ns(target.pid), time.monotonic_ns()
    time.sleep(2 * scale)
    share = (cpu_ns(target.pid) - before_ns) / (time.monotonic_ns() - start_ns)
    used = memory(target.pid)
    return {
        "rss_mb": used.resident_bytes / 1e6,
        "anonymous_mb": used.anonymous_bytes / 1e6,
        "idle_cpu_percent": share * 100,
    }


def after_much_data(target: Target, topic: str, scale: float) -> Values:
    """10 GB written and read, a gigabyte and a topic at a time."""
    target.start()
    for step in range(max(1, round(GIGABYTES * scale))):
        name = f"{topic}-{step}"
        target.create_topic(name)
        produce(target, name, 1.0)
        consume(target, name, 1.0)
        target.delete_topic(name)
    settle(target.pid)
    used = memory(target.pid)
    return {
        "rss_mb": used.resident_bytes / 1e6,
        "anonymous_mb": used.anonymous_bytes / 1e6,
        "peak_mb": used.peak_bytes / 1e6,
    }


def _open(target: Target, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", str(HELPER), *map(str, (*target.address, count))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def connections(target: Target, topic: str, scale: float) -> Values:
    """What 10,000 connections cost that have asked for the API versions once and then rest."""
    del topic
    count = int(IDLE_CONNECTIONS * scale)
    target.start()
    with target.connect():
        settle(target.pid)
        time.sleep(1)
    before = memory(target.pid).resident_bytes
    start_ns = time.monotonic_ns()
    with ExitStack() as stack:
        helpers = [stack.enter_context(_open(target, count // HELPERS)) for _ in range(HELPERS)]
        for helper in helpers:
            assert helper.stdout is not None
            assert helper.stdout.readline() == "open\n", "the broker took all connections"
        opened_ms = (time.monotonic_ns() - start_ns) / 1e6
        settle(target.pid)
        delta = memory(target.pid).resident_bytes - before
        for helper in helpers:
            assert helper.stdin is not None
            helper.stdin.close()
    return {"delta_mb": delta / 1e6, "each_kb": delta / 1e3 / count, "opened_ms": opened_ms}


IDLE: Final = Row(
    key="idle_memory",
    title="Memory of an idle broker, 3 s after it is ready",
    measure=idle,
    metrics=(
        Metric("rss_mb", "resident MB", 0),
        Metric("anonymous_mb", "of it anonymous MB", 0),
        Metric("idle_cpu_percent", "CPU while idle %", 2),
    ),
    aims=(Aim("rss_mb", 45.0),),
    is_steady=False,
)
AFTER_DATA: Final = Row(
    key="loaded_memory",
    title="Memory after 10 GB were produced and consumed (1 KiB records, 1 GB a topic)",
    measure=after_much_data,
    metrics=(
        Metric("rss_mb", "resident MB", 0),
        Metric("anonymous_mb", "of it anonymous MB", 0),
        Metric("peak_mb", "peak MB", 0),
    ),
    aims=(Aim("rss_mb", 100.0),),
    targets=("odradek", "apache39", "apache43"),
    is_steady=False,
    notes=("tansu and the mock are left out: they keep data in memory, or none.",),
)
CONNECTIONS: Final = Row(
    key="connections",
    title="Memory that 10,000 idle connections add",
    measure=connections,
    metrics=(
        Metric("delta_mb", "more MB", 0),
        Metric("each_kb", "kB each", 2),
        Metric("opened_ms", "all open ms", 0),
    ),
    aims=(Aim("delta_mb", 150.0),),
    targets=("odradek", "apache39", "apache43", "tansu"),
    is_steady=False,
)

ROWS: Final = (IDLE, AFTER_DATA, CONNECTIONS)
