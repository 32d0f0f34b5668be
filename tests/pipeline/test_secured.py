"""A mirror and a pipeline whose clusters have SASL_SSL with SCRAM."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run as job
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.load import parse
from odradek.testing import Broker, Security
from tests.pipeline.mirroring import file, run

SECURITY = Security({"alice": "alice-secret"}, protocol="SASL_SSL")
RECORDS = [b"%d" % number for number in range(20)]
FILE = """\
[pipeline]
name = "copies"
mode = "available_now"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "{address}"
options = {java}

[clusters.library]
bootstrap_servers = "{address}"
options = {library}

[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["orders"]

[sinks.copied]
kind = "kafka"
from = "orders"
cluster = "main"
topic = "copied"

[sinks.copied_once]
kind = "kafka"
from = "orders"
cluster = "library"
topic = "copied-once"
delivery_guarantee = "exactly_once"
"""


def table(options: Mapping[str, str]) -> str:
    """An inline table of TOML, whose texts are escaped as those of JSON."""
    return "{" + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in options.items()) + "}"


@pytest.fixture
def east() -> Iterator[Broker]:
    """A broker with records in the topic `orders`."""
    with Broker(security=SECURITY) as broker:
        broker.create_topic("orders", partitions=2)
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer({**servers, **SECURITY.confluent_config()})
        for value in RECORDS:
            producer.produce("orders", value)
        assert producer.flush(60) == 0
        yield broker


def test_mirror_between_secured_clusters_carries_records(
    spark: SparkSession, east: Broker, tmp_path: Path
) -> None:
    library, java = table(SECURITY.confluent_config()), table(SECURITY.client_properties())
    with Broker(security=SECURITY) as west:
        addresses = east.bootstrap_servers, west.bootstrap_servers
        text = file(*addresses, name="secured", pattern="orders")
        text = text.replace("[source]", f"[source]\noptions = {library}\nspark_options = {java}")
        text = text.replace("[target]", f"[target]\noptions = {library}")
        run(spark, text, tmp_path)
        assert sorted(record.value or b"" for record in west.records("east.orders", 20)) == sorted(
            RECORDS
        )


def test_pipeline_on_a_secured_cluster_copies_records_in_both_guarantees(
    spark: SparkSession, east: Broker, tmp_path: Path
) -> None:
    for topic in ("copied", "copied-once"):
        east.create_topic(topic, partitions=2)
    text = FILE.format(
        address=east.bootstrap_servers,
        java=table(SECURITY.client_properties()),
        library=table(SECURITY.confluent_config()),
    )
    built = job.build(spark, parse(text, tmp_path / "my.toml"), tmp_path)
    failures: list[PartFailed] = []
    job.run_stream(built, say=lambda failure, following: failures.append(failure))
    assert not failures
    for topic in ("copied", "copied-once"):
        rows = [json.loads(record.value or b"") for record in east.records(topic, 20)]
        assert sorted(b64decode(row["value"]) for row in rows) == sorted(RECORDS)
