"""Records which znodes Apache Kafka's controller writes, with three brokers.

`python -m tests.scripts.controller_writes` plays `tests/support/controller_actions.py`; what
ZooKeeper's log contains afterwards goes to tests/golden/controller_writes.json, by topic or by path
below /admin.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.schema import ZERO_UUID
from tests.support.apache import ApacheBroker, apache_kafka
from tests.support.controller_actions import BROKERS, SCENARIOS, Write
from tests.support.tool_cache import PROJECT
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper
from tests.support.zookeeper_log import operations

GOLDEN: Final = PROJECT / "tests" / "golden" / "controller_writes.json"
SESSION_MS: Final = 4_000
QUIET_S: Final = 3.0
"""Nothing is under way when no znode was written for so long."""
SETTINGS: Final = {
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "controlled.shutdown.retry.backoff.ms": "500",
}
TOPIC_ID: Final = re.compile(r'"topic_id":"[^"]*",')
OWNERS: Final = re.compile(r"(?:/brokers/topics|/config/topics|/admin/delete_topics)/([^/]+)")


def by_owner(writes: Iterable[tuple[str, str, bytes]]) -> dict[str, list[Write]]:
    """The writes of topics, and of other znodes below /admin, in their order."""
    owners: dict[str, list[Write]] = {}
    for operation, path, data in writes:
        owner = OWNERS.match(path)
        if owner is None and (not path.startswith("/admin/") or operation == "create"):
            continue
        name = path if owner is None else owner[1]
        text = TOPIC_ID.sub("", data.decode())
        owners.setdefault(name, []).append([operation, path, text])
    owners.pop("/admin/delete_topics", None)
    return owners


class ApacheCluster:
    """`controller_actions.Cluster` of real brokers."""

    def __init__(self, brokers: Mapping[int, ApacheBroker], client: KazooClient) -> None:
        self._brokers = brokers
        self._client = client
        self._wire = Wire(brokers[1].address)

    def create(self, topic: str, replicas: Sequence[int]) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        request = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assignment],
            configs=[],
        )
        response = self._wire.call(CreateTopicsRequest(topics=[request]), 7)
        assert response.topics[0].error_code == 0, response

    def move(self, topic: str, target: Sequence[int] | None) -> None:
        replicas = None if target is None else list(target)
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        request = ReassignableTopic(name=topic, partitions=[partition])
        response = self._wire.call(AlterPartitionReassignmentsRequest(topics=[request]), 0)
        assert response.responses[0].partitions[0].error_code == 0, response

    def elect(self, topic: str) -> None:
        named = TopicPartitions(topic=topic, partitions=[0])
        self._wire.call(ElectLeadersRequest(election_type=0, topic_partitions=[named]), 2)

    def delete(self, topic: str) -> None:
        state = DeleteTopicState(name=topic, topic_id=ZERO_UUID)
        self._wire.call(DeleteTopicsRequest(topics=[state], timeout_ms=30_000), 6)

    def write(self, path: str, content: Mapping[str, Any]) -> None:
        self._client.create(path, json.dumps(content, separators=(",", ":")).encode())

    def kill(self, broker_id: int) -> None:
        self._brokers[broker_id].process.kill()
        time.sleep(2 * SESSION_MS / 1_000)

    def shut_down(self, broker_id: int) -> None:
        self._brokers[broker_id].process.stop(timeout_s=60.0)

    def settle(self) -> None:
        """Wait for a while without writes: what is under way writes within milliseconds."""
        before, since = b"", time.monotonic()
        while time.monotonic() - since < QUIET_S:
            now = re.search(rb"Zxid: (\w+)", self._client.command(b"srvr").encode())
            assert now is not None
            if now[1] != before:
                before, since = now[1], time.monotonic()
            time.sleep(0.1)

    def close(self) -> None:
        self._wire.close()


def record(folder: Path) -> dict[str, list[Write]]:
    """Play everything on three brokers."""
    with ExitStack() as stack:
        address = stack.enter_context(zookeeper(folder / "zookeeper"))
        brokers = {
            broker_id: stack.enter_context(
                apache_kafka(
                    folder / str(broker_id),
                    zookeeper_address=address,
                    overrides={**SETTINGS, "broker.id": str(broker_id)},
                )
            )
            for broker_id in BROKERS
        }
        client = KazooClient(address)
        client.start()
        stack.callback(client.stop)
        cluster = ApacheCluster(brokers, client)
        stack.callback(cluster.close)
        for scenario in SCENARIOS:
            scenario(cluster)
            cluster.settle()
            print(scenario.__name__, flush=True)
        (log,) = sorted((folder / "zookeeper" / "data" / "version-2").glob("log.*"))
        return by_owner(operations(log))


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as folder:
        writes = record(Path(folder))
    GOLDEN.write_text(json.dumps(writes, indent=1) + "\n")


if __name__ == "__main__":
    main()
