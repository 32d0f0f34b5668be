"""The tools for clusters and Apache Kafka's print the same lines with a cluster of three brokers.

The lines are recorded in `cluster_conversations/`, by Apache's tools with Apache's brokers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.odradek.cluster_tools import NAMES, TestCluster, our_tool, play, recorded
from tests.odradek.comparison import comparable
from tests.odradek.console_tools import ApacheTools
from tests.odradek.replica_verification import BATCHES, CRC_POSITION, damage, first_line, replicated
from tests.support.apache_cluster import apache_cluster

pytestmark = [pytest.mark.judge, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """Three brokers of Apache Kafka."""
    with apache_cluster(tmp_path_factory.mktemp("cluster")) as brokers:
        yield TestCluster(brokers.bootstrap, brokers.zookeeper, brokers.folder)


@pytest.mark.parametrize("name", NAMES)
def test_our_tools_with_apache_kafka_print_the_recorded_lines(
    cluster: TestCluster, tmp_path: Path, name: str
) -> None:
    output = play(our_tool, cluster, name, tmp_path)
    assert comparable(output) == comparable(recorded(name).read_text())


@pytest.mark.parametrize("name", NAMES)
def test_apaches_tools_with_apache_kafka_print_the_recorded_lines(
    cluster: TestCluster, silent_apache_tools: ApacheTools, tmp_path: Path, name: str
) -> None:
    output = play(silent_apache_tools, cluster, name, tmp_path)
    assert comparable(output) == comparable(recorded(name).read_text())


def test_both_replica_verifications_report_a_batch_with_another_checksum(
    cluster: TestCluster, tmp_path: Path
) -> None:
    with replicated(cluster, "checksums"):
        for is_ours in (True, False):
            line = first_line(
                cluster, tmp_path, "checksums", f"offset {BATCHES} among", is_ours=is_ours
            )
            end = f"partition checksums-0 at offset {BATCHES} among 1 partitions"
            assert line == f"max lag is 0 for {end}"
        damage(cluster, "checksums", 3, CRC_POSITION, b"\xff\xff\xff\xfe")
        lines = [
            first_line(cluster, tmp_path, "checksums", "unmatched checksum", is_ours=is_ours)
            for is_ours in (True, False)
        ]
    assert lines[0] == lines[1]
    assert re.fullmatch(
        r"partition checksums-0 has unmatched checksum at offset 3; replica 1's checksum \d+; "
        r"replica 2's checksum 4294967294",
        lines[0],
    )
