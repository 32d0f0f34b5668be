"""Moves of replicas between the log directories of a broker.

Source: Kafka 3.9's ReassignPartitionsCommand (findLogDirMoveStates, executeMoves) and its admin
client (describeReplicaLogDirs, alterReplicaLogDirs).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.topic_partition import TopicPartition, by_topic
from odradek.tools.client import Client
from odradek.tools.errors import ToolError, error_name
from odradek.tools.reassign_partitions.plan import TopicPartitionReplica

PAUSE_MS: Final = 100


class TerseError(ToolError):
    """Kafka's tool prints the message alone, without `Error: ` before it."""


class LogDirState(NamedTuple):
    """Where a replica is, and where it should be."""

    target: str
    current: str | None
    """None: the broker has it in no live directory."""
    future: str | None
    """None: it does not move."""

    @property
    def is_done(self) -> bool:
        """Whether nothing moves any more."""
        return self.current is not None and self.future is None

    def line(self, replica: TopicPartitionReplica) -> str:
        """The line of --verify."""
        name = f"Partition {replica.topic}-{replica.partition}"
        if self.current is None:
            return (
                f"{name} is not found in any live log dir on broker {replica.broker}. There is "
                "likely an offline log directory on the broker."
            )
        if self.future is None:
            if self.current == self.target:
                return f"Reassignment of replica {replica} completed successfully."
            return (
                f"{name} on broker {replica.broker} is not being moved from log dir {self.current} "
                f"to {self.target}."
            )
        if self.future == self.target:
            return f"Reassignment of replica {replica} is still in progress."
        return (
            f"{name} on broker {replica.broker} is being moved to log dir {self.future} instead of "
            f"{self.target}."
        )


def find_states(
    client: Client, targets: Mapping[TopicPartitionReplica, str]
) -> dict[TopicPartitionReplica, LogDirState]:
    """The state of each replica.

    raises  ToolError
    """
    directories: dict[tuple[TopicPartitionReplica, bool], str] = {}
    for broker, replicas in _by_broker(targets).items():
        topics = [
            DescribableLogDirTopic(topic=name, partitions=partitions)
            for name, partitions in by_topic(_partitions(replicas)).items()
        ]
        response = client.broker(broker).request(
            DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse
        )
        for result in response.results:
            if result.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                continue
            if result.error_code:
                raise ToolError(
                    f"The error {error_name(result.error_code)} for log directory "
                    f"{result.log_dir} in the response from broker {broker} is illegal"
                )
            for topic in result.topics:
                for partition in topic.partitions:
                    replica = TopicPartitionReplica(broker, topic.name, partition.partition_index)
                    directories[replica, partition.is_future_key] = result.log_dir
    return {
        replica: LogDirState(
            target, directories.get((replica, False)), directories.get((replica, True))
        )
        for replica, target in targets.items()
    }


def _by_broker(replicas: Iterable[TopicPartitionReplica]) -> dict[int, list[TopicPartitionReplica]]:
    brokers: dict[int, list[TopicPartitionReplica]] = {}
    for replica in replicas:
        brokers.setdefault(replica.broker, []).append(replica)
    return brokers


def _partitions(replicas: Iterable[TopicPartitionReplica]) -> Iterable[TopicPartition]:
    return (TopicPartition(replica.topic, replica.partition) for replica in replicas)


def move_replicas(
    client: Client, targets: Mapping[TopicPartitionReplica, str], timeout_ms: int
) -> None:
    """Start to move replicas; wait for those that their broker does not have yet.

    raises  ToolError, also when `timeout_ms` is over; ClientError
    """
    deadline = time.monotonic() + timeout_ms / 1000
    pending = dict(targets)
    while True:
        for replica in sorted(_start(client, pending)):
            directory = pending.pop(replica)
            print(
                f"Successfully started moving log directory to {directory} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker} "
            )
        if not pending:
            return
        if time.monotonic() >= deadline:
            plural = "" if len(pending) == 1 else "s"
            raise TerseError(
                f"Timed out before log directory move{plural} could be started for: "
                + ",".join(map(str, sorted(pending)))
            )
        time.sleep(PAUSE_MS / 1000)


def _start(
    client: Client, targets: Mapping[TopicPartitionReplica, str]
) -> list[TopicPartitionReplica]:
    """The replicas whose brokers have accepted the directory."""
    started = []
    for broker, replicas in _by_broker(targets).items():
        directories: dict[str, list[TopicPartitionReplica]] = {}
        for replica in replicas:
            directories.setdefault(targets[replica], []).append(replica)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=partitions)
                        for name, partitions in by_topic(_partitions(moved)).items()
                    ],
                )
                for path, moved in directories.items()
            ]
        )
        response = client.broker(broker).request(request, AlterReplicaLogDirsResponse)
        for topic in response.results:
            for partition in topic.partitions:
                replica = TopicPartitionReplica(broker, topic.topic_name, partition.partition_index)
                if not partition.error_code:
                    started.append(replica)
                elif partition.error_code != ErrorCode.REPLICA_NOT_AVAILABLE:
                    raise ToolError(f"Failed to alter dir for {replica}")
    return started
