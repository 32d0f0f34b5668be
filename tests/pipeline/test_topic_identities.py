"""A topic that was deleted and created again under a running or stopped pipeline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.load import parse
from tests.pipeline.topics import produce
from tests.support.broker_process import BrokerProcess
from tests.support.pauses import pause

TIMEOUT_S = 60.0
FILE = """\
[pipeline]
name = "identities"
mode = "{mode}"
checkpoint = "state"
queries = "{queries}"

[clusters.main]
bootstrap_servers = "{address}"

[sources.records]
kind = "kafka"
cluster = "main"
{topics}
fail_on_data_loss = {fails}

[sinks.copied]
kind = "kafka"
from = "records"
cluster = "main"
topic = "{topic}-out"
value = "value"
delivery_guarantee = "exactly_once"

[sinks.landed]
kind = "files"
from = "records"
path = "landed"
format = "parquet"
"""


def create(address: str, *topics: str) -> None:
    """Create topics of one partition."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, 1) for topic in topics]).values():
        future.result(TIMEOUT_S)


def topic_id(admin: AdminClient, topic: str) -> str | None:
    """The id of a topic; None while there is none."""
    try:
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
    except KafkaException:
        return None
    return str(described.topic_id)


def create_again(address: str, topic: str) -> None:
    """Delete a topic, and create it when it is gone, unless a consumer of it has done so."""
    admin = AdminClient({"bootstrap.servers": address})
    former = topic_id(admin, topic)
    assert former is not None
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    deadline_s = monotonic() + TIMEOUT_S
    while topic_id(admin, topic) in (None, former):
        assert monotonic() < deadline_s, f"{topic} is not created again"
        try:
            create(address, topic)
        except KafkaException as error:
            # It is marked for deletion, or was created by a consumer.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            pause()


@pytest.mark.parametrize(
    ("key", "queries", "fails"),
    [
        ('subscribe = ["TOPIC", "TOPIC-2"]', "per_sink", "true"),
        ('pattern = "^TOPIC(-2)?$"', "shared", "false"),
        ("assign = { TOPIC = [0], TOPIC-2 = [0] }", "per_sink", "false"),
    ],
)
def test_topic_created_again_between_two_runs_is_refused(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, key: str, queries: str, fails: str
) -> None:
    topic = f"again-{key.split()[0]}"
    create(broker.address, topic, f"{topic}-2", f"{topic}-out")
    text = FILE.format(
        address=broker.address,
        mode="available_now",
        topics=key.replace("TOPIC", topic),
        topic=topic,
        queries=queries,
        fails=fails,
    )
    pipeline = parse(text, tmp_path / "my.toml")

    def read() -> int:
        built = run.build(spark, pipeline, tmp_path)
        run.run_stream(built, say=lambda failure, after: None)
        return spark.read.parquet(str(tmp_path / "landed")).count()

    produce(broker.address, topic, [b"old"] * 5)
    assert read() == 5
    produce(broker.address, f"{topic}-2", [b"more"] * 2)
    assert read() == 7, "the same topics go on"
    create_again(broker.address, topic)
    # First it ends before the offset of the checkpoint, then after it.
    for more in (3, 6):
        produce(broker.address, topic, [b"new"] * more)
        with pytest.raises(PartFailed, match="was deleted and created again") as caught:
            read()
        assert caught.value.where == ("sources", "records")
        assert re.search(rf"topic {topic} of cluster main ", str(caught.value))
    assert spark.read.parquet(str(tmp_path / "landed")).count() == 7


def test_topic_created_again_ends_a_running_stream(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = "again-while-running"
    create(broker.address, topic, f"{topic}-out")
    text = FILE.format(
        address=broker.address,
        mode="stream",
        topics=f'pattern = "^{topic}$"',
        topic=topic,
        queries="per_sink",
        fails="false",
    )
    pipeline = parse(text, tmp_path / "my.toml")
    ids = tmp_path / "state/topics.json"
    produce(broker.address, topic, [b"old"] * 5)
    deadline_s = monotonic() + 2 * TIMEOUT_S
    is_again = False

    def is_stopped() -> bool:
        nonlocal is_again
        assert monotonic() < deadline_s, "the run ends by itself"
        if not is_again and ids.exists() and topic in json.loads(ids.read_text()).get("main", {}):
            is_again = True
            create_again(broker.address, topic)
            produce(broker.address, topic, [b"new"] * 9)
        return False

    built = run.build(spark, pipeline, tmp_path)
    with pytest.raises(PartFailed, match=f"topic {topic} of cluster main was deleted and created"):
        run.run_stream(built, say=lambda failure, after: None, is_stopped=is_stopped)
    assert is_again
