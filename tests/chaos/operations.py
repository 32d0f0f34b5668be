"""What administrators do meanwhile: replicas move between brokers and directories, leaders are
elected, topics come, grow and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, Final

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.schema import ZERO_UUID
from tests.chaos.scene import BROKERS, Scene
from tests.chaos.workload import PARTITIONS
from tests.cluster.reassigning import move, wait_for_moves
from tests.support.wire import Closed, Wire

TIMEOUT_MS: Final = 5_000
RESPONSE_S: Final = 8.0
TOPICS_MAX: Final = 6
GROWTH_MAX: Final = 3
GAP_S: Final = 1.5
HEAL_S: Final = 120.0


class Operations:
    """Those of one run; `done` counts the ones that a broker has accepted, and the others."""

    def __init__(self, scene: Scene, random: Random) -> None:
        self.done: Counter[str] = Counter()
        self._scene = scene
        self._cluster = scene.cluster
        self._random = random
        self._numbers = count()
        self._partitions: dict[str, int] = {}
        """Topics that are there, perhaps: how many partitions they have."""
        self._all: list[Callable[[], bool]] = [
            self._create_topic,
            self._delete_topic,
            self._add_partitions,
            self._reassign,
            self._reassign,
            self._elect_leaders,
            self._move_directory,
        ]

    def run(self, is_over: Event) -> None:
        """One after the other, with what comes in their way."""
        while not is_over.wait(self._random.uniform(0.0, GAP_S)):
            operation = self._random.choice(self._all)
            name = operation.__name__.strip("_")
            try:
                is_accepted = operation()
            except (OSError, Closed):
                is_accepted = False
            self.done[name if is_accepted else f"{name}, refused"] += 1

    def settle(self) -> None:
        """The topic has all replicas, the other topics are gone, and so are their logs.

        raises  AssertionError when that takes too long
        """
        cluster, topic = self._cluster, self._scene.topic
        # A session that a fault has cost may have ended just now: no move goes to its broker.
        cluster.wait_for_brokers(timeout_s=HEAL_S)
        replicas = {
            partition: self._random.sample(BROKERS, len(BROKERS)) for partition in range(PARTITIONS)
        }
        move(cluster, topic, replicas)
        wait_for_moves(cluster, topic, replicas)
        cluster.wait(self._delete_all, "topics deleted", timeout_s=HEAL_S)
        cluster.wait(lambda: not self._logs(), "logs of deleted topics gone", timeout_s=HEAL_S)

    def _ask(self, broker_id: int | None, request: Any, version: int) -> Any:
        """The response of a broker; None stands for a controller that is not known."""
        if broker_id is None:
            raise Closed("no controller is known")
        with Wire(self._cluster.brokers[broker_id].address, timeout_s=RESPONSE_S) as wire:
            return wire.call(request, version)

    def _topic(self) -> str | None:
        return self._random.choice(sorted(self._partitions)) if self._partitions else None

    def _create_topic(self) -> bool:
        if len(self._partitions) >= TOPICS_MAX:
            return self._delete_topic()
        name = f"churn-{self._scene.topic}-{next(self._numbers)}"
        self._partitions[name] = self._random.randint(1, 3)
        topic = CreatableTopic(
            name=name,
            num_partitions=self._partitions[name],
            replication_factor=self._random.randint(1, 3),
            assignments=[],
            configs=[],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False)
        response = self._ask(self._scene.controller(), request, 7)
        return not response.topics[0].error_code

    def _delete_topic(self) -> bool:
        name = self._topic()
        return name is not None and self._delete(name)

    def _delete(self, name: str) -> bool:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=TIMEOUT_MS
        )
        response = self._ask(self._scene.controller(), request, 6)
        return not response.responses[0].error_code

    def _add_partitions(self) -> bool:
        name = self._topic()
        if name is None:
            return False
        self._partitions[name] += self._random.randint(1, GROWTH_MAX)
        topic = CreatePartitionsTopic(name=name, count=self._partitions[name], assignments=None)
        request = CreatePartitionsRequest(
            topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False
        )
        response = self._ask(self._scene.controller(), request, 3)
        return not response.results[0].error_code

    def _reassign(self) -> bool:
        """Two or three replicas; or the end of a move that is under way."""
        partition = self._random.randrange(PARTITIONS)
        is_end = self._random.random() < 0.2
        target = None if is_end else self._random.sample(BROKERS, self._random.randint(2, 3))
        assignment = ReassignablePartition(partition_index=partition, replicas=target)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=self._scene.topic, partitions=[assignment])],
            timeout_ms=TIMEOUT_MS,
        )
        response = self._ask(self._scene.controller(), request, 0)
        if response.error_code:
            return False
        return not response.responses[0].partitions[0].error_code

    def _elect_leaders(self) -> bool:
        """The preferred ones, of all partitions."""
        topic = TopicPartitions(topic=self._scene.topic, partitions=list(range(PARTITIONS)))
        request = ElectLeadersRequest(topic_partitions=[topic], timeout_ms=TIMEOUT_MS)
        return not self._ask(self._scene.controller(), request, 2).error_code

    def _move_directory(self) -> bool:
        """To a directory of its broker, perhaps the one where it is."""
        broker_id = self._random.choice(BROKERS)
        path = self._random.choice(self._scene.disks[broker_id]).path
        partition = self._random.randrange(PARTITIONS)
        topic = AlterReplicaLogDirTopic(name=self._scene.topic, partitions=[partition])
        request = AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=str(path), topics=[topic])]
        )
        response = self._ask(broker_id, request, 2)
        return not response.results[0].partitions[0].error_code

    def _delete_all(self) -> bool:
        """Whether no broker knows one of the topics any more."""
        left = {
            name
            for broker_id in self._cluster.running
            for name in self._cluster.topics(of=broker_id)
            if name in self._partitions
        }
        for name in sorted(left):
            self._delete(name)
        return not left

    def _logs(self) -> list[Path]:
        """Folders of the topics that are there."""
        return [
            folder
            for broker in self._cluster.brokers.values()
            for directory in broker.log_directories
            for folder in directory.glob(f"churn-{self._scene.topic}-*")
            if not folder.name.endswith("-delete")
        ]
