"""Checks that the topics in a pipeline file exist; Spark itself would retry for a minute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from odradek.pipeline.spark.gateway import java
from odradek.pipeline.spec.ends import Cluster
from odradek.pipeline.spec.field_types import text_of_option
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.sinks import KafkaSink
from odradek.pipeline.spec.sources import KafkaSource

TIMEOUT_MS: Final = 10_000
TIMESTAMP_MAX_MS: Final = (2**63 - 1) // 1_000
"""The last timestamp of a record that Spark can read."""
KAFKA: Final = "org.apache.kafka"
UNKNOWN: Final = f"{KAFKA}.common.errors.UnknownTopicOrPartitionException"


def absent(spark: SparkSession, pipeline: PipelineSpec) -> tuple[Path, str] | None:
    """The first missing topic or partition: its place in the file, and the message; or None.

    A topic that is written to may be missing when the cluster creates topics.  Nothing is missing
    as far as a cluster denies access or does not respond in time.
    cost  one or two requests to each cluster
    """
    for name, cluster in pipeline.clusters.items():
        read, written = _named(pipeline, name)
        if not read and not written:
            continue
        with suppress(Py4JError, OSError), admin_of(spark, cluster) as admin:
            partitions = _partitions(spark, admin, {topic for _, topic in (*read, *written)})
            for where, topic in read:
                if partitions.get(topic) == 0:
                    return where, f"topic {topic!r} does not exist on cluster {name}"
            for place, topic, partition in _assigned(pipeline, name):
                if topic in partitions and partition >= partitions[topic]:
                    reason = (
                        f"topic {topic!r} has {partitions[topic]} partitions, so no {partition}"
                    )
                    return place, reason
            for where, topic in written:
                if partitions.get(topic) == 0 and not _makes_topics(spark, admin):
                    reason = f"topic {topic!r} does not exist on cluster {name}, which makes none"
                    return where, reason
    return None


def unreadable_record(
    spark: SparkSession, cluster: Cluster, topics: set[str]
) -> tuple[str, int, int] | None:
    """Topic, partition and offset of a record whose timestamp Spark cannot read; or None.

    Spark has times in microseconds, and fails at a timestamp of nanoseconds.
    cost  two requests to each of the brokers
    """
    jvm = java(spark)
    latest = jvm.org.apache.kafka.clients.admin.OffsetSpec.forTimestamp(TIMESTAMP_MAX_MS + 1)
    with suppress(Py4JError, OSError), admin_of(spark, cluster) as admin:
        requests = jvm.java.util.HashMap()
        partitions = []
        for topic, count in sorted(_partitions(spark, admin, topics).items()):
            for number in range(count):
                partition = jvm.org.apache.kafka.common.TopicPartition(topic, number)
                partitions.append((topic, number, partition))
                requests.put(partition, latest)
        results = admin.listOffsets(requests)
        for topic, number, partition in partitions:
            offset = int(results.partitionResult(partition).get().offset())
            if offset >= 0:
                return topic, number, offset
    return None


def topics_read(spark: SparkSession, cluster: Cluster, source: KafkaSource) -> set[str]:
    """The topics of a source; those of a pattern as far as the cluster responds."""
    if source.pattern is None:
        return set(source.topics)
    with suppress(Py4JError, OSError, re.error), admin_of(spark, cluster) as admin:
        names = str(java(spark).java.lang.String.join("\n", admin.listTopics().names().get()))
        return {name for name in names.splitlines() if re.search(source.pattern, name)}
    return set()


def said_of_unreadable(record: tuple[str, int, int]) -> str:
    """The message for a record that `unreadable_record` has found."""
    topic, partition, offset = record
    return (
        f"the record at offset {offset} of partition {partition} of {topic} has a timestamp that"
        " Spark cannot read, since it is after the year 294247: it is in milliseconds, and may have"
        " been written in nanoseconds"
    )


def _named(
    pipeline: PipelineSpec, cluster: str
) -> tuple[list[tuple[Path, str]], list[tuple[Path, str]]]:
    """The topics that are read from a cluster and written to it, with their places in the file."""
    read: list[tuple[Path, str]] = []
    written: list[tuple[Path, str]] = []
    for name, source in pipeline.sources.items():
        if isinstance(source, KafkaSource) and source.cluster == cluster:
            key = "subscribe" if source.subscribe else "assign"
            read += [(("sources", name, key), topic) for topic in source.topics]
        if isinstance(source, KafkaSource) and source.rejects and source.rejects_cluster == cluster:
            written.append((("sources", name, "rejects"), source.rejects))
    for name, step in pipeline.steps.items():
        if isinstance(step, Parse) and step.rejects and step.rejects_cluster == cluster:
            written.append((("steps", name, "rejects"), step.rejects))
    for name, sink in pipeline.sinks.items():
        if isinstance(sink, KafkaSink) and sink.topic and sink.cluster == cluster:
            written.append((("sinks", name, "topic"), sink.topic))
    return read, written


def _assigned(pipeline: PipelineSpec, cluster: str) -> Iterator[tuple[Path, str, int]]:
    for name, source in pipeline.sources.items():
        if isinstance(source, KafkaSource) and source.cluster == cluster:
            for topic, partitions in (source.assign or {}).items():
                yield ("sources", name, "assign"), topic, max(partitions)


@contextmanager
def admin_of(spark: SparkSession, cluster: Cluster) -> Iterator[Any]:
    """Kafka's AdminClient of a cluster, in Java."""
    jvm = java(spark)
    properties = jvm.java.util.Properties()
    for name, value in {
        **cluster.options,
        "bootstrap.servers": cluster.bootstrap_servers,
        "default.api.timeout.ms": TIMEOUT_MS,
        "request.timeout.ms": TIMEOUT_MS,
    }.items():
        properties.setProperty(name, text_of_option(value))
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        yield admin
    finally:
        admin.close(jvm.java.time.Duration.ZERO)


