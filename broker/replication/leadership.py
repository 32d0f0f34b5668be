"""Obeys the controller: leads, follows, stops and removes replicas as it says.

The controller's word comes in as LeaderAndIsr, UpdateMetadata and StopReplica, the same on a node
that is its own controller and in a cluster.  Repeated words are harmless.
Source: Kafka's ReplicaManager.becomeLeaderOrFollower, Partition.makeLeader, stopReplicas.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.leader import PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.controller.control_requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from odradek.controller.image import TopicPartition
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.randomness import Randomness
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_manager import DirectoryFull, LogManager, NoDirectoryLeft
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig

EPOCH_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1
SLICE_MS: Final = 2
"""How long taking states over may keep the loop from its clients."""

logger = logging.getLogger("odradek.replication")


def topic_key(topic: str) -> tuple[str, str]:
    """What requests watch that wait for a topic to come, change or go."""
    return ("topic", topic)


class LogIsAhead(BrokerError):
    """A log was to be led in a lower leader epoch than its latest one.

    Differs from Kafka: it takes such an epoch.  The records of both epochs then contradict each
    other's offsets, and followers could not tell where they agree.
    """

    def __init__(self, latest_epoch: int) -> None:
        super().__init__(ErrorCode.FENCED_LEADER_EPOCH)
        self.latest_epoch = latest_epoch


class Leadership:
    """The replica side of this broker.

    broker_id    asked for at each use: it may be drawn after this was made
    config_of    a topic's settings, with its overrides
    run_jobs     takes disk jobs that are too slow for the loop
    on_fatal     told why the broker cannot go on
    """

    def __init__(  # noqa: PLR0913 - the doors of a replica
        self,
        *,
        broker_id: Callable[[], int],
        logs: LogManager,
        partitions: Partitions,
        purgatory: Purgatory,
        config_of: Callable[[str], LogConfig],
        run_jobs: Callable[[list[DiskJob]], None],
        clock: Clock,
        rng: Randomness,
        on_fatal: Callable[[str], None],
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._partitions = partitions
        self._purgatory = purgatory
        self._config_of = config_of
        self._run_jobs = run_jobs
        self._clock = clock
        self._rng = rng
        self._on_fatal = on_fatal
        self._without_space: dict[TopicPartition, LeaderAndIsrPartition] = {}
        """Replicas whose logs found no space on the disk; `retry` makes them later."""
        self.run_later: Callable[[Callable[[], None]], None] | None = None
        """Runs work after the loop has served its clients; None at start-up: all at once."""
        self.on_space: Callable[[], None] = lambda: None
        """Called when replicas that the controller regards as offline have found space."""
        self.on_flush_awaited: Callable[[Log], None] = lambda log: None
        """Begins a flush of a log whose responses wait for it (flush.messages)."""
        self.on_leader_change: Callable[[Partition], None] = lambda partition: None
        """Told of each new leader epoch here, and of each partition that is no longer led."""
        self.on_deleted: Callable[[str, int], None] = lambda topic, partition: None
        """Told of deleted partitions."""

    def apply(self, request: ControlRequest) -> Pending[ControlResponse]:
        """Obey one request; errors are told per partition.

        Making a log costs a millisecond of disk, so many of them are made in slices between which
        the loop serves its clients.
        """
        match request:
            case LeaderAndIsr():
                answer: Pending[ControlResponse] = Pending()
                self._lead_or_follow(deque(request.partitions), {}, {}, answer)
                return answer
            case StopReplica():
                return Pending.of(self._stop(request))
            case UpdateMetadata():
                for told in request.partitions:
                    self._purgatory.notify(topic_key(told.topic))
        return Pending.of(ControlResponse())

    def send(
        self,
        broker_id: int,
        request: ControlRequest,
        respond: Callable[[ControlResponse], None],
    ) -> None:
        """Carry a request to another broker; a node on an embedded tree has no other."""
        logger.error(
            "a request for broker %d is dropped: brokers do not reach each other yet", broker_id
        )

    def _lead_or_follow(
        self,
        left: deque[LeaderAndIsrPartition],
        errors: dict[TopicPartition, ErrorCode],
        log_epochs: dict[TopicPartition, int],
        answer: Pending[ControlResponse],
    ) -> None:
        later = self.run_later
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while left:
            told = left.popleft()
            try:
                self._take_state(told)
            except LogIsAhead as error:
                errors[told.topic, told.partition] = error.code
                log_epochs[told.topic, told.partition] = error.latest_epoch
            except BrokerError as error:
                errors[told.topic, told.partition] = error.code
                self._note_refusal(told, error)
            except NoDirectoryLeft as error:
                errors[told.topic, told.partition] = ErrorCode.KAFKA_STORAGE_ERROR
                self._on_fatal(str(error))
            if later is not None and left and self._clock.monotonic_ms() >= end_ms:
                later(lambda: self._lead_or_follow(left, errors, log_epochs, answer))
                return
        answer.resolve(ControlResponse(partition_errors=errors, log_epochs=log_epochs))

    def _take_state(self, told: LeaderAndIsrPartition) -> None:
        """Take a partition's state over.

        raises  BrokerError INCONSISTENT_TOPIC_ID, STALE_CONTROLLER_EPOCH (the leader epoch is not
                greater), UNKNOWN_TOPIC_OR_PARTITION (no replica belongs here), KAFKA_STORAGE_ERROR
                (of which DirectoryFull), LogIsAhead
        """
        partition = self._partitions.get(told.topic, told.partition)
        if partition is not None:
            if partition.log.is_offline:
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
            if partition.topic_id != told.topic_id:
                raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID)
            if told.state.leader_epoch <= partition.leader_epoch:
                raise BrokerError(ErrorCode.STALE_CONTROLLER_EPOCH)
        if self._broker_id() not in told.replicas:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition is None:
            partition = self._open(told)
        self._become(partition, told)
        self._purgatory.notify(partition)
        self._purgatory.notify(topic_key(told.topic))

    def _make_log(self, replica: LeaderAndIsrPartition) -> Log:
        return self._logs.create(
            replica.topic,
            replica.partition,
            self._config_of(replica.topic),
            topic_id=replica.topic_id,
            is_new=replica.is_new,
            now_ms=self._clock.now_ms(),
        )

    def _open(self, told: LeaderAndIsrPartition) -> Partition:
        partition = Partition(
            told.topic,
            told.topic_id,
            told.partition,
            self._make_log(told),
            on_flush_awaited=lambda log: self.on_flush_awaited(log),
        )
        self._partitions.add(partition)
        return partition

    def _become(self, partition: Partition, told: LeaderAndIsrPartition) -> None:
        state = told.state
        log = partition.log
        if state.leader == self._broker_id():
            if state.leader_epoch < log.leader_epochs.latest_epoch:
                raise LogIsAhead(log.leader_epochs.latest_epoch)
            log.assign_epoch(state.leader_epoch, log.end_offset)
            partition.lead(
                PartitionLeader(
                    replica_id=state.leader, in_sync=state.isr, end_offset=log.end_offset
                )
            )
        else:
            partition.leader = None
        partition.leader_id = state.leader
        partition.leader_epoch = state.leader_epoch
        partition.partition_epoch = state.partition_epoch
        partition.isr = state.isr
        partition.replicas = told.replicas
        self.on_leader_change(partition)

    def _note_refusal(self, told: LeaderAndIsrPartition, error: BrokerError) -> None:
        key = (told.topic, told.partition)
        partition = self._partitions.get(*key)
        is_known = partition is not None and partition.log.is_offline
        if is_known or error.code is ErrorCode.STALE_CONTROLLER_EPOCH:
            # The failure of a directory was logged once for all of its partitions.
            return
        if key not in self._without_space:
            logger.warning("%s-%d cannot be taken up: %s", *key, error.message or error.code.name)
        if isinstance(error, DirectoryFull):
            self._without_space[key] = told

    def retry(self) -> None:
        """Make the logs that found no space on the disk.  Once a second.

        The controller regards these replicas as offline until `on_space` is called.
        """
        has_space = False
        for key, told in list(self._without_space.items()):
            try:
                self._make_log(told)
                has_space = True
            except DirectoryFull:
                break
            except BrokerError as error:
                logger.warning("%s-%d has no log: %s", *key, error.message or error.code.name)
            except NoDirectoryLeft as error:
                self._on_fatal(str(error))
                break
            del self._without_space[key]
        if has_space:
            self.on_space()

    def _stop(self, request: StopReplica) -> ControlResponse:
        errors: dict[TopicPartition, ErrorCode] = {}
        removed: list[TopicPartition] = []
        for told in request.partitions:
            if self._is_on_failed_directory(told):
                errors[told.topic, told.partition] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            if self._is_fenced(told):
                errors[told.topic, told.partition] = ErrorCode.FENCED_LEADER_EPOCH
                continue
            partition = self._partitions.remove(told.topic, told.partition)
            if partition is not None:
                partition.leader = None
                self.on_leader_change(partition)
                self._purgatory.notify(partition)
            if told.is_deleted:
                self._without_space.pop((told.topic, told.partition), None)
                removed.append((told.topic, told.partition))
        if removed:
            deletion = self._logs.delete(
                removed, unique=self._rng.uuid().hex, now_ms=self._clock.now_ms()
            )
            self._run_jobs(list(deletion.checkpoints))
            errors |= dict.fromkeys(deletion.missing, ErrorCode.KAFKA_STORAGE_ERROR)
            for topic, index in removed:
                self.on_deleted(topic, index)
        return ControlResponse(partition_errors=errors)

    def _is_on_failed_directory(self, replica: StopReplicaPartition) -> bool:
        """Such a replica stays until the broker restarts: its requests get KAFKA_STORAGE_ERROR."""
        partition = self._partitions.get(replica.topic, replica.partition)
        return partition is not None and partition.log.is_offline

    def _is_fenced(self, told: StopReplicaPartition) -> bool:
        partition = self._partitions.get(told.topic, told.partition)
        return (
            partition is not None
            and told.leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE)
            and told.leader_epoch < partition.leader_epoch
        )
