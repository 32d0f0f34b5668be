"""The replicas of one broker without a node: logs, and control requests applied to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from uuid import UUID

from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.full_directories import FullDirectories
from odradek.broker.replication.leader import InSyncRules
from odradek.broker.replication.leadership import Leadership, LeadershipObserver
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.resting_replicas import RestingReplicas
from odradek.controller.image.control_requests import (
    ControlResponse,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
)
from odradek.controller.image.image import PartitionState
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import Broker

BROKER_ID = 1
TOPIC_ID = UUID(int=9)
LAG_TIME_MAX_MS = 30_000


class Replicas:
    """The logs and partitions of a broker; `restart` opens the same files again."""

    def __init__(
        self,
        *,
        config: LogConfig | None = None,
        folders: tuple[str, ...] = ("/a",),
        files: MemoryFileSystem | None = None,
    ) -> None:
        self.files = MemoryFileSystem(folders=folders) if files is None else files
        self.folders = folders
        self.config = LogConfig() if config is None else config
        self.clock = VirtualClock()
        self.fatal: list[str] = []
        self.awaited: list[Log] = []
        self.held_jobs: list[DiskJob] | None = None
        """A list takes the jobs instead of running them."""
        self.leader_epoch = 0
        self.live = [1, 2, 3]
        self.observers: list[LeadershipObserver] = []
        self._begin()

    def step(self, deferred: deque[Callable[[], None]], wheel: TimingWheel) -> bool:
        """Call what is deferred, or wait for the next timer; False when nothing is left."""
        if deferred:
            deferred.popleft()()
            return True
        wake_ms = wheel.next_opening_ms()
        if wake_ms is None:
            return False
        self.clock.advance(max(0, wake_ms - self.clock.monotonic_ms()))
        for callback in wheel.advance(self.clock.monotonic_ms()):
            callback()
        return True

    def _monotonic_ms(self) -> int:
        return self.clock.monotonic_ms()

    def _perform(self, jobs: Sequence[DiskJob]) -> None:
        """As `DiskJobRunner`, but within the call, unless the jobs are held."""
        if self.held_jobs is not None:
            self.held_jobs += jobs
            return
        try:
            self.stored.perform(jobs)
        except NoDirectoryLeft as error:
            self.fatal.append(str(error))

    def _begin(self) -> None:
        self.stored = Broker(self.files, list(self.folders)).start(lambda _: self.config)
        self.partitions = Partitions()
        self.purgatory = Purgatory(
            TimingWheel(self.clock.monotonic_ms()), BrokerMetrics(), Purgatory.run_notified
        )
        self.full_directories = FullDirectories()
        self.metadata = MetadataCache()
        self.resting = RestingReplicas(
            BROKER_ID, self.full_directories, self.stored.manager, lambda: self.metadata.image
        )
        self.leadership = Leadership(
            broker_id=BROKER_ID,
            logs=self.stored.manager,
            partitions=self.partitions,
            purgatory=self.purgatory,
            config_of=lambda _: self.config,
            run_jobs=self._perform,
            on_flush_awaited=self.awaited.append,
            in_sync_rules=InSyncRules(LAG_TIME_MAX_MS, self.live.__contains__, self._monotonic_ms),
            resting=self.resting,
            observers=self.observers,
            clock=self.clock,
            rng=SeededRandomness(1),
            on_fatal=self.fatal.append,
        )

    def lead(
        self,
        topic: str = "orders",
        *,
        in_sync: tuple[int, ...] = (BROKER_ID,),
        index: int = 0,
        replicas: tuple[int, ...] | None = None,
    ) -> Partition:
        """Become the leader in a new leader epoch; broker 2 is the other replica, if in sync."""
        return self._taken(topic, index, BROKER_ID, in_sync, replicas)

    def follow(self, topic: str = "orders", *, index: int = 0) -> Partition:
        """Become a follower of broker 2 in a new leader epoch."""
        return self._taken(topic, index, 2, (BROKER_ID, 2))

    def _taken(
        self,
        topic: str,
        index: int,
        leader: int,
        in_sync: tuple[int, ...],
        replicas: tuple[int, ...] | None = None,
    ) -> Partition:
        self.leader_epoch += 1
        response = self.send_state(topic, index, leader, in_sync, self.leader_epoch, replicas)
        assert response.partition_errors == {}
        return self.partitions.held(topic, index)

    def send_state(
        self,
        topic: str,
        index: int,
        leader: int,
        in_sync: tuple[int, ...],
        leader_epoch: int,
        replicas: tuple[int, ...] | None = None,
        *,
        topic_id: UUID = TOPIC_ID,
        is_new: bool = False,
    ) -> ControlResponse:
        """A LeaderAndIsr of one partition."""
        if replicas is None:
            replicas = (BROKER_ID, 2) if in_sync != (BROKER_ID,) else (BROKER_ID,)
        partition = LeaderAndIsrPartition(
            topic=topic,
            topic_id=topic_id,
            partition=index,
            state=PartitionState(leader, leader_epoch, in_sync, leader_epoch, 1),
            replicas=replicas,
            adding=(),
            removing=(),
            is_new=is_new,
        )
        request = LeaderAndIsr(BROKER_ID, 1, -1, (partition,), ())
        return self.leadership.apply(request).result()

    def stop(
        self, topic: str = "orders", *, is_deleted: bool, index: int = 0
    ) -> dict[TopicPartition, ErrorCode]:
        """A StopReplica of one partition; its errors."""
        partition = StopReplicaPartition(topic, index, -1, is_deleted)
        request = StopReplica(BROKER_ID, 1, -1, (partition,))
        return dict(self.leadership.apply(request).result().partition_errors)

    def checkpoint(self) -> None:
        """A round of checkpoints, the high watermarks too."""
        self.stored.perform(self.stored.upkeep.checkpoint())
        self.stored.perform(self.stored.upkeep.checkpoint_high_watermarks())

    def restart(self, *, is_clean: bool) -> None:
        """Stop or die, and start on the same files."""
        if is_clean:
            self.stored.stop()
        else:
            for directory in self.stored.manager.directories.values():
                directory.release()
        self._begin()
