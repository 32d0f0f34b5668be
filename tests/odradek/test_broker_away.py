"""Tools beside a broker that is down or does not respond."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.reassign_partitions.cluster import list_reassignments
from odradek.tools.steering.cluster_queries import partition_statuses
from odradek.tools.steering.execution import throttled_topics
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.compacted import wait_until
from tests.support.processes import take_interrupts

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

WAIT_S = 60.0
OLD_WAIT_S = 35.0
"""How long a response is waited for by a tool that is not stopped."""
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    # A broker that does not respond stays registered.
    "zookeeper.session.timeout.ms": "300000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    folder = tmp_path_factory.mktemp("away")
    with broker_cluster(folder, zookeeper_connect=None, overrides=SETTINGS) as brokers:
        yield brokers


def moving(cluster: BrokerCluster, topic: str) -> list[TopicPartition]:
    """The partitions of a topic that are reassigned."""
    with closing(Client(cluster.bootstrap)) as client:
        return [key for key in list_reassignments(client) if key.topic == topic]


def test_verify_removes_the_throttle_of_a_topic_while_a_broker_is_down(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    away = next(number for number in (3, 2) if number != cluster.controller())
    cluster.create_topic("moved", assignment={0: [1]})
    plan = tmp_path / "plan.json"
    row = {"topic": "moved", "partition": 0, "replicas": [1, away]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    words = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan)]
    done = our_tool_here("reassign-partitions", [*words, "--execute", "--throttle", "100000000"])
    assert "throttle limit was set to 100000000 B/s" in done.output, done
    wait_until("the end of the move", lambda: not moving(cluster, "moved"))
    cluster.stop(away)
    try:
        done = our_tool_here("reassign-partitions", [*words, "--verify"])
        with closing(Client(cluster.bootstrap)) as client:
            assert throttled_topics(client, ["moved"]) == []
    finally:
        cluster.start(away)
        cluster.wait_for_brokers()
    assert done.exit_code == 1, done
    assert done.output.splitlines()[-3:] == [
        "Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topic moved",
        f"The throttle of broker {away} is left: the cluster has no broker {away}",
    ]


def test_cancel_beside_a_broker_that_is_down_fails_with_what_is_left(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    away = next(number for number in (3, 2) if number != cluster.controller())
    cluster.create_topic("cancelled", assignment={0: [1]})
    plan = tmp_path / "plan.json"
    row = {"topic": "cancelled", "partition": 0, "replicas": [away]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    words = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    # More than one fetch takes, which no throttle divides.
    for _ in range(200):
        producer.produce("cancelled", b"v" * 15_000)
    assert producer.flush(WAIT_S) == 0
    done = our_tool_here("reassign-partitions", [*words, "--execute", "--throttle", "1000"])
    assert done.exit_code == 0, done
    cluster.stop(away)
    try:
        done = our_tool_here("reassign-partitions", [*words, "--cancel"])
        with closing(Client(cluster.bootstrap)) as client:
            assert throttled_topics(client, ["cancelled"]) == []
        assert not moving(cluster, "cancelled")
    finally:
        cluster.start(away)
        cluster.wait_for_brokers()
    assert (done.exit_code, done.errors) == (1, "")
    assert done.output.splitlines()[0] == (
        "Successfully cancelled partition reassignment for: cancelled-0"
    )
    assert done.output.splitlines()[-1] == (
        f"The throttle of broker {away} is left: the cluster has no broker {away}"
    )
    repeated = our_tool_here("reassign-partitions", [*words, "--cancel"])
    assert repeated.exit_code == 0, repeated


def test_stopped_rebalance_does_not_wait_long_for_a_broker_that_is_frozen(
    cluster: BrokerCluster,
) -> None:
    frozen = next(number for number in (3, 2) if number != cluster.controller())
    cluster.create_topic("slow", assignment={index: [1] for index in range(6)})
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    # More than one fetch of a partition takes, which no throttle divides.
    for index in range(1_200):
        producer.produce("slow", b"v" * 15_000, partition=index % 6)
    assert producer.flush(WAIT_S) == 0
    words = ["--bootstrap-server", cluster.bootstrap, "--sample-ms", "1", "--execute"]
    words += ["--throttle", "1000", "--exclude-topics", "(?!slow$).*", "--goals", "replicas"]
    process = subprocess.Popen(
        our_command("rebalance", words),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=take_interrupts,
    )
    try:
        wait_until("replicas move", lambda: bool(moving(cluster, "slow")), timeout_s=WAIT_S)
        cluster.pause(frozen)
        began_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=2 * WAIT_S)
        elapsed_s = time.monotonic() - began_s
    finally:
        process.kill()
        process.communicate()
        cluster.resume(frozen)
    assert process.returncode == 130, printed
    assert f"The throttle of broker {frozen} is left: " in printed
    assert re.search(r"^Cancelled: \d reassignments", printed, re.M), printed
    assert elapsed_s < OLD_WAIT_S
    assert not moving(cluster, "slow")
    with closing(Client(cluster.bootstrap)) as client:
        statuses = partition_statuses(client.metadata(["slow"]))
        assert {status.replicas for status in statuses.values()} == {(1,)}
        assert throttled_topics(client, ["slow"]) == []