def topic_ids(spark: SparkSession, admin: Any, topics: set[str]) -> dict[str, str]:
    """Topic -> its id; no entry for a missing topic, and with brokers before 2.8.

    raises  Py4JError
    """
    none = str(java(spark).org.apache.kafka.common.Uuid.ZERO_UUID)
    return {
        topic: topic_id
        for topic, description in _descriptions(spark, admin, topics)
        if description is not None and (topic_id := str(description.topicId())) != none
    }


def _partitions(spark: SparkSession, admin: Any, topics: set[str]) -> dict[str, int]:
    """Topic -> number of partitions; 0 for a missing topic, no entry when access is denied."""
    return {
        topic: 0 if description is None else int(description.partitions().size())
        for topic, description in _descriptions(spark, admin, topics)
    }


def _descriptions(
    spark: SparkSession, admin: Any, topics: set[str]
) -> Iterator[tuple[str, Any | None]]:
    """Yield topic and description; None for a missing topic, nothing when access is denied."""
    jvm = java(spark)
    names = jvm.java.util.ArrayList()
    for topic in sorted(topics):
        names.add(topic)
    futures = admin.describeTopics(names).topicNameValues()
    for topic in sorted(topics):
        try:
            description = futures.get(topic).get()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()
            if cause is not None and cause.getClass().getName() == UNKNOWN:
                yield topic, None
        else:
            yield topic, description


def _makes_topics(spark: SparkSession, admin: Any) -> bool:
    """Whether a write to a missing topic creates it; True when the cluster does not say."""
    jvm = java(spark)
    node = admin.describeCluster().nodes().get().toArray()[0].idString()
    resources = jvm.java.util.ArrayList()
    kind = jvm.org.apache.kafka.common.config.ConfigResource
    broker = getattr(kind, "Type").BROKER  # noqa: B009 - a nested class of Java
    resource = kind(broker, node)
    resources.add(resource)
    setting = (
        admin.describeConfigs(resources).all().get().get(resource).get("auto.create.topics.enable")
    )
    return setting is None or setting.value() != "false"
