"""A node that leads one partition of an internal topic, in memory and on a clock of its own."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.leader import InSyncRules, PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.controller.image.image import PartitionState
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel
from tests.support.log_directories import Broker


class CoordinatorHost:
    """Clock, timers, purgatory, and the partition, which has no leader yet.

    in_sync   ids of the brokers in sync; this one is 1
    replicas  None: those in sync
    """

    def __init__(
        self, topic: str, in_sync: tuple[int, ...] = (1,), replicas: tuple[int, ...] | None = None
    ) -> None:
        self.clock = VirtualClock()
        self.wheel = TimingWheel(self.clock.monotonic_ms())
        self.purgatory = Purgatory(self.wheel, BrokerMetrics(), Purgatory.run_notified)
        self.files = MemoryFileSystem(folders=["/a"])
        log = Broker(self.files, ["/a"]).start().create(topic)
        self.partition = Partition(topic, UUID(int=1), 0, log)
        self.partition.leader_epoch = 0
        self.in_sync = in_sync
        self.replicas = replicas

    def lead_again(self) -> None:
        """Lead in a new leader epoch."""
        log, leader_epoch = self.partition.log, self.partition.leader_epoch + 1
        log.head.epochs.assign(leader_epoch, log.end_offset)
        self.partition.apply_state(
            PartitionState(1, leader_epoch, self.in_sync, leader_epoch, controller_epoch=1),
            PartitionLeader(
                replica_id=1,
                leader_epoch=leader_epoch,
                replicas=self.replicas or self.in_sync,
                in_sync=self.in_sync,
                end_offset=log.end_offset,
                rules=InSyncRules(30_000, lambda _: True, self.clock.monotonic_ms),
                now_ms=self.clock.monotonic_ms(),
            ),
        )

    def lose_followers(self) -> None:
        """The others die: this broker alone is in sync, which is fewer than
        min.insync.replicas."""
        leader, log = self.partition.leader, self.partition.log
        assert leader is not None
        log.config = replace(log.config, min_insync_replicas=2)
        self.replicas, self.in_sync = self.in_sync, (1,)
        leader.commit(self.in_sync)
        self.purgatory.notify(self.partition)
        self.purgatory.run_notified()

    def regain_follower(self) -> None:
        """Broker 2 is in sync again."""
        leader = self.partition.leader
        assert leader is not None
        self.in_sync = (1, 2)
        leader.commit(self.in_sync)

    def wait(self, wait_ms: int) -> None:
        """Advance the clock, and run what is due."""
        for _ in range(wait_ms):
            self.clock.advance(1)
            for callback in self.wheel.advance(self.clock.monotonic_ms()):
                callback()
            self.purgatory.run_notified()

    def replicate(self) -> None:
        """Broker 2 fetches everything."""
        leader, end_offset = self.partition.leader, self.partition.log.end_offset
        assert leader is not None
        leader.followers[2].on_fetch(
            end_offset, 0, leader_end_offset=end_offset, broker_epoch=-1, now_ms=0
        )
        self.partition.update_high_watermark()
        self.purgatory.notify(self.partition)
        self.purgatory.run_notified()
