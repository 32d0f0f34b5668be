"""Records whose timestamp Spark's reader cannot take."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.pipeline.failures import PartFailed
from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import parse
from tests.pipeline.crashes import create_topics
from tests.support.broker_process import BrokerProcess

TIMEOUT_S = 60.0
LAST_MS = (2**63 - 1) // 1_000
NANOSECONDS = 1_767_225_600_123_000_000
FILE = """\
[pipeline]
name = "unreadable"
mode = "available_now"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "{address}"

[sources.records]
kind = "kafka"
cluster = "main"
{topics}

[sinks.landed]
kind = "files"
from = "records"
path = "landed"
format = "parquet"
"""


@pytest.mark.parametrize("key", ['subscribe = ["{topic}"]', 'pattern = "^{topic}$"'])
def test_record_with_a_timestamp_that_spark_cannot_read_is_named(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, key: str
) -> None:
    topic = f"unreadable-{key.split()[0]}"
    create_topics(broker.address, topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(4):
        producer.produce(topic, b"x", partition=0, timestamp=LAST_MS)
        time_ms = NANOSECONDS if number == 2 else 1_767_225_600_123
        producer.produce(topic, b"y", partition=1, timestamp=time_ms)
    assert producer.flush(TIMEOUT_S) == 0
    text = FILE.format(address=broker.address, topics=key.format(topic=topic))
    pipeline = parse(text, tmp_path / "my.toml")
    with pytest.raises(PartFailed) as caught:
        run.wait(
            pipeline, run.start_stream(pipeline, run.build(spark, pipeline, tmp_path), tmp_path)
        )
    assert caught.value.where == ("sources", "records")
    assert f"the record at offset 2 of partition 1 of {topic} has a timestamp" in str(caught.value)
