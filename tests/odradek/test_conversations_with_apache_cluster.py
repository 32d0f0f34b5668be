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
from tests.odradek.replica_verification import (
    BATCHES,
    CRC_POSITION,
    NAME,
    damage,
    first_line,
    replicated,
)
from tests.support.apache_cluster import apache_cluster

pytestmark = [pytest.mark.judge, pytest.mark.timeout(900)]


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


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_apaches_tools_with_apache_kafka_print_the_recorded_lines(
    cluster: TestCluster, silent_apache_tools: ApacheTools, tmp_path: Path, name: str
) -> None:
    output = play(silent_apache_tools, cluster, name, tmp_path)
    assert comparable(output) == comparable(recorded(name).read_text())


QUOTA_ENTITIES = (
    ["--user", "alice"],
    ["--user-defaults"],
    ["--client", "c 1"],
    ["--client-defaults"],
    ["--user", "alice", "--client", "c 1"],
    ["--user", "alice", "--client-defaults"],
    ["--ip", "127.0.0.9"],
    ["--ip-defaults"],
)


def test_both_tools_describe_quotas_and_credentials_alike(
    cluster: TestCluster, silent_apache_tools: ApacheTools
) -> None:
    at = ["--bootstrap-server", cluster.bootstrap]

    def alter(entity: list[str], *change: str) -> None:
        done = silent_apache_tools("configs", [*at, "--alter", *entity, *change])
        assert done.exit_code == 0, done

    quotas: list[tuple[list[str], str]] = []
    for number, entity in enumerate(QUOTA_ENTITIES):
        quota = "consumer_byte_rate=12345678" if number % 2 else "request_percentage=99.5"
        quotas.append((entity, "connection_creation_rate=700" if "ip" in entity[0] else quota))
    for entity, quota in quotas:
        alter(entity, "--add-config", quota)
    credential = "SCRAM-SHA-256=[iterations=8192,password=p],SCRAM-SHA-512=[password=p]"
    alter(["--user", "bob"], "--add-config", credential)
    for entity in (
        *QUOTA_ENTITIES,
        *(["--entity-type", kind] for kind in ("users", "clients", "ips")),
        ["--entity-type", "users", "--entity-type", "clients"],
        ["--user", "bob"],
        ["--user", "carol"],
    ):
        ours = our_tool("configs", [*at, "--describe", *entity])
        apaches = silent_apache_tools("configs", [*at, "--describe", *entity])
        assert ours.exit_code == apaches.exit_code == 0
        assert sorted(ours.output.splitlines()) == sorted(apaches.output.splitlines()), entity
        assert bool(ours.output) == (entity[-1] != "carol")
    # The other tests of this cluster describe all users, and must not be throttled.
    for entity, quota in quotas:
        alter(entity, "--delete-config", quota.split("=")[0])
    alter(["--user", "bob"], "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")


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


def test_both_replica_verifications_end_when_offsets_differ(
    cluster: TestCluster, tmp_path: Path
) -> None:
    with replicated(cluster, "offsets"):
        damage(cluster, "offsets", 4, 0, (3).to_bytes(8, "big"))
        lines = [
            first_line(cluster, tmp_path, "offsets", "doesn't match", is_ours=is_ours)
            for is_ours in (True, False)
        ]
        words = ["--broker-list", cluster.bootstrap, "--topics-include", "offsets", "--time", "-2"]
        assert our_tool(NAME, words).exit_code == 1
    expected = "partition offsets-0: replica 1's offset 4 doesn't match replica 2's offset 3"
    assert lines == [expected, expected]


def test_replica_verification_without_a_topic_or_with_an_invalid_pattern_is_reported(
    cluster: TestCluster,
) -> None:
    at = ["--broker-list", cluster.bootstrap]
    result = our_tool(NAME, [*at, "--topics-include", "nothing"])
    assert (result.exit_code, result.output) == (1, "")
    assert "] ERROR No topics found. [topics-include] if specified, is either" in result.errors
    result = our_tool(NAME, [*at, "--topic-white-list", "["])
    assert (result.exit_code, result.errors) == (1, "[ is an invalid regex\n")
