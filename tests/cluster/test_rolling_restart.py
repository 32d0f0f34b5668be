"""`odradek rolling-restart` under load, and where it stops."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.tools.steering.rolling_restart import command_for, next_broker, trouble
from tests.cluster.acknowledged import check, producing
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.broker_cluster import BrokerCluster

TOPIC = "orders"
PARTITIONS = 6


def pid_files(cluster: BrokerCluster, folder: Path) -> str:
    """A command that ends a broker: it gets SIGTERM, as from an init system."""
    for broker_id in cluster.running:
        write_pid(cluster, folder, broker_id)
    return f"kill -TERM $(cat {folder}/{{id}}.pid)"


def write_pid(cluster: BrokerCluster, folder: Path, broker_id: int) -> None:
    (folder / f"{broker_id}.pid").write_text(str(cluster.brokers[broker_id].process.pid))


def restart_ended(cluster: BrokerCluster, folder: Path) -> list[int]:
    """Start again what has ended, as an init system does; which it was."""
    ended = [
        broker_id
        for broker_id in cluster.running
        if not cluster.brokers[broker_id].process.running()
    ]
    for broker_id in ended:
        cluster.running.remove(broker_id)
        cluster.brokers[broker_id].close()
        cluster.start(broker_id)
        write_pid(cluster, folder, broker_id)
    return ended


def test_restart_under_load_fails_and_loses_no_record(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    controller = cluster.controller()
    others = [broker_id for broker_id in cluster.running if broker_id != controller]
    command = pid_files(cluster, tmp_path)
    words = ["--bootstrap-server", cluster.bootstrap, "--command", command]
    planned = our_tool_here("rolling-restart", [*words, "--dry-run"])
    expected = [*others, controller]
    assert [int(number) for number in re.findall(r"^broker (\d)", planned.output, re.M)] == expected
    restarted = []
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(100, 60)
        process = subprocess.Popen(
            our_command("rolling-restart", words), stdout=subprocess.PIPE, text=True
        )
        try:
            while process.poll() is None:
                restarted += restart_ended(cluster, tmp_path)
                sender.wait_for(1, 60)
            printed, _ = process.communicate()
        finally:
            process.kill()
        sender.wait_for(100, 60)
    assert process.returncode == 0, printed
    assert restarted == expected
    assert printed.endswith(f"Restarted: {', '.join(map(str, cluster.running))}\n")
    assert f"broker {controller} (controller), " in printed
    assert not production.failures
    check(production, cluster.bootstrap)
    # Leaders are where they were.
    for row in cluster.partitions(TOPIC).values():
        assert row.leader_id == row.replica_nodes[0]


def test_broker_that_does_not_come_back_is_named_and_no_other_one_restarted(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    first, *others = sorted(
        cluster.running, key=lambda broker_id: (broker_id == cluster.controller(), broker_id)
    )
    words = ["--bootstrap-server", cluster.bootstrap, "--timeout-ms"]
    command = pid_files(cluster, tmp_path)
    for line, timeout_ms, text in (
        ("exit 3", 15_000, f"stopped at broker {first}: its command ended with 3"),
        (
            "true",
            3_000,
            f"stopped at broker {first}: the command has ended, and the broker was not restarted",
        ),
        ("exec sleep 60", 3_000, f"stopped at broker {first}: its command ran longer than 3000 ms"),
        # Longer than a controlled shutdown takes on a busy machine.
        (
            command,
            15_000,
            f"stopped after the restart of broker {first}: after 15000 ms broker {first} is not",
        ),
        (
            command,
            3_000,
            "stopped before the restart of another broker: after 3000 ms 6 partitions are",
        ),
    ):
        done = our_tool_here("rolling-restart", [*words, str(timeout_ms), "--command", line])
        assert done.exit_code == 1, done
        assert text in done.errors
    assert all(cluster.brokers[other_id].process.running() for other_id in others)


def test_restart_that_would_leave_too_few_replicas_is_refused(cluster: BrokerCluster) -> None:
    cluster.create_topic("alone", assignment={0: [2]}, configs={"min.insync.replicas": "1"})
    words = ["--bootstrap-server", cluster.bootstrap, "--brokers", "2", "--command"]
    done = our_tool_here("rolling-restart", [*words, "true"])
    assert done.exit_code == 1
    assert "1 partitions have no other replica in sync (alone-0)" in done.errors
    done = our_tool_here("rolling-restart", [*words, "restart {name}"])
    assert done.exit_code == 2
    assert "{name} is not one of {id}, {host}, {port}, {rack}" in done.errors
    done = our_tool_here("rolling-restart", [*words, " "])
    assert (done.exit_code, done.errors) == (2, "--command: an empty command restarts no broker\n")


def response(*, isr: list[int], leader: int = 1, controller: int = 1) -> MetadataResponse:
    """Brokers 1 and 2, and one partition of both."""
    row = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=leader, replica_nodes=[1, 2], isr_nodes=isr
    )
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker_id, host="h", port=1) for broker_id in (1, 2)
        ],
        controller_id=controller,
        topics=[MetadataResponseTopic(error_code=0, name="t", partitions=[row])],
    )


@pytest.mark.parametrize(
    ("metadata", "expected", "reason"),
    [
        (response(isr=[1, 2]), [1, 2], None),
        (response(isr=[1, 2]), [1, 2, 3], "broker 3 is not registered"),
        (response(isr=[1]), [1, 2], "1 partitions are under-replicated (t-0)"),
        (response(isr=[1], leader=-1), [1, 2], "1 partitions are offline (t-0)"),
        (response(isr=[1, 2], controller=-1), [1, 2], "there is no controller"),
    ],
)
def test_trouble_is_named(
    metadata: MetadataResponse, expected: list[int], reason: str | None
) -> None:
    assert trouble(metadata, expected) == reason


def test_controller_comes_last_and_values_are_quoted() -> None:
    assert next_broker([3, 1, 2], 1) == 2
    assert next_broker([1], 1) == 1
    broker = MetadataResponseBroker(node_id=4, host="a; rm -rf b", port=9, rack=None)
    assert command_for("ssh {host} x {id} '{rack}'", broker) == "ssh 'a; rm -rf b' x 4 ''''"
