"""Many records through librdkafka: produced and consumed, with the CPU that a gigabyte costs."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from bench import clients
from bench.rows.row import CONSUMED, Aim, Metric, Row, Values
from bench.targets.target import Target

GIGABYTE: Final = 1_000_000_000
PARTS: Final = 4
"""Warm memory cools within half a second, so a long run is measured in parts."""
BATCH_BYTES: Final = 1_000_061
SPARE_BYTES: Final = 64 << 20
"""What broker and client take besides the data."""

RATES: Final = (
    Metric("mb_s", "MB/s", 0, more_is_better=True),
    Metric("rec_s", "records/s", 0, more_is_better=True),
    Metric("server_cpu_s_gb", "broker CPU s/GB", 3),
    Metric("client_cpu_s_gb", "client CPU s/GB", 3),
)


def produce(
    target: Target,
    topic: str,
    scale: float,
    *,
    size: int = 1024,
    total_bytes: int = GIGABYTE,
    partitions: int = 1,
    write_bytes: int = BATCH_BYTES,
    **settings: Any,
) -> Values:
    """`total_bytes` of random values, acks=1 and librdkafka's defaults but for `settings`.

    write_bytes  about what a broker will write at once
    """
    part_bytes = int(total_bytes * scale) // PARTS
    return clients.run(
        "bench",
        "produce",
        brokers=target.bootstrap,
        topic=topic,
        partitions=partitions,
        records=part_bytes // size * PARTS,
        size=size,
        parts=PARTS,
        warm_bytes=part_bytes + SPARE_BYTES,
        warm_path=target.directory,
        warm_step=write_bytes,
        server_pid=target.pid,
        timeout_s=300,
        settings={"acks": 1} | {key.replace("__", "."): value for key, value in settings.items()},
    )


def consume(
    target: Target,
    topic: str,
    scale: float,
    *,
    size: int = 1024,
    total_bytes: int = GIGABYTE,
    partitions: int = 1,
) -> Values:
    """Read the bytes that were written, from the beginning, without a group."""
    return clients.run(
        "bench",
        "consume",
        brokers=target.bootstrap,
        topic=topic,
        partitions=partitions,
        records=int(total_bytes * scale) // PARTS // size * PARTS,
        warm_bytes=2 * SPARE_BYTES,
        warm_path=target.directory,
        server_pid=target.pid,
        timeout_s=300,
    )


def _fill(target: Target, topic: str, scale: float, **options: Any) -> None:
    produce(target, topic, scale, **options)


SMALL: Final[dict[str, Any]] = {"size": 100, "total_bytes": GIGABYTE // 2}
SIX: Final[dict[str, Any]] = {"partitions": 6}

PRODUCE_1K: Final = Row(
    key="produce_1k",
    title="Produce 1 KiB records, librdkafka's default batches (1 MB), 1 partition, acks=1",
    measure=produce,
    metrics=RATES,
    aims=(
        Aim("mb_s", 2.0, "apache39"),
        Aim("mb_s", 2.0, "apache43"),
        Aim("server_cpu_s_gb", 0.3, "apache39"),
        Aim("server_cpu_s_gb", 0.3, "apache43"),
        Aim("mb_s", 0.55, "mock"),
        Aim("server_cpu_s_gb", 0.65),
    ),
)
PRODUCE_1K_6P: Final = Row(
    key="produce_1k_6p",
    title="Produce 1 KiB records, default batches, 6 partitions, acks=1",
    measure=partial(produce, **SIX),
    metrics=RATES,
    partitions=6,
)
PRODUCE_1K_LZ4: Final = Row(
    key="produce_1k_lz4",
    title="Produce 1 KiB records with lz4 (random values), default batches, 1 partition",
    measure=partial(produce, compression__codec="lz4"),
    metrics=RATES,
)
PRODUCE_16K: Final = Row(
    key="produce_16k",
    title="Produce 1 KiB records in batches of 16 KiB (batch.size=16384)",
    measure=partial(produce, total_bytes=GIGABYTE // 2, write_bytes=16_161, batch__size=16384),
    metrics=RATES,
    aims=(Aim("server_cpu_s_gb", 1.4),),
)
PRODUCE_100B: Final = Row(
    key="produce_100b",
    title="Produce records of 100 B, default batches, 1 partition",
    measure=partial(produce, **SMALL),
    metrics=RATES,
    aims=(Aim("rec_s", 0.8, "mock"),),
    notes=("Bound by the client: both cores are busy with librdkafka.",),
)
CONSUME_1K: Final = Row(
    key="consume_1k",
    title="Consume 1 KiB records from the beginning, 1 partition, data in the page cache",
    measure=consume,
    fill=_fill,
    metrics=RATES,
    targets=CONSUMED,
    aims=(
        Aim("mb_s", 1.5, "apache39"),
        Aim("mb_s", 1.5, "apache43"),
        Aim("server_cpu_s_gb", 1.5, "floor"),
        Aim("server_cpu_s_gb", 0.30),
    ),
)
CONSUME_100B: Final = Row(
    key="consume_100b",
    title="Consume records of 100 B, 1 partition",
    measure=partial(consume, **SMALL),
    fill=partial(_fill, **SMALL),
    metrics=RATES,
    targets=CONSUMED,
)

ROWS: Final = (
    PRODUCE_1K,
    PRODUCE_1K_6P,
    PRODUCE_1K_LZ4,
    PRODUCE_16K,
    PRODUCE_100B,
    CONSUME_1K,
    CONSUME_100B,
)
