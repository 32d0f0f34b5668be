"""Transactions through librdkafka, and what they cost beside plain idempotent produce."""

from __future__ import annotations

from typing import Any, Final

from bench import clients
from bench.rows.row import DURABLE, Aim, Metric, Row, Values
from bench.targets.target import Target

TRANSACTIONS: Final = 1_000
RECORDS_EACH: Final = 100
RECORD_BYTES: Final = 1_024
WARM_TRANSACTIONS: Final = 50
INTERVALS_MS: Final = (10, 100, 1_000)
SECONDS: Final = 1.0
"""Length of a run with idempotence, or with a commit interval of 100 ms or less."""
LONG_SECONDS: Final = 2.4
"""With the longest interval."""
QUEUE: Final = {"queue.buffering.max.messages": 20_000}
"""By default 100,000: then a run without commits touches new memory all the time, and is slower."""
MB_S_MAX: Final = 400
"""What a run may write at most, for the memory that is warmed before it."""


def _run(target: Target, topic: str, **options: Any) -> Values:
    settings = {"enable.idempotence": "true", "linger.ms": 5, **QUEUE} | options.pop("settings", {})
    return clients.run(
        "bench",
        "transactions",
        brokers=target.bootstrap,
        topic=topic,
        size=RECORD_BYTES,
        warm_path=target.directory,
        server_pid=target.pid,
        settings=settings,
        **options,
    )


def of_100_records(target: Target, topic: str, scale: float) -> Values:
    """One transaction after the other, each committed before the next begins."""
    count = max(20, int(TRANSACTIONS * scale))
    return _run(
        target,
        topic,
        count=count,
        each=RECORDS_EACH,
        warm=WARM_TRANSACTIONS,
        warm_bytes=count * RECORDS_EACH * RECORD_BYTES * 5 // 4,
        warm_step=RECORDS_EACH * RECORD_BYTES,
        settings={"transactional.id": topic, "linger.ms": 0},
    )


def intervals(target: Target, topic: str, scale: float) -> Values:
    """Write at full speed: idempotent, then in transactions that are committed in an interval."""
    plain = _run(
        target,
        topic,
        plain=1,
        interval_ms=SECONDS * scale * 1_000,
        seconds=SECONDS * scale,
        warm_bytes=int(SECONDS * scale * MB_S_MAX * 1e6),
    )
    values: Values = {"plain_mb_s": plain["mb_s"], "plain_cpu_s_gb": plain["server_cpu_s_gb"]}
    for interval_ms in INTERVALS_MS:
        seconds = (LONG_SECONDS if interval_ms == INTERVALS_MS[-1] else SECONDS) * scale
        run = _run(
            target,
            topic,
            interval_ms=interval_ms,
            seconds=seconds,
            warm_bytes=int(seconds * MB_S_MAX * 1e6),
            settings={"transactional.id": f"{topic}-{interval_ms}"},
        )
        values[f"share_{interval_ms}"] = 100 * run["mb_s"] / plain["mb_s"]
        values[f"mb_s_{interval_ms}"] = run["mb_s"]
        values[f"cpu_s_gb_{interval_ms}"] = run["server_cpu_s_gb"]
    return values


ROWS: Final = (
    Row(
        key="transactions_100",
        title="Transactions of 100 records of 1 KiB, one producer, one partition, librdkafka",
        measure=of_100_records,
        metrics=(
            Metric("txn_s", "transactions/s", 0, more_is_better=True),
            Metric("server_cpu_us_txn", "broker CPU us each", 0),
            Metric("p50_us", "p50 us", 0),
            Metric("p99_us", "p99 us", 0),
        ),
        targets=DURABLE,
        aims=(
            Aim("server_cpu_us_txn", 1_500.0),
            Aim("server_cpu_us_txn", 1.0, "apache39"),
            Aim("txn_s", 1.0, "apache39"),
        ),
    ),
    Row(
        key="transactions_interval",
        title="Produce 1 KiB records as fast as they go: idempotent, and in transactions that are "
        "committed every 10, 100 and 1,000 ms",
        measure=intervals,
        metrics=(
            Metric("plain_mb_s", "idempotent MB/s", 0, more_is_better=True),
            *(
                metric
                for interval_ms in INTERVALS_MS
                for metric in (
                    Metric(f"mb_s_{interval_ms}", f"{interval_ms} ms MB/s", 0, more_is_better=True),
                    Metric(f"share_{interval_ms}", "% of idempotent", 0, more_is_better=True),
                )
            ),
            Metric("plain_cpu_s_gb", "idempotent CPU s/GB", 2),
            *(
                Metric(f"cpu_s_gb_{interval_ms}", f"{interval_ms} ms CPU s/GB", 2)
                for interval_ms in INTERVALS_MS
            ),
        ),
        targets=DURABLE,
        aims=tuple(Aim(f"mb_s_{interval_ms}", 1.0, "apache39") for interval_ms in INTERVALS_MS),
    ),
)
