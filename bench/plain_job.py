"""The job of `bench.pipeline` written by hand in PySpark, as `bench.plain_pipeline` runs it.

python -m bench.plain_job ADDRESS TOPIC MODE CHECKPOINT PROGRESS JARS CORES LIMIT
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


class Recorder(StreamingQueryListener):
    """Writes the lines that `bench.pipeline` reads."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._rows = 0

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        done = event.progress
        self._rows += done.numInputRows
        line = {
            "at_ms": int(time.time() * 1_000),
            "state": "running",
            "rows": done.numInputRows,
            "rows_total": self._rows,
            "batch_ms": done.durationMs["triggerExecution"],
        }
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    address, topic, mode, checkpoint, progress, jars, cores, limit = sys.argv[1:]
    spark = (
        SparkSession.builder.appName("plain")
        .master(f"local[{cores}]")
        .config("spark.jars", ",".join(str(jar) for jar in Path(jars).glob("*.jar")))
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.streams.addListener(Recorder(progress))
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", limit)
        .load()
    )
    parsed = records.select(
        F.from_json(F.col("value").cast("string"), "key INT, amount DOUBLE, sent_ms BIGINT").alias(
            "row"
        )
    ).select("row.*")
    counted = (
        parsed.where("sent_ms IS NOT NULL")
        .withColumn("at", F.timestamp_millis("sent_ms"))
        .withWatermark("at", "1 minute")
        .groupBy(F.window("at", "10 seconds"), "key")
        .agg(
            F.count("*").alias("records"),
            F.sum("amount").alias("total"),
            F.max("sent_ms").alias("newest_ms"),
        )
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            *("key", "records", "total", "newest_ms"),
        )
    )
    writer: Any = (
        counted.select(
            F.col("key").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value")
        )
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("topic", f"{topic}-out")
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
    )
    if mode == "available_now":
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    # Progress events are delivered after the query has ended.
    context: Any = spark.sparkContext._jsc
    context.sc().listenerBus().waitUntilEmpty(10_000)
    spark.stop()


if __name__ == "__main__":
    main()
