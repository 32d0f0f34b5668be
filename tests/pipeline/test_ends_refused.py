"""Sources and sinks that cannot work: the error names them, before rows are lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from odradek.pipeline.cli import main
from odradek.pipeline.jobs import lifecycle, run
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.sinks.records import records
from odradek.pipeline.spark.connectors import NoConnector
from odradek.pipeline.spark.session import open_session
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.sinks import KafkaSink
from tests.pipeline.crashes import create_topics
from tests.pipeline.feeding import feed, in_batch
from tests.pipeline.topics import consume, payment, produce
from tests.support.broker_process import BrokerProcess, odradek_broker

HEAD = """\
[pipeline]
name = "ends"
mode = "{mode}"
checkpoint = "state"
"""
KAFKA = """\
[clusters.main]
bootstrap_servers = "{address}"
[sources.rows]
kind = "kafka"
cluster = "main"
{source}
"""
CONSOLE = '[sinks.out]\nkind = "console"\nfrom = "rows"\n'


def run_text(spark: SparkSession, folder: Path, text: str) -> None:
    """Run a pipeline as the command does."""
    pipeline = parse(text, folder / "my.toml")
    built = run.build(spark, pipeline, folder)
    if pipeline.pipeline.mode == "batch":
        run.run_batch(built)
    else:
        run.wait(pipeline, run.start_stream(built))


def refused(spark: SparkSession, folder: Path, text: str) -> str:
    """The error of a file that passes the check."""
    path = folder / "my.toml"
    path.write_text(text)
    with pytest.raises(PartFailed) as failed:
        run_text(spark, folder, text)
    return failed.value.line_of(path).removeprefix(f"{path}: ")


PARSE = """\
[steps.parsed]
kind = "parse"
from = "rows"
format = "json"
schema = "merchant STRING"
rejects = "{rejects}"
rejects_cluster = "main"
[sinks.out]
kind = "kafka"
from = "parsed"
cluster = "main"
topic = "{topic}"
"""


def test_missing_topic_is_reported_at_its_place_in_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also for a sink, if the cluster creates no topics; Spark would retry for a minute."""
    with odradek_broker(tmp_path, overrides={"auto.create.topics.enable": "false"}) as broker:
        create_topics(broker.address, "here", "there", partitions=2)
        head = HEAD.format(mode="available_now")
        for source, topic, rejects, message in (
            (
                'subscribe = ["here", "nowhere"]',
                *("here", "there"),
                "line 10: sources.rows.subscribe: topic 'nowhere' does not exist on cluster main",
            ),
            (
                "assign = { here = [0, 7] }",
                *("here", "there"),
                "line 10: sources.rows.assign: topic 'here' has 2 partitions, so no 7",
            ),
            (
                'subscribe = ["here"]',
                *("nowhere", "there"),
                "line 22: sinks.out.topic: topic 'nowhere' does not exist on cluster main, which"
                " makes none",
            ),
            (
                'subscribe = ["here"]',
                *("there", "nowhere"),
                "line 16: steps.parsed.rejects: topic 'nowhere' does not exist on cluster main,"
                " which makes none",
            ),
        ):
            text = head + KAFKA.format(address=broker.address, source=source)
            text += PARSE.format(topic=topic, rejects=rejects)
            assert refused(spark, tmp_path, text) == message


def test_missing_sink_topic_is_accepted_when_the_cluster_creates_topics(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "made-source", partitions=1)
    produce(broker.address, "made-source", [payment(1), b"garbage"])
    text = HEAD.format(mode="batch")
    text += KAFKA.format(address=broker.address, source='subscribe = ["made-source"]')
    run_text(spark, tmp_path, text + PARSE.format(topic="made", rejects="made-rejected"))
    assert [value for _, value, _ in consume(broker.address, "made", 1)] == [b'{"merchant":"m1"}']
    assert [value for _, value, _ in consume(broker.address, "made-rejected", 1)] == [b"garbage"]


@pytest.mark.parametrize("mode", ["available_now", "batch"])
def test_invalid_offsets_and_patterns_fail_the_source(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, mode: str
) -> None:
    topic = f"offsets-{mode}"
    create_topics(broker.address, topic, partitions=2)
    produce(broker.address, topic, [payment(number) for number in range(4)])
    head = HEAD.format(mode=mode)

    def refusal(source: str) -> str:
        text = head + KAFKA.format(address=broker.address, source=source) + CONSOLE
        return refused(spark, tmp_path, text)

    subscribe = (
        'options = { "fetchOffset.numRetries" = 1 }\n'
        f'subscribe = ["{topic}"]\nstarting_offsets = {{ {topic} = '
    )
    assert refusal(f"{subscribe}{{ 0 = 0 }} }}").startswith(
        "line 7: sources.rows: starting_offsets and ending_offsets must name every partition"
    )
    beyond = refusal(f"{subscribe}{{ 0 = 900, 1 = 0 }} }}")
    assert beyond.startswith("line 7: sources.rows: ")
    assert "900" in beyond
    assert "records were deleted" not in beyond
    assert refusal('pattern = "("') == "line 7: sources.rows: Unclosed group near index 1"


def test_partition_without_records_since_a_time_starts_at_its_end(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "quiet", partitions=2)
    produce(broker.address, "quiet", [payment(1)])
    source = 'subscribe = ["quiet"]\nstarting_timestamp_ms = 4_000_000_000_000'
    text = HEAD.format(mode="batch") + KAFKA.format(address=broker.address, source=source)
    pipeline = parse(text + CONSOLE, tmp_path / "my.toml")
    assert run.build(spark, pipeline, tmp_path).outputs["out"][0].collect() == []


