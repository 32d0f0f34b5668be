"""Jobs as processes: killed, stopped, and without their broker for a while."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from time import monotonic
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import parse
from tests.pipeline.crashes import (
    FILE,
    START_TIMEOUT_S,
    Orders,
    await_none,
    campaign,
    create_topics,
    read_topic,
)
from tests.support.broker_process import odradek_broker
from tests.support.pipeline_job import END_TIMEOUT_S, PipelineJob
from tests.support.ports import free_port

SEED = 20261121


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_job_writes_each_record_once(spark: SparkSession, tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        report = campaign(broker.address, tmp_path, spark, kills=1, seed=SEED)
    assert report.records > 0
    assert sum(report.victims.values()) == 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_job_killed_twenty_times_writes_each_record_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with odradek_broker(tmp_path) as broker:
        report = campaign(broker.address, tmp_path, spark, kills=20, seed=SEED)
    print(report)
    assert sum(report.victims.values()) == 20


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_job_whose_sinks_share_a_query_writes_each_record_once_when_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with odradek_broker(tmp_path) as broker:
        report = campaign(broker.address, tmp_path, spark, kills=5, seed=SEED, is_shared=True)
    print(report)
    assert sum(report.victims.values()) == 5


@pytest.mark.timeout(1200)
@pytest.mark.slow
def test_stopped_job_leaves_no_process(tmp_path: Path) -> None:
    """SIGTERM to Python only, as a service manager sends it; SIGINT to all, as a terminal does."""
    with odradek_broker(tmp_path) as broker:
        create_topics(broker.address, "orders", "copied")
        file = tmp_path / "orders.toml"
        file.write_text(FILE.format(address=broker.address))
        orders = Orders(broker.address)
        try:
            port = free_port()
            job = PipelineJob(
                file, log=tmp_path / "first.log", arguments=["--metrics-port", str(port)]
            )
            try:
                job.process.wait_for_line(r"^stored: batch \d+", timeout_s=START_TIMEOUT_S)
                assert job.java_pids(), "the job has a Java process"
                with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=END_TIMEOUT_S) as response:
                    assert b'odradek_pipeline_running{query="stored"} 1.0' in response.read()
                other = PipelineJob(file, log=tmp_path / "other.log")
                assert other.wait() == 1
                assert "another process uses the checkpoint" in other.process.tail()
                assert job.process.stop(timeout_s=END_TIMEOUT_S) == 0
                await_none(job)
                assert "Traceback" not in job.process.tail()
            finally:
                job.close()
            job = PipelineJob(file, log=tmp_path / "second.log")
            try:
                job.process.wait_for_line(r"^stored: batch \d+", timeout_s=START_TIMEOUT_S)
                os.killpg(job.process.pid, signal.SIGINT)
                assert job.wait() == 0
                await_none(job)
                assert "Traceback" not in job.process.tail()
            finally:
                job.close()
        finally:
            orders.end()


BROKER_DIES = """\
[pipeline]
name = "copies"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "{address}"

[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["orders"]
max_offsets_per_trigger = 200

[sinks.copied]
kind = "kafka"
from = "orders"
cluster = "main"
topic = "copied"
value = "value"
"""


@pytest.mark.timeout(1200)
def test_query_continues_after_its_broker_was_killed_and_restarted(
    spark: SparkSession, tmp_path: Path
) -> None:
    with odradek_broker(tmp_path) as broker:
        create_topics(broker.address, "orders", "copied")
        pipeline = parse(BROKER_DIES.format(address=broker.address), tmp_path / "copies.toml")
        orders = Orders(broker.address)
        (query,) = run.start_stream(run.build(spark, pipeline, tmp_path))
        try:
            for _ in range(3):
                wait_until_copied(broker.address, orders.count + 1, query)
                broker.kill()
                broker.start()
            count = orders.end()
            wait_until_copied(broker.address, count, query)
        finally:
            orders.end()
            query.stop()
        assert query.exception() is None
        numbers = {json.loads(content)["id"] for content in read_topic(broker.address, "copied")}
        assert numbers == set(range(count))


def copied(address: str) -> int:
    """The number of distinct records that the sink has written."""
    return len(set(read_topic(address, "copied")))


def wait_until_copied(address: str, count: int, query: StreamingQuery) -> None:
    """Wait until the sink has written `count` distinct records; the query must be active."""
    deadline_s = monotonic() + 2 * END_TIMEOUT_S
    while copied(address) < count:
        assert query.isActive, query.exception()
        assert monotonic() < deadline_s, query.lastProgress
        query.awaitTermination(1)
