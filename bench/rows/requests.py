"""Small requests: many in flight, and one at a time."""

from __future__ import annotations

from functools import partial
from typing import Final

from bench import clients
from bench.rows.row import Aim, Metric, Row, Values
from bench.targets.target import Target

LATENCY_RECORDS: Final = 20_000
PIPELINE_S: Final = 3.0
PARTS: Final = 6

RATE: Final = (
    Metric("req_s", "requests/s", 0, more_is_better=True),
    Metric("server_cpu_us_req", "broker CPU us each", 2),
    Metric("p50_us", "p50 us", 0),
    Metric("p99_us", "p99 us", 0),
)
TIMES: Final = (
    Metric("p50_us", "p50 us", 0),
    Metric("p99_us", "p99 us", 0),
    Metric("p999_us", "p99.9 us", 0),
    Metric("server_cpu_us_rec", "broker CPU us each", 1),
)


def pipeline(
    target: Target,
    topic: str,
    scale: float,
    *,
    size: int = 100,
    batch_records: int = 1,
    connections: int = 4,
    depth: int = 8,
    warm_bytes: int = 48 << 20,
    write_bytes: int = 2_731,
) -> Values:
    """Pre-built requests on raw sockets, `depth` in flight on each.

    warm_bytes   what a part of half a second may write
    write_bytes  about what a broker will write at once
    """
    return clients.run(
        "pipeline",
        port=target.port,
        topic=topic,
        connections=connections,
        depth=depth,
        size=size,
        batch_records=batch_records,
        seconds=PIPELINE_S * scale,
        parts=PARTS,
        warm_bytes=warm_bytes,
        warm_path=target.directory,
        warm_seconds=max(0.2, scale),
        server_pid=target.pid,
    )


def one_record_batches(target: Target, topic: str, scale: float) -> Values:
    """librdkafka with batch.num.messages=1: one request per record, five in flight and more."""
    values = clients.run(
        "bench",
        "produce",
        brokers=target.bootstrap,
        topic=topic,
        records=int(40_000 * scale),
        size=100,
        warm_bytes=32 << 20,
        warm_path=target.directory,
        warm_step=2_731,
        server_pid=target.pid,
        settings={"acks": 1, "batch.num.messages": 1},
    )
    return {"req_s": values["rec_s"], "server_cpu_us_req": values["server_cpu_us_rec"]}


def latency(target: Target, topic: str, scale: float) -> Values:
    """librdkafka, linger 0, each record awaited before the next."""
    return clients.run(
        "bench",
        "latency",
        brokers=target.bootstrap,
        topic=topic,
        records=int(LATENCY_RECORDS * scale),
        size=100,
        server_pid=target.pid,
        settings={"acks": 1, "linger.ms": 0, "socket.nagle.disable": "true"},
    )


def raw_latency(target: Target, topic: str, scale: float) -> Values:
    """One connection, one request at a time, no client library and no thread switch."""
    values = pipeline(target, topic, scale, connections=1, depth=1)
    return values | {"server_cpu_us_rec": values["server_cpu_us_req"]}


LATENCY: Final = Row(
    key="latency",
    title="One record of 100 B at a time, acks=1, librdkafka",
    measure=latency,
    metrics=TIMES,
    aims=(
        Aim("p50_us", 0.8, "apache39"),
        Aim("p50_us", 0.8, "apache43"),
        Aim("p99_us", 0.8, "apache39"),
        Aim("p99_us", 0.8, "apache43"),
        Aim("p50_us", 1.4, "mock"),
    ),
)
LATENCY_RAW: Final = Row(
    key="latency_raw",
    title="One record of 100 B at a time, acks=1, raw socket",
    measure=raw_latency,
    metrics=TIMES,
)
PIPELINED_100B: Final = Row(
    key="pipelined_100b",
    title="Requests of one 100 B record, raw sockets, 4 connections, 8 in flight on each",
    measure=pipeline,
    metrics=RATE,
    aims=(
        Aim("server_cpu_us_req", 12.0),
        Aim("req_s", 5.0, "apache39"),
        Aim("req_s", 5.0, "apache43"),
    ),
)
PIPELINED_1K: Final = Row(
    key="pipelined_1k",
    title="Requests of one 1 KiB record, raw sockets, 4 connections, 8 in flight on each",
    measure=partial(pipeline, size=1024, warm_bytes=128 << 20, write_bytes=5_461),
    metrics=RATE,
)
PIPELINED_16X1K: Final = Row(
    key="pipelined_16x1k",
    title="Requests of one batch of 16 x 1 KiB, raw sockets, 4 connections, 8 in flight on each",
    measure=partial(
        pipeline, size=1024, batch_records=16, warm_bytes=600 << 20, write_bytes=65_639
    ),
    metrics=(*RATE, Metric("mb_s", "MB/s", 0, more_is_better=True)),
)
PIPELINED_LIBRDKAFKA: Final = Row(
    key="pipelined_librdkafka",
    title="Batches of one 100 B record, librdkafka (batch.num.messages=1), pipelined",
    measure=one_record_batches,
    metrics=RATE[:2],
    aims=(
        Aim("server_cpu_us_req", 12.0),
        Aim("req_s", 5.0, "apache39"),
        Aim("req_s", 5.0, "apache43"),
    ),
)

ROWS: Final = (
    PIPELINED_100B,
    PIPELINED_1K,
    PIPELINED_16X1K,
    PIPELINED_LIBRDKAFKA,
    LATENCY,
    LATENCY_RAW,
)