FILES = """\
[sources.rows]
kind = "files"
path = "rows"
format = "json"
schema = "n INT"
[sinks.lock]
kind = "files"
from = "rows"
path = "out"
format = "json"
"""


def test_new_checkpoint_with_an_old_folder_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Spark skips batches whose numbers are in the folder's commit log."""
    text = HEAD.format(mode="available_now") + FILES
    feed(tmp_path / "rows", [[{"n": 1}]])
    with lifecycle.locked(tmp_path / "state"):
        run_text(spark, tmp_path, text)
        feed(tmp_path / "rows", [[{"n": 2}]], first=1)
        run_text(spark, tmp_path, text)
    assert sorted(row.n for row in spark.read.json(str(tmp_path / "out")).collect()) == [1, 2]
    shutil.rmtree(tmp_path / "state")
    message = refused(spark, tmp_path, text)
    assert message.startswith(
        f"line 10: sinks.lock: {tmp_path}/out holds files of batches up to 1 "
    )
    batch = HEAD.format(mode="batch") + FILES
    expected = "line 10: sinks.lock: out holds the files of a stream, whose readers see no others"
    assert refused(spark, tmp_path, batch) == expected
    run_text(spark, tmp_path, text.replace('"out"', '"again"'))
    assert sorted(row.n for row in spark.read.json(str(tmp_path / "again")).collect()) == [1, 2]


def table(url: str, options: str = "") -> str:
    """A pipeline file that reads a table of a database."""
    return (
        HEAD.format(mode="batch")
        + f'[sources.rows]\nkind = "jdbc"\nurl = "{url}"\ntable = "SYSIBM.SYSDUMMY1"\n{options}'
        + CONSOLE
    )


def test_source_reads_another_database_with_its_driver(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The driver of Derby is part of Spark."""
    message = refused(spark, tmp_path, table("jdbc:mysql://127.0.0.1/x"))
    assert message.startswith("line 5: sources.rows: no driver for this address: put its jar into")
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    driver = 'options = { driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver" }\n'
    run_text(spark, tmp_path, table("jdbc:derby:memory:ends;create=true", driver))
    assert "IBMREQD" in capsys.readouterr().out
    pipeline = parse(table("jdbc:mysql://127.0.0.1/x"), tmp_path / "my.toml")
    with pytest.raises(NoConnector, match=r"no connector for jdbc:mysql: .* --jars FOLDER"):
        open_session("none", needs=run.needs(pipeline))


ODD = "`a b` INT, `c.d` STRING, `e``f` INT, `select` INT, at TIMESTAMP"
STEPS = """
[steps.kept]
kind = "filter"
from = "rows"
matches = { "c.d" = "^x" }
equals = { "e`f" = 3 }

[steps.first]
kind = "deduplicate"
from = "kept"
keys = ["c.d", "e`f"]
time = "at"

[steps.counted]
kind = "window"
from = "first"
time = "at"
length = "1 hour"
group_by = ["c.d", "e`f"]
aggregates = { "n.n" = "sum(`a b`)" }

[steps.together]
kind = "correlate"
from = "counted"
time = "window_start"
length = "1 hour"
x = "`n.n`"
y = "`e``f`"
group_by = ["c.d"]

[steps.top]
kind = "top_keys"
from = "rows"
time = "at"
length = "1 hour"
column = "c.d"
k = 1
"""


def test_column_names_may_contain_any_characters(spark: SparkSession, tmp_path: Path) -> None:
    time = "2026-01-01T00:00:00Z"
    row = {"a b": 1, "c.d": "x", "e`f": 3, "select": 4, "at": time}
    feed(tmp_path / "rows", [[row, row, row | {"c.d": "y"}]])
    schemas = {"rows": ODD}
    (counted,) = in_batch(spark, tmp_path, STEPS, "counted", schemas)
    assert counted.asDict().keys() == {"window_start", "window_end", "c.d", "e`f", "n.n"}
    assert (counted["c.d"], counted["e`f"], counted["n.n"]) == ("x", 3, 1)
    (together,) = spark.table("together").collect()
    assert (together["c.d"], together["count"]) == ("x", 1)
    (top,) = spark.table("top").collect()
    assert (top["c.d"], top["count"]) == ("x", 2)
    sink = {"kind": "kafka", "from": "rows", "cluster": "main", "topic": "t", "key": "c.d"}
    made = records(
        spark.table("first"), KafkaSink.model_validate(sink | {"value": ["a b", "c.d", "e`f"]})
    )
    assert made.collect() == [Row(value='{"a b":1,"c.d":"x","e`f":3}', key="x")]


def test_unusable_training_rows_are_an_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.csv"
    model = tmp_path / "model"

    def refusal() -> str:
        assert main(["train", str(texts), str(model), "--text", "text", "--class", "kind"]) == 2
        return capsys.readouterr().err.strip()

    assert refusal() == f"{texts} is not a file"
    texts.write_text("")
    assert refusal() == f"{texts}: no column 'text'; it has: none"
    texts.write_text("text,kind\nhello,a\nbye,\n")
    assert refusal() == f"{texts}: 'kind' has fewer than 2 classes: nothing to learn"
    model.mkdir()
    assert refusal() == f"{model} is there already; name another folder"
