"""The tools, ours and Apache Kafka's, print the recorded lines with a cluster of our brokers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.odradek.cluster_tools import TestCluster, our_cluster, our_tool, play, recorded, settle
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
from tests.support.compacted import wait_until
from tests.support.transactional_workers import producer_of

pytestmark = [pytest.mark.client, pytest.mark.timeout(900)]

SERVED = (
    "admin",
    "configs",
    "groups",
    "leader_election",
    "log_dirs",
    "reassign_partitions",
    "reassign_throttled",
)


OF_PARTITION = ("describe-producers", "--topic", "transacted", "--partition", "1")


def as_our_brokers_say_it(text: str) -> str:
    """The text without the differences between the brokers.

    A broker with DescribeTopicPartitions returns an empty list of eligible replicas instead of
    none, and serves other versions; our brokers have a static min.insync.replicas, and name no
    class of Scala in errors.
    """
    text = re.sub(r"^  \t\w+\(\d+\): .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"(Elr|LastKnownElr): ?(?:N/A)?", r"\1: ", text)
    text = re.sub(r"(?<=Configs:) *(.*=.*)?$", _sorted_configs, text, flags=re.MULTILINE)
    return re.sub(r"Set\(([\w.]+)\)", r"\1", text)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """Three of our brokers."""
    with our_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def _sorted_configs(match: re.Match[str]) -> str:
    configs = re.split(r",(?=[a-z])", match[1] or "")
    return " " + ",".join(sorted(config for config in configs if config != "min.insync.replicas=1"))


@pytest.mark.parametrize("name", SERVED)
def test_our_tools_with_our_brokers_print_the_recorded_lines(
    cluster: TestCluster, tmp_path: Path, name: str
) -> None:
    output = play(our_tool, cluster, name, tmp_path)
    assert comparable(as_our_brokers_say_it(output)) == comparable(
        as_our_brokers_say_it(recorded(name).read_text())
    )


@pytest.mark.judge
@pytest.mark.parametrize("name", SERVED)
def test_apaches_tools_with_our_brokers_print_the_recorded_lines(
    cluster: TestCluster, silent_apache_tools: ApacheTools, tmp_path: Path, name: str
) -> None:
    output = play(silent_apache_tools, cluster, name, tmp_path)
    assert comparable(as_our_brokers_say_it(output)) == comparable(
        as_our_brokers_say_it(recorded(name).read_text())
    )


@pytest.mark.judge
def test_both_tools_print_the_versions_that_our_brokers_serve(
    cluster: TestCluster, silent_apache_tools: ApacheTools
) -> None:
    at = ["--bootstrap-server", cluster.bootstrap]
    ours = our_tool("broker-api-versions", at)
    apaches = silent_apache_tools("broker-api-versions", at)
    assert (ours.exit_code, ours.output.count(" -> (")) == (0, 3)
    assert sorted(ours.output.splitlines()) == sorted(apaches.output.splitlines())


@pytest.mark.judge
def test_both_tools_print_transactions_of_all_coordinators_and_producers_of_all_replicas(
    cluster: TestCluster, silent_apache_tools: ApacheTools
) -> None:
    at = ["--bootstrap-server", cluster.bootstrap]
    created = ["--create", "--topic", "transacted", "--replica-assignment", "1:2:3,2:3:1"]
    assert our_tool("topics", [*at, *created]).exit_code == 0
    settle(cluster)
    producers = [producer_of(cluster.bootstrap, f"id-{number}") for number in range(12)]
    for number, producer in enumerate(producers):
        producer.begin_transaction()
        producer.produce("transacted", b"value", partition=number % 2)
        producer.flush()
    settle(cluster)

    def rows(*words: str) -> list[list[str]]:
        ours = our_tool("transactions", [*at, *words])
        apaches = silent_apache_tools("transactions", [*at, *words])
        assert sorted(ours.output.splitlines()) == sorted(apaches.output.splitlines())
        assert (ours.exit_code, ours.errors) == (apaches.exit_code, apaches.errors) == (0, "")
        return [line.split() for line in ours.output.splitlines()[1:]]

    listed = rows("list")
    assert sorted(row[0] for row in listed) == sorted(f"id-{number}" for number in range(12))
    assert len({row[1] for row in listed}) > 1, "of several coordinators"
    described = {
        tuple(row[:2]) for broker in "123" for row in rows(*OF_PARTITION, "--broker-id", broker)
    }
    assert len(described) == 6, "each replica knows the same producers"
    assert {tuple(row[:2]) for row in rows(*OF_PARTITION)} == described
    assert rows("find-hanging", "--topic", "transacted", "--max-transaction-timeout", "0") == []
    for producer in producers:
        producer.abort_transaction()
    assert our_tool("topics", [*at, "--delete", "--topic", "transacted"]).exit_code == 0
    settle(cluster)


@pytest.mark.judge
def test_both_replica_verifications_find_equal_replicas_and_then_a_difference(
    cluster: TestCluster, tmp_path: Path
) -> None:
    with replicated(cluster, "equal"):
        for is_ours in (True, False):
            line = first_line(
                cluster, tmp_path, "equal", f"offset {BATCHES} among", is_ours=is_ours
            )
            end = f"partition equal-0 at offset {BATCHES} among 1 partitions"
            assert line == f"max lag is 0 for {end}"
        damage(cluster, "equal", 3, CRC_POSITION, b"\xff\xff\xff\xfe")
        lines = [
            first_line(cluster, tmp_path, "equal", "unmatched checksum", is_ours=is_ours)
            for is_ours in (True, False)
        ]
    assert lines[0] == lines[1]


@pytest.mark.judge
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


@pytest.mark.judge
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
    wait_for_credentials(cluster, "bob", are_stored=True)
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
    wait_for_credentials(cluster, "bob", are_stored=False)


def wait_for_credentials(cluster: TestCluster, user: str, *, are_stored: bool) -> None:
    """Wait until each broker has been notified of the credentials of a user, or of their end."""

    def have_all_been_notified() -> bool:
        return all(
            bool(our_tool("configs", ["--bootstrap-server", address, *words]).output) == are_stored
            for address in cluster.bootstrap.split(",")
        )

    words = ["--describe", "--user", user]
    wait_until("all brokers are notified", have_all_been_notified)
