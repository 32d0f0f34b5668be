"""`odradek replica-verification` and Apache Kafka's tool, on topics of a running cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from odradek.tools.client import Client
from tests.odradek.cluster_tools import TestCluster, our_tool, produce, settle
from tests.odradek.console_tools import MAIN_CLASSES
from tests.support import maven
from tests.support.apache import JUDGE_VERSION, java_command
from tests.support.apache_cluster import log_directories
from tests.support.processes import LoggedProcess

NAME: Final = "replica-verification"
LINE_TIMEOUT_S: Final = 90.0
STAMP: Final = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ")
CRC_POSITION: Final = 17
BATCHES: Final = 10


@contextmanager
def replicated(cluster: TestCluster, topic: str) -> Iterator[None]:
    """Within, a topic has one partition on all brokers, with BATCHES batches."""
    words = ["--bootstrap-server", cluster.bootstrap]
    created = [*words, "--create", "--replica-assignment", "1:2:3", "--topic", topic]
    assert our_tool("topics", created).exit_code == 0
    settle(cluster)
    with Client(cluster.bootstrap) as client:
        produce(client, topic, 0, BATCHES, 100)
    settle(cluster)
    try:
        yield
    finally:
        assert our_tool("topics", [*words, "--delete", "--topic", topic]).exit_code == 0
        settle(cluster)


@contextmanager
def verification(
    cluster: TestCluster, folder: Path, topic: str, *, is_ours: bool
) -> Iterator[LoggedProcess]:
    """The tool, which reads a topic from its start."""
    words = ["--broker-list", cluster.bootstrap, "--topics-include", topic, "--time", "-2"]
    words += ["--report-interval-ms", "200", "--max-wait-ms", "100"]
    if is_ours:
        command = [sys.executable, "-I", "-m", "odradek", NAME, *words]
    else:
        libraries = maven.broker_libraries(JUDGE_VERSION)
        command = java_command(libraries, MAIN_CLASSES[NAME], words, heap="160m")
    with LoggedProcess(command, log=folder / f"{topic}-{is_ours}.log") as process:
        yield process


def first_line(
    cluster: TestCluster, folder: Path, topic: str, pattern: str, *, is_ours: bool
) -> str:
    """The first line in which the pattern is found, without its time."""
    with verification(cluster, folder, topic, is_ours=is_ours) as process:
        return STAMP.sub("", process.wait_for_line(pattern, timeout_s=LINE_TIMEOUT_S))


def damage(cluster: TestCluster, topic: str, batch: int, offset: int, data: bytes) -> None:
    """Overwrite bytes of a batch on broker 2."""
    (file,) = (
        path / f"{topic}-0" / f"{0:020}.log"
        for path in log_directories(cluster.folder, 2)
        if (path / f"{topic}-0").exists()
    )
    size = file.stat().st_size // BATCHES
    with open(file, "r+b") as log:
        log.seek(batch * size + offset)
        log.write(data)
