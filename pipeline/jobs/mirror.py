"""Runs a mirror file: Spark reads and checkpoints source offsets, executors write."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from odradek.pipeline.jobs.run import claim_folder
from odradek.pipeline.mirror.clusters import ClusterFailed
from odradek.pipeline.mirror.direct_reading import RANGE_SCHEMA, rows_of, write_ranges
from odradek.pipeline.mirror.flow import Flow, TopicRecreatedError, Written
from odradek.pipeline.mirror.offsets import Run
from odradek.pipeline.mirror.write import INPUT_COLUMNS, OUTPUT_SCHEMA, Plan, WriteFailed, write
from odradek.pipeline.offset_log import OffsetLog, OffsetRange, UnknownLog
from odradek.pipeline.sources.read import read as read_source
from odradek.pipeline.spec import model
from odradek.pipeline.spec.ends import Cluster
from odradek.pipeline.spec.mirror import Mirror
from odradek.pipeline.spec.producer_properties import client_properties
from odradek.pipeline.spec.sources import KafkaSource

NEEDS: Final = ("kafka",)
QUERY: Final = "mirror"
ROUND_S: Final = 1.0
"""Interval of the checks for a stop."""
SHORTEST_S: Final = 0.01
"""The shortest wait in a call of Spark."""
LOG: Final = logging.getLogger(__name__)


class BatchFailed(Exception):
    """A batch failed; the job has stored the reason."""


FAILURES: Final = (ClusterFailed, TopicRecreatedError, KafkaException)


def claim(mirror: Mirror, folder: Path) -> Path:
    """Create or check the checkpoint folder of a mirror; returns it.

    raises  run.WrongCheckpoint; OSError
    """
    mine = {
        "pipeline": mirror.mirror.name,
        "mirror": {
            "source": mirror.source.alias,
            "target": mirror.target.alias,
            "policy": mirror.topics.policy,
        },
    }
    return claim_folder(folder / mirror.mirror.checkpoint, mine)


class MirrorJob:
    """A running mirror.

    folder  the folder of the mirror file
    stop    an event that ends `wait` within ROUND_S
    """

    def __init__(self, mirror: Mirror, folder: Path, *, stop: Event | None = None) -> None:
        self._mirror = mirror
        self._folder = folder
        self._stop = stop or Event()
        self._is_ending = False
        self._failure: Exception | None = None
        self._flow = Flow(
            mirror, now_ms=lambda: time.time_ns() // 1_000_000, is_stopped=self._is_over
        )
        self._query: StreamingQuery | None = None
        self._checkpoint = folder / mirror.mirror.checkpoint / QUERY

    def _is_over(self) -> bool:
        return self._is_ending or self._stop.is_set() or self._failure is not None

    def open(self) -> None:
        """Prepare the clusters and claim the checkpoint folder, without Spark.

        raises  ClusterFailed, TopicRecreatedError, run.WrongCheckpoint
        """
        claim(self._mirror, self._folder)
        self._flow.open(is_new=not any(self._checkpoint.glob("offsets/*")))

    def start(self, spark: SparkSession) -> None:
        """Start to mirror, after `open`.

        raises  PySparkException
        """
        head, topics = self._mirror.mirror, self._mirror.topics
        rows = read_source(
            spark,
            KafkaSource(
                kind="kafka",
                cluster="source",
                pattern=self._flow.pattern,
                headers=True,
                starting_offsets=topics.starting_offsets,
                max_offsets_per_trigger=topics.max_offsets_per_trigger,
                fail_on_data_loss=topics.fail_on_data_loss,
            ),
            {
                "source": Cluster(
                    bootstrap_servers=self._mirror.source.bootstrap_servers,
                    options=self._mirror.source.spark_options,
                )
            },
            model.Head(name=head.name, mode=head.mode),
            self._folder,
        )
        writer = rows.writeStream.foreachBatch(self._batch).queryName(head.name)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        if head.mode == "available_now":
            writer = writer.trigger(availableNow=True)
        elif head.trigger is not None:
            writer = writer.trigger(processingTime=head.trigger)
        self._query = writer.start()

    def _batch(self, rows: DataFrame, number: int) -> None:
        try:
            ranges = self._ranges(number)
            plan = self._flow.plan(ranges)
            if plan.has_unreadable:
                results = self._read_directly(rows.sparkSession, ranges, plan)
            else:
                results = rows.selectExpr(*INPUT_COLUMNS).mapInArrow(
                    lambda batches: write(batches, plan), OUTPUT_SCHEMA
                )
            self._flow.note(list(written(results)))
        except (*FAILURES, PySparkException, Py4JError, OSError) as error:
            self._failure = error
            # Spark searches the traceback for an interruption, with a regular expression that
            # overflows the stack on a long text: the query would then end as successful.
            raise BatchFailed("the batch was given up") from None

    def _ranges(self, number: int) -> list[OffsetRange]:
        """The records of a batch; none, and so Spark reads all of them, if the log is unknown."""
        try:
            return OffsetLog(self._checkpoint).ranges(number)
        except UnknownLog as error:
            LOG.warning("%s; a timestamp that Spark cannot read ends the mirror", error)
            return []

    def _read_directly(
        self, spark: SparkSession, ranges: Sequence[OffsetRange], plan: Plan
    ) -> DataFrame:
        """Rows of OUTPUT_SCHEMA; the records are not read by Spark."""
        source, topics = self._mirror.source, self._mirror.topics
        properties = {
            **client_properties(source.bootstrap_servers, source.options),
            # Spark's default, which is another than that of librdkafka.
            "isolation.level": str(source.spark_options.get("isolation.level", "read_uncommitted")),
            "auto.offset.reset": "error" if topics.fail_on_data_loss else "earliest",
        }
        rows = spark.createDataFrame(rows_of(ranges), RANGE_SCHEMA)
        return rows.mapInArrow(
            lambda batches: write_ranges(batches, plan, properties), OUTPUT_SCHEMA
        )

    def wait(self) -> None:
        """Run turns until the query ends, or a stop is requested.

        raises  as `turn`
        """
        try:
            while self.turn():
                pass
        finally:
            self.stop()

    def turn(self) -> bool:
        """Wait for an interval or the end, then run the due work; returns whether to go on.

        raises  ClusterFailed, TopicRecreatedError, confluent_kafka.KafkaException,
                pyspark.errors.PySparkException, py4j.protocol.Py4JError, OSError
        """
        deadline_s = time.monotonic() + self._mirror.mirror.interval_ms / 1000
        has_ended = False
        while not has_ended and not self._stop.is_set():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                break
            has_ended = self._has_ended(min(max(left_s, SHORTEST_S), ROUND_S))
        if self._stop.is_set():
            return False
        self._flow.turn(is_last=has_ended)
        return not has_ended

    def _has_ended(self, timeout_s: float) -> bool:
        assert self._query is not None, "it was started"
        wait_s: Any = timeout_s  # Spark accepts fractions of a second, despite its type hint.
        try:
            has_ended = bool(self._query.awaitTermination(wait_s))
        except StreamingQueryException as error:
            self._failure = self._failure or error
            has_ended = True
        if has_ended and self._failure is not None:
            raise self._failure
        return has_ended

    def stop(self) -> None:
        """Stop the query; the next start repeats a batch in progress."""
        self._is_ending = True
        # When the Java process has ended the query has, too; `wait` reports that.
        with suppress(Py4JError, PySparkException, OSError):
            if self._query is not None:
                self._query.stop()


def written(results: DataFrame) -> Iterator[Written]:
    """Write a batch on the executors; returns one Written per run.

    results  rows of OUTPUT_SCHEMA
    raises   ClusterFailed when the target rejects a record; pyspark.errors.PySparkException
    """
    try:
        rows = results.collect()
    except PySparkException as error:
        # The error of an executor is the text of a traceback.
        match = re.search(rf"{WriteFailed.__name__}: (.+)", str(error))
        if match is None:
            raise
        raise ClusterFailed(f"the target did not take a record: {match[1]}") from error
    for row in rows:
        run = Run(row.source, row.target, row["count"])
        yield Written(row.topic, row.partition, run, row.skipped)
