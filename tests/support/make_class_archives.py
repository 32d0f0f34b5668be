"""Runs each Java program of the tests once, and keeps its classes (`class_archives`)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyspark
from confluent_kafka import Producer

from tests.support import apache, archived_pipeline, maven, newest_pyspark, programs, tool_cache
from tests.support.apache_kraft import KRAFT_VERSION, apache_kraft_node
from tests.support.broker_process import odradek_broker
from tests.support.class_archives import (
    ARCHIVES,
    FILE,
    NEWEST_SPARK,
    SPARK,
    ZOOKEEPER,
    spark_environment,
    writing,
)
from tests.support.zookeeper import JARS, ZooKeeperServer, zookeeper

FLUSH_TIMEOUT_S = 60.0
ARCHIVED_CLIENTS = ("2.8.2", "3.9.2", "4.3.0")
"""Releases of Java clients that are members of groups, and are started many times."""
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
CLIENT_COMMANDS = (
    ("create t 1\n", "done"),
    ("produce t none all true 1\n0 1 - - -\n", "done"),
    ("group t g range - 6000\n", "committed"),
    ("leave\n", "done"),
)
"""Commands of tests/clients/README.md, each with a word of the response that is waited for."""


def main() -> None:
    """Make those that are not there."""
    _make_spark()
    _make_newest_spark()
    _make(ZOOKEEPER, JARS, _zookeeper)
    for version in ARCHIVED_CLIENTS:
        _make_client(version)
    for version, run in ((apache.JUDGE_VERSION, _broker), (KRAFT_VERSION, _kraft_node)):
        libraries = maven.broker_libraries(version)
        _make(libraries.parent.name, [str(libraries)], run)


def _make(name: str, parts: Sequence[str | Path], run: Callable[[Path, Path], None]) -> None:
    release = tool_cache.run_tool(["java", "-version"], folder=tool_cache.PROJECT)

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="class-archive-") as scratch:
            run(folder / FILE, Path(scratch))

    mark = tool_cache.fingerprint([release, *parts])
    tool_cache.build_once(ARCHIVES / name, mark, make)


def _make_spark() -> None:
    jars = sorted(path.name for path in Path(pyspark.__file__).with_name("jars").iterdir())
    connectors = maven.spark_connectors(pyspark.__version__)
    names = sorted(path.name for path in connectors.iterdir())

    def run(archive: Path, scratch: Path) -> None:
        arguments = ["--jars", str(connectors)]
        _pipeline(sys.executable, arguments, scratch, spark_environment(writing(archive)))

    _make(SPARK, [pyspark.__file__, *jars, *names, archived_pipeline.TEXT], run)


def _make_newest_spark() -> None:
    python = newest_pyspark.python()

    def run(archive: Path, scratch: Path) -> None:
        environment = {**newest_pyspark.environment(), **spark_environment(writing(archive))}
        _pipeline(str(python), [], scratch, environment)

    _make(NEWEST_SPARK, [str(python), newest_pyspark.VERSION, archived_pipeline.TEXT], run)


def _pipeline(
    python: str, arguments: list[str], scratch: Path, environment: dict[str, str]
) -> None:
    with odradek_broker(scratch / "broker") as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        for reading in archived_pipeline.readings():
            producer.produce("readings", reading)
        assert producer.flush(FLUSH_TIMEOUT_S) == 0
        file = archived_pipeline.prepared(scratch, broker.address)
        command = [python, "-m", "tests.support.archived_pipeline", "run", str(file)]
        tool_cache.run_tool(
            [*command, "--master", "local[2]", *arguments],
            folder=tool_cache.PROJECT,
            environment={**os.environ, **environment},
        )


def _zookeeper(archive: Path, scratch: Path) -> None:
    server = ZooKeeperServer(scratch / "zookeeper", sharing=writing(archive))
    server.start()
    server.stop()


def _make_client(version: str) -> None:
    def run(archive: Path, scratch: Path) -> None:
        command = programs.java_program(version, writing(archive))
        with odradek_broker(scratch / "broker", overrides=NO_DELAY) as broker:
            _client(command, broker.address)

    *_, class_path, _ = programs.java_program(version, ())
    _make(f"java-client-{version}", [Path(class_path.partition(":")[0])], run)


def _client(command: list[str], address: str) -> None:
    """A client that writes a record, reads it as a member of a group, and ends by itself."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, "--bootstrap", address], stdin=pipe, stdout=pipe, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for lines, end in CLIENT_COMMANDS:
            child.stdin.write(lines)
            child.stdin.flush()
            while end not in (line := child.stdout.readline()):
                assert line, f"{command} ended before {end}"
                assert '"error"' not in line, line


def _broker(archive: Path, scratch: Path) -> None:
    """Of one that makes a topic, besides: its tools share the archive."""
    with (
        zookeeper(scratch / "zookeeper") as address,
        apache.apache_kafka(
            scratch / "kafka", zookeeper_address=address, sharing=writing(archive)
        ) as broker,
    ):
        _make_topic(broker.address, scratch, apache.JUDGE_VERSION)


def _kraft_node(archive: Path, scratch: Path) -> None:
    with apache_kraft_node(scratch / "kafka", sharing=writing(archive)) as broker:
        _make_topic(broker.address, scratch, KRAFT_VERSION)


def _make_topic(address: str, scratch: Path, version: str) -> None:
    arguments = ["--bootstrap-server", address, "--create", "--topic", "classes"]
    done = apache.run_tool(apache.TOPICS_TOOL, arguments, folder=scratch, version=version)
    assert done.exit_code == 0, done.errors
