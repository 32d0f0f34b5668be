"""Failures are reported in one line, and no record is lost by them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import lifecycle, reachability, run
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.model import PipelineSpec
from tests.pipeline.crashes import READ_TIMEOUT_S, create_topics
from tests.pipeline.mirroring import create
from tests.pipeline.topics import payment, produce
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

FILE = """\
[pipeline]
name = "{name}"
checkpoint = "state"
mode = "available_now"

[clusters.main]
bootstrap_servers = "{address}"

[sources.rows]
kind = "kafka"
cluster = "main"
subscribe = ["{topic}"]

[steps.parsed]
kind = "parse"
from = "rows"
format = "json"
schema = "merchant STRING, amount DOUBLE"
keep = ["timestamp", "offset"]

[steps.totals]
kind = "window"
from = "parsed"
time = "timestamp"
watermark = "1 hour"
length = "1 hour"
group_by = ["merchant"]
aggregates = {{ {aggregates} }}

[sinks.{sink}]
kind = "jdbc"
from = "{end}"
url = "jdbc:sqlite:rows.db"
table = "{sink}"
keys = ["{key}"]
output_mode = "update"
"""
TOPICS = "line 12: sources.rows.subscribe"
DEFAULTS = {
    "name": "shop",
    "topic": "shop",
    "aggregates": 'n = "count(*)"',
    "sink": "stored",
    "end": "parsed",
    "key": "offset",
}


def ran(spark: SparkSession, broker: BrokerProcess, folder: Path, **changes: str) -> PipelineSpec:
    """Write the pipeline file and run it to its end."""
    text = FILE.format(address=broker.address, **{**DEFAULTS, **changes})
    (folder / "shop.toml").write_text(text)
    pipeline = parse(text, folder / "shop.toml")
    built = run.build(spark, pipeline, folder)
    run.wait(pipeline, run.start_stream(built))
    return pipeline


def last_line(
    failed: pytest.ExceptionInfo[PartFailed], folder: Path, place: str = "line 30: sinks.stored"
) -> str:
    """The message that the command prints after file and place."""
    line = failed.value.line_of(folder / "shop.toml")
    assert "\n" not in line
    assert line.startswith(f"{folder}/shop.toml: {place}: ")
    return line.partition(f"{place}: ")[2]


def test_missing_topic_fails_the_source_by_name(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, topic="nowhere")
    line = last_line(failed, tmp_path, TOPICS)
    assert line == "topic 'nowhere' does not exist on cluster main"


def test_deleted_records_and_a_deleted_topic_fail_the_source(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = "short-lived"
    create_topics(broker.address, topic, partitions=1)
    produce(broker.address, topic, [payment(number) for number in range(5)])
    ran(spark, broker, tmp_path, topic=topic)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([topic])[topic].result(READ_TIMEOUT_S)
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, topic=topic)
    line = last_line(failed, tmp_path, TOPICS)
    assert line == f"topic {topic!r} does not exist on cluster main"
    create(broker.address, topic, 1, {"retention.ms": "-1"})
    produce(broker.address, topic, [payment(number) for number in range(2)])
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, topic=topic)
    line = last_line(failed, tmp_path, "line 9: sources.rows")
    assert "records were deleted before they were read: Partition short-lived-0 offset" in line
    assert "fail_on_data_loss = false" in line


def test_columns_that_differ_from_checkpoint_or_table_fail_the_sink(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = "changes"
    create_topics(broker.address, topic, partitions=1)
    produce(broker.address, topic, [payment(number) for number in range(5)])
    window = {"topic": topic, "end": "totals", "key": "window_start"}
    ran(spark, broker, tmp_path, **window)
    produce(broker.address, topic, [payment(number) for number in range(5)])
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, **window, aggregates='n = "count(*)", sum = "sum(amount)"')
    assert "the columns of a step with state have changed" in last_line(failed, tmp_path)
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, **window, aggregates='many = "count(*)"')
    assert last_line(failed, tmp_path) == (
        "table stored has no column many; it has: window_start, window_end, merchant, n"
    )
    # The failed batch is not lost: the unchanged file processes it.
    ran(spark, broker, tmp_path, **window)


def test_error_of_the_database_fails_the_sink(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    """An error with a long Java stack trace: the query must fail."""
    create_topics(broker.address, "refused", partitions=1)
    produce(broker.address, "refused", [payment(1)])
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
        database.execute("CREATE TABLE stored (timestamp, offset, merchant, amount)")
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, topic="refused")
    line = last_line(failed, tmp_path)
    assert line.startswith(f"table stored of jdbc:sqlite:{tmp_path}/rows.db: ")
    assert "ON CONFLICT clause does not match any PRIMARY KEY" in line


def test_checkpoint_of_another_pipeline_is_rejected(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "mine", partitions=1)
    ran(spark, broker, tmp_path, topic="mine")
    with pytest.raises(run.WrongCheckpoint, match="is the checkpoint of pipeline 'shop'"):
        ran(spark, broker, tmp_path, topic="mine", name="another")
    (tmp_path / "state" / run.IDENTITY).write_text("")
    with pytest.raises(run.WrongCheckpoint, match=r"pipeline\.json.* cannot be read"):
        ran(spark, broker, tmp_path, topic="mine")


def test_unreachable_cluster_used_port_and_used_checkpoint_fail_before_spark_starts(
    broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of these fails at once, with an exit code."""
    path = tmp_path / "shop.toml"
    unused = f"127.0.0.1:{free_port()}"
    away = parse(FILE.format(address=unused, **DEFAULTS), path)
    with pytest.raises(
        reachability.Unreachable, match=rf"clusters.main: no broker responds: {unused}: "
    ):
        reachability.check_clusters(away.clusters.items(), timeout_s=0.3)
    here = parse(FILE.format(address=f"{unused}, {broker.address}", **DEFAULTS), path)
    reachability.check_clusters(here.clusters.items(), timeout_s=60.0)

    taken = lifecycle.Choices(metrics=("127.0.0.1", broker.port))
    assert lifecycle.run_file(here, path, taken) == lifecycle.BAD_COMMAND
    line = capsys.readouterr().err
    assert line == (
        f"{path}: --metrics-port: 127.0.0.1:{broker.port} cannot be used: Address already in use\n"
    )
    with lifecycle.locked(tmp_path / "state"):
        assert lifecycle.run_file(here, path, lifecycle.Choices()) == lifecycle.FAILED
    line = capsys.readouterr().err
    assert line == f"{path}: another process uses the checkpoint {tmp_path}/state\n"
