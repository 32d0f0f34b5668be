"""Runs each Java program of the tests once, and keeps its classes (`class_archives`)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyspark

from tests.support import apache, maven, tool_cache
from tests.support.class_archives import (
    ARCHIVES,
    FILE,
    SPARK,
    ZOOKEEPER,
    small_spark,
    writing,
)
from tests.support.zookeeper import JARS, ZooKeeperServer, zookeeper

SESSION = """\
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = builder.getOrCreate()
session.range(1000).selectExpr("id", "id % 7 AS key").groupBy("key").count().collect()
stream = session.readStream.format("rate").load().writeStream.format("noop")
stream.trigger(availableNow=True).start().awaitTermination()
gateway = session.sparkContext._gateway
session.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""
"""Ends Java in order, so that it writes its archive."""


def main() -> None:
    """Make those that are not there."""
    jars = sorted(one.name for one in Path(pyspark.__file__).with_name("jars").iterdir())
    _make(SPARK, [pyspark.__file__, *jars], _spark)
    _make(ZOOKEEPER, JARS, _zookeeper)
    libraries = maven.broker_libraries(apache.JUDGE_VERSION)
    _make(libraries.parent.name, [str(libraries)], _broker)


def _make(name: str, parts: list[str] | tuple[str, ...], run: Callable[[Path, Path], None]) -> None:
    release = tool_cache.run_tool(["java", "-version"], folder=tool_cache.PROJECT)

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="class-archive-") as scratch:
            run(folder / FILE, Path(scratch))

    mark = tool_cache.fingerprint([release, *parts])
    tool_cache.build_once(ARCHIVES / name, mark, make)


def _spark(archive: Path, scratch: Path) -> None:
    environment = {**os.environ, **small_spark(writing(archive))}
    command = [sys.executable, "-c", SESSION]
    tool_cache.run_tool(command, folder=tool_cache.PROJECT, environment=environment)


def _zookeeper(archive: Path, scratch: Path) -> None:
    server = ZooKeeperServer(scratch / "zookeeper", sharing=writing(archive))
    server.start()
    server.stop()


def _broker(archive: Path, scratch: Path) -> None:
    """Of one that makes a topic, besides: its tools share the archive."""
    with (
        zookeeper(scratch / "zookeeper") as address,
        apache.apache_kafka(
            scratch / "kafka", zookeeper_address=address, sharing=writing(archive)
        ) as broker,
    ):
        arguments = ["--bootstrap-server", broker.address, "--create", "--topic", "classes"]
        apache.run_tool(apache.TOPICS_TOOL, arguments, folder=scratch)
