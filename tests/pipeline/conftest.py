"""One Spark session and one broker for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import SparkSession

from odradek.pipeline.spark.session import open_session
from tests.support import local_files, maven
from tests.support.broker_process import BrokerProcess
from tests.support.class_archives import small_spark
from tests.support.prepare import SPARK_VERSION
from tests.support.tool_cache import PROJECT

START_AND_FETCH_TIMEOUT_S = 900
PARTITIONS = "spark.sql.shuffle.partitions"
SMALL: dict[str, str | int] = {
    "spark.driver.memory": "768m",
    PARTITIONS: 1,
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    # The default one starts two more processes per file that it renames, hundreds per test; jobs
    # of their own, which tests kill, have it.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    "spark.python.daemon.module": "tests.support.pyspark_daemon",
    "spark.executorEnv.PYTHONPATH": str(PROJECT),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lengthen the time-out: the first test also waits for Spark to start."""
    for item in items:
        if "tests/pipeline/" in item.path.as_posix():
            item.add_marker(pytest.mark.timeout(START_AND_FETCH_TIMEOUT_S))


@pytest.fixture(scope="session", autouse=True)
def small_jvms() -> Iterator[None]:
    """Spark of this process and its children, in small JVMs: they save two fifths of the time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in small_spark().items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def remembered_names() -> Iterator[None]:
    """Packages and classes of Java, asked for once.

    py4j asks for each part of a name again, and Java looks for a class of this name in 300 jars.
    """

    def remembering(kind: type[JVMView | JavaPackage]) -> Callable[[Any, str], object]:
        look_up = kind.__getattr__

        def get(parent: Any, name: str) -> object:
            value = look_up(parent, name)
            if isinstance(value, JavaPackage | JavaClass):
                vars(parent)[name] = value
            return value

        return get

    with pytest.MonkeyPatch.context() as patch:
        for kind in (JVMView, JavaPackage):
            patch.setattr(kind, "__getattr__", remembering(kind))
        yield


@pytest.fixture(scope="session")
def spark(small_jvms: None, remembered_names: None) -> Iterator[SparkSession]:
    """A local session with every connector."""
    session = open_session(
        "tests",
        needs=(),
        master="local[2]",
        jars=maven.spark_connectors(SPARK_VERSION),
        settings={**SMALL, "spark.jars": str(local_files.archive())},
    )
    local_files.use_in(session)
    yield session
    session.stop()


@pytest.fixture
def two_partitions(spark: SparkSession) -> Iterator[None]:
    """Within, rows are distributed by their keys over two tasks."""
    spark.conf.set(PARTITIONS, 2)
    yield
    spark.conf.set(PARTITIONS, SMALL[PARTITIONS])


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker that all tests share."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker")).start()
    yield process
    process.stop()
