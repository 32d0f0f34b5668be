"""Replicas on full directories rest, so that the controller has others lead and in sync.

A replica that rests responds to LeaderAndIsr with KAFKA_STORAGE_ERROR, as one on a failed
directory: the controller elects another leader, takes it out of the in-sync replicas, and sends
StopReplica.  Its log stays, and its retention goes on.  When the directory has space the controller
is asked to look again; the replica follows, comes into sync, and the preferred election makes it
lead again.

A leader rests only while another in-sync replica can lead, a follower while it has a leader: the
last in-sync replica goes on serving reads, and with several full brokers each partition keeps it.
If the other one dies before the controller has elected it, the partition has no leader until this
broker's next report, a few seconds later.  An Apache controller then elects none until a broker
registers or leaves; with unclean elections it may elect a replica that lacks records.
Differs from Kafka: there the whole directory fails, until the broker starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from odradek.broker.replication.full_directories import FullDirectories
from odradek.broker.replication.partition import Partition
from odradek.controller.image.image import Image, PartitionState
from odradek.protocol.topic_partition import TopicPartition
from odradek.storage.directories.log_manager import LogManager

REPORT_MS: Final = 5_000
"""To the controller, while what it does is awaited; doubled with each report up to the maximum."""
REPORT_MAX_MS: Final = 60_000


class RestingReplicas:
    """The replicas of one broker that rest.

    full   the directories without space
    image  returns the broker's image of the cluster
    """

    def __init__(
        self, broker_id: int, full: FullDirectories, logs: LogManager, image: Callable[[], Image]
    ) -> None:
        self._broker_id = broker_id
        self._full = full
        self._logs = logs
        self._image = image
        self._resting: dict[TopicPartition, None] = {}
        """Replicas whose last LeaderAndIsr was refused."""
        self._report_ms = 0
        self._wait_ms = REPORT_MS

    def must_rest(self, key: TopicPartition, state: PartitionState) -> bool:
        """Whether the replica is on a full directory and others can do without it."""
        if not self._full.count:
            return False
        log = self._logs.get(*key)
        if log is None or not self._full.is_full(self._logs.directory_of(log).path):
            return False
        image = self._image()
        partition = image.partition(*key)
        offline = () if partition is None else partition.offline_replicas
        others = state.isr if state.leader == self._broker_id else (state.leader,)
        return any(
            broker_id != self._broker_id and broker_id in image.brokers and broker_id not in offline
            for broker_id in others
        )

    def note(self, key: TopicPartition, *, is_resting: bool) -> None:
        """A LeaderAndIsr of the replica was refused because it rests, or was not."""
        if is_resting:
            self._resting[key] = None
        elif self._resting:
            self._resting.pop(key, None)

    def is_report_due(self, partitions: Iterable[Partition], now_ms: int) -> bool:
        """Whether the controller must send LeaderAndIsr again, because replicas should rest, or no
        longer; call it once a second.

        cost  a look at each partition while a directory is full
        """
        if not self._is_unsettled(partitions):
            self._wait_ms, self._report_ms = REPORT_MS, 0
            return False
        if now_ms < self._report_ms:
            return False
        self._report_ms = now_ms + self._wait_ms
        self._wait_ms = min(2 * self._wait_ms, REPORT_MAX_MS)
        return True

    def _is_unsettled(self, partitions: Iterable[Partition]) -> bool:
        if any(not self._should_rest(key) for key in self._resting):
            return True
        if not self._full.count:
            return False
        for partition in partitions:
            key = TopicPartition(partition.topic, partition.index)
            is_served = partition.leader is not None or key not in self._resting
            if is_served and self._should_rest(key):
                return True
        return False

    def _should_rest(self, key: TopicPartition) -> bool:
        partition = self._image().partition(*key)
        if partition is None or partition.state is None:
            return False
        return self.must_rest(key, partition.state)
