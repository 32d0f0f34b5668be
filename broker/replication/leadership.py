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

from broker.delayed import Purgatory
from broker.replication.leader import PartitionLeader
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from controller.control import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from controller.coordination.pending import Pending
from controller.image import TopicPartition
from protocol.errors import BrokerError, ErrorCode
from runtime.clock import Clock
from runtime.rng import Rng
from storage.disk_jobs import DiskJob
from storage.log_config import LogConfig
from storage.manager import LogManager, NoDirectoryLeft

EPOCH_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1
SLICE_MS: Final = 2
"""How long taking states over may keep the loop from its clients."""

logger = logging.getLogger("odradek.replication")


def topic_key(topic: str) -> tuple[str, str]:
    """What requests watch that wait for a topic to come, change or go."""
    return ("topic", topic)


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
        rng: Rng,
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
        self._refused: dict[TopicPartition, LeaderAndIsrPartition] = {}
        """States that the disk did not let us take up; `retry` does."""
        self.run_later: Callable[[Callable[[], None]], None] | None = None
        """Runs work after the loop has served its clients; None at start-up: all at once."""
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
                self._lead_or_follow(deque(request.partitions), {}, answer)
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
        answer: Pending[ControlResponse],
    ) -> None:
        later = self.run_later
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while left:
            told = left.popleft()
            try:
                self._take_state(told)
            except BrokerError as error:
                errors[told.topic, told.partition] = error.code
                self._note_refusal(told, error)
            except NoDirectoryLeft as error:
                errors[told.topic, told.partition] = ErrorCode.KAFKA_STORAGE_ERROR
                self._on_fatal(str(error))
            if later is not None and left and self._clock.monotonic_ms() >= end_ms:
                later(lambda: self._lead_or_follow(left, errors, answer))
                return
        answer.resolve(ControlResponse(partition_errors=errors))

    def _take_state(self, told: LeaderAndIsrPartition) -> None:
        """Take a partition's state over.

        raises  BrokerError INCONSISTENT_TOPIC_ID, STALE_CONTROLLER_EPOCH (the leader epoch is not
                greater), UNKNOWN_TOPIC_OR_PARTITION (no replica belongs here), KAFKA_STORAGE_ERROR
        """
        partition = self._partitions.get(told.topic, told.partition)
        if partition is not None:
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

    def _open(self, told: LeaderAndIsrPartition) -> Partition:
        log = self._logs.create(
            told.topic,
            told.partition,
            self._config_of(told.topic),
            topic_id=told.topic_id,
            is_new=told.is_new,
            now_ms=self._clock.now_ms(),
        )
        partition = Partition(told.topic, told.topic_id, told.partition, log)
        self._partitions.add(partition)
        return partition

    def _become(self, partition: Partition, told: LeaderAndIsrPartition) -> None:
        state = told.state
        log = partition.log
        if state.leader == self._broker_id():
            known = (
                self._logs.high_watermark(told.topic, told.partition)
                if partition.leader_epoch == NO_EPOCH
                else partition.high_watermark
            )
            log.assign_epoch(state.leader_epoch, log.end_offset)
            partition.leader = PartitionLeader(
                replica_id=state.leader,
                in_sync=state.isr,
                end_offset=log.end_offset,
                high_watermark=known,
            )
            log.producer_states.on_high_watermark(partition.leader.high_watermark)
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
        if error.code is ErrorCode.STALE_CONTROLLER_EPOCH:
            return
        if key not in self._refused:
            logger.warning("%s-%d cannot be taken up: %s", *key, error.message or error.code.name)
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._refused[key] = told

    def retry(self) -> None:
        """Take up what the disk refused before: space may have come back.  Once a second."""
        for key, told in list(self._refused.items()):
            try:
                self._take_state(told)
            except BrokerError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    return
            except NoDirectoryLeft as error:
                self._on_fatal(str(error))
                return
            del self._refused[key]

    def _stop(self, request: StopReplica) -> ControlResponse:
        errors: dict[TopicPartition, ErrorCode] = {}
        removed: list[TopicPartition] = []
        for told in request.partitions:
            if self._is_fenced(told):
                errors[told.topic, told.partition] = ErrorCode.FENCED_LEADER_EPOCH
                continue
            self._refused.pop((told.topic, told.partition), None)
            partition = self._partitions.remove(told.topic, told.partition)
            if partition is not None:
                partition.leader = None
                self.on_leader_change(partition)
                self._purgatory.notify(partition)
            if told.is_deleted:
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

    def _is_fenced(self, told: StopReplicaPartition) -> bool:
        partition = self._partitions.get(told.topic, told.partition)
        return (
            partition is not None
            and told.leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE)
            and told.leader_epoch < partition.leader_epoch
        )
