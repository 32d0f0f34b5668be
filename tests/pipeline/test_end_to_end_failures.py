"""What goes wrong is told in one line, and nothing is lost by it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from odradek.pipeline.failures import PartFailed
from odradek.pipeline.jobs import life, reach, run
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.model import Pipeline
from tests.pipeline.crashes import READ_TIMEOUT_S, create_topics
from tests.pipeline.test_run import payment, produce
from tests.support.broker_process import BrokerProcess
from tests.support.processes import free_port

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


def ran(spark: SparkSession, broker: BrokerProcess, folder: Path, **changes: str) -> Pipeline:
    """Write the file and run it to its end."""
    text = FILE.format(address=broker.address, **{**DEFAULTS, **changes})
    (folder / "shop.toml").write_text(text)
    pipeline = parse(text, folder / "shop.toml")
    built = run.build(spark, pipeline, folder)
    run.wait(pipeline, run.start_stream(pipeline, built, folder))
    return pipeline


def said(
    failed: pytest.ExceptionInfo[PartFailed], folder: Path, place: str = "line 30: sinks.stored"
) -> str:
    """The line that the command prints, after file and place."""
    line = failed.value.told(folder / "shop.toml")
    assert "\n" not in line
    assert line.startswith(f"{folder}/shop.toml: {place}: ")
    return line.partition(f"{place}: ")[2]


def test_a_topic_that_does_not_exist(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, topic="nowhere")
    line = said(failed, tmp_path, TOPICS)
    assert line == "topic 'nowhere' does not exist on cluster main"


def test_records_that_are_gone_and_a_topic_deleted(
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
    line = said(failed, tmp_path, TOPICS)
    assert line == f"topic {topic!r} does not exist on cluster main"
    create_topics(broker.address, topic, partitions=1)
    produce(broker.address, topic, [payment(number) for number in range(2)])
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, topic=topic)
    line = said(failed, tmp_path, "line 9: sources.rows")
    assert "records are gone before they were read: Partition short-lived-0 offset" in line
    assert "fail_on_data_loss = false" in line


def test_other_columns_than_the_checkpoint_and_the_table_hold(
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
    assert "the columns of a step that remembers have changed" in said(failed, tmp_path)
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, **window, aggregates='many = "count(*)"')
    assert said(failed, tmp_path) == (
        "table stored has no column many; it has: window_start, window_end, merchant, n"
    )
    # The batch that failed is not lost: the file as it was reads it.
    ran(spark, broker, tmp_path, **window)


def test_what_the_database_refuses(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    """An error with a long Java stack trace: the query must not end as if all were well."""
    create_topics(broker.address, "refused", partitions=1)
    produce(broker.address, "refused", [payment(1)])
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
        database.execute("CREATE TABLE stored (timestamp, offset, merchant, amount)")
    with pytest.raises(PartFailed) as failed:
        ran(spark, broker, tmp_path, topic="refused")
    line = said(failed, tmp_path)
    assert line.startswith(f"table stored of jdbc:sqlite:{tmp_path}/rows.db: ")
    assert "ON CONFLICT clause does not match any PRIMARY KEY" in line


def test_a_checkpoint_of_another_pipeline(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "mine", partitions=1)
    ran(spark, broker, tmp_path, topic="mine")
    with pytest.raises(run.WrongCheckpoint, match="is the checkpoint of pipeline 'shop'"):
        ran(spark, broker, tmp_path, topic="mine", name="another")
    (tmp_path / "state" / run.IDENTITY).write_text("")
    with pytest.raises(run.WrongCheckpoint, match=r"pipeline\.json.* cannot be read"):
        ran(spark, broker, tmp_path, topic="mine")


def test_what_can_be_told_before_spark_starts(
    broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No broker, a port that is taken, a checkpoint in use: at once, and with an exit code."""
    path = tmp_path / "shop.toml"
    nobody = f"127.0.0.1:{free_port()}"
    away = parse(FILE.format(address=nobody, **DEFAULTS), path)
    with pytest.raises(reach.Unreachable, match=rf"clusters.main: no broker answers: {nobody}: "):
        reach.check_clusters(away.clusters.items(), timeout_s=0.3)
    here = parse(FILE.format(address=f"{nobody}, {broker.address}", **DEFAULTS), path)
    reach.check_clusters(here.clusters.items(), timeout_s=0.3)

    taken = life.Choices(metrics=("127.0.0.1", broker.port))
    assert life.run_file(here, path, taken) == life.BAD_COMMAND
    line = capsys.readouterr().err
    assert line == (
        f"{path}: --metrics-port: 127.0.0.1:{broker.port} cannot be had: Address already in use\n"
    )
    with life.held(tmp_path / "state"):
        assert life.run_file(here, path, life.Choices()) == life.FAILED
    line = capsys.readouterr().err
    assert line == f"{path}: another process runs on the checkpoint {tmp_path}/state\n"
