"""Applies the controller's requests: makes this broker lead, follow, stop and remove replicas.

LeaderAndIsr, UpdateMetadata and StopReplica are the same on a node that is its own controller and
in a cluster.  Applying a request twice changes nothing.
Source: Kafka's ReplicaManager.becomeLeaderOrFollower, Partition.makeLeader, stopReplicas.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.leader import InSyncRules, PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.refused_leaderships import RefusedLeaderships
from odradek.broker.replication.resting_replicas import RestingReplicas
from odradek.controller.image.control_requests import (
    NO_EPOCH,
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from odradek.controller.image.image import LEADER_DURING_DELETE
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import ZERO_UUID, TopicPartition
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.randomness import Randomness
from odradek.runtime.scheduler import Defer, Scheduler, scheduler_of
from odradek.runtime.work import in_units
from odradek.storage.directories.deletion import LogDeletion
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_creation import DirectoryFull
from odradek.storage.directories.log_manager import LogManager, NoDirectoryLeft
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig

EPOCH_DURING_DELETE: Final = -2

logger = logging.getLogger("odradek.replication")


BROKERS_KEY: Final = ("brokers",)
"""The purgatory key that is notified when the controller has sent metadata."""


def topic_key(topic: str) -> tuple[str, str]:
    """The purgatory key that is notified when a topic is created, changed or deleted."""
    return ("topic", topic)


class LogIsAhead(BrokerError):
    """The controller has assigned a leader epoch below the latest one in the log.

    Differs from Kafka: it takes such an epoch.  The records of both epochs then contradict each
    other's offsets, and followers could not find where they agree.
    """

    def __init__(self, latest_epoch: int) -> None:
        super().__init__(ErrorCode.FENCED_LEADER_EPOCH)
        self.latest_epoch = latest_epoch


class ReplicaRests(BrokerError):
    """The replica is on a full directory, and others lead (`RestingReplicas`)."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR)


class LeadershipObserver:
    """A part of the broker that does work for the partitions which this broker leads or follows.

    It overrides what it acts on; the others do nothing.
    """

    def on_leader_change(self, partition: Partition) -> None:
        """This broker leads the partition in a new leader epoch, or `partition.leader` is None."""

    def on_log_deleted(self, topic: str, index: int) -> None:
        """The log of this replica was deleted; `on_leader_change` was called before.  Other brokers
        may still have replicas of the partition."""

    def on_partition_deleted(self, topic: str, index: int) -> None:
        """The partition is being deleted, whether or not this broker has a replica of it."""

    def on_request_applied(self) -> None:
        """All changes of one request were reported."""


class Leadership:
    """Leads, follows and removes the replicas of this broker.

    config_of         a topic's settings, with its overrides
    run_jobs          takes disk jobs that are too slow for the loop
    on_flush_awaited  begins a flush of a log whose responses wait for it (flush.messages)
    in_sync_rules     decide which followers of the partitions led here are in sync
    resting           knows which replicas on full directories neither lead nor follow
    observers         called for every change
    on_fatal          called with the reason why the broker cannot go on
    """

    def __init__(  # noqa: PLR0913 - everything that a replica is made of
        self,
        *,
        broker_id: int,
        logs: LogManager,
        partitions: Partitions,
        purgatory: Purgatory,
        config_of: Callable[[str], LogConfig],
        run_jobs: Callable[[list[DiskJob]], None],
        on_flush_awaited: Callable[[Log], None],
        in_sync_rules: InSyncRules,
        resting: RestingReplicas,
        observers: Sequence[LeadershipObserver] = (),
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
        self._on_flush_awaited = on_flush_awaited
        self._in_sync_rules = in_sync_rules
        self._resting = resting
        self._clock = clock
        self._rng = rng
        self._on_fatal = on_fatal
        self._observers = observers
        self._without_space: dict[TopicPartition, LeaderAndIsrPartition] = {}
        """Replicas whose logs found no space on the disk; `retry` makes them later."""
        self._of_other_topics: dict[TopicPartition, None] = {}
        """Replicas whose folder has another topic id; a deletion of the topic must leave it."""
        self._refused = RefusedLeaderships()
        self._live: dict[int, None] = {}
        """The brokers of the last UpdateMetadata."""
        self._scheduler: Scheduler | None = None

    def serve(self, defer: Defer) -> None:
        """Clients are served from now on: apply long requests in slices between them.

        Before, at the start, a request is applied as a whole.
        """
        self._scheduler = scheduler_of(self._clock, defer, "leadership")

    def apply(self, request: ControlRequest) -> Pending[ControlResponse]:
        """Apply one request; the response carries the errors of single partitions.

        cost  0.5 ms for each log that is made, a rename for each that is deleted
        """
        response: Pending[ControlResponse]
        match request:
            case LeaderAndIsr():
                response = Pending()
                self._run(self._lead_or_follow(deque(request.partitions), response))
                return response
            case StopReplica():
                response = Pending()
                self._run(self._stop(deque(request.partitions), response))
                return response
            case UpdateMetadata():
                self._purgatory.notify(BROKERS_KEY)
                for partition in request.partitions:
                    self._purgatory.notify(topic_key(partition.topic))
                    if partition.state.leader == LEADER_DURING_DELETE:
                        for observer in self._observers:
                            observer.on_partition_deleted(partition.topic, partition.partition)
                self._note_brokers(request)
        return Pending.of(ControlResponse())

    def _run(self, steps: Iterator[None]) -> None:
        if self._scheduler is None:
            deque(steps, maxlen=0)
        else:
            self._scheduler.run(in_units(steps))

    def _note_brokers(self, request: UpdateMetadata) -> None:
        live = {broker.broker_id: None for broker in request.brokers}
        gone = [broker_id for broker_id in self._live if broker_id not in live]
        self._live = live
        if gone:
            self._run(self._raise_high_watermarks(gone))

    def _raise_high_watermarks(self, gone: Sequence[int]) -> Iterator[None]:
        """A high watermark waits for caught-up replicas that are not in sync yet; those of brokers
        that are gone will not be.

        Differs from Kafka, where acks=all waits until the next append or the end of the lag.
        """
        for partition in list(self._partitions.all()):
            leader = partition.leader
            if (
                leader is not None
                and any(broker_id in leader.followers for broker_id in gone)
                and partition.update_high_watermark()
            ):
                self._purgatory.notify(partition)
            yield

    def _lead_or_follow(
        self, left: deque[LeaderAndIsrPartition], response: Pending[ControlResponse]
    ) -> Iterator[None]:
        """Apply the state of one partition a step; a step with a new log costs 0.5 ms."""
        errors: dict[TopicPartition, ErrorCode] = {}
        log_epochs: dict[TopicPartition, int] = {}
        while left:
            replica = left.popleft()
            key = TopicPartition(replica.topic, replica.partition)
            try:
                self._apply_state(replica)
            except LogIsAhead as error:
                errors[key] = error.code
                log_epochs[key] = error.latest_epoch
                # A controller of ours raises the epoch; Apache's never does.
                self._refused.note(key, replica.state.leader_epoch, error.latest_epoch)
            except BrokerError as error:
                errors[key] = error.code
                self._note_refusal(replica, error)
            except NoDirectoryLeft as error:
                errors[key] = ErrorCode.KAFKA_STORAGE_ERROR
                self._on_fatal(str(error))
            else:
                self._refused.forget(key)
            if left:
                yield
        warning = self._refused.take_warning()
        if warning is not None:
            logger.warning("%s", warning)
        self._sync_new_logs()
        self._notify_applied()
        response.resolve(ControlResponse(partition_errors=errors, log_epochs=log_epochs))

    def _sync_new_logs(self) -> None:
        """Make logs durable that were made; the response does not wait, as in Kafka."""
        self._run_jobs(list(self._logs.sync_new_folders()))

    def _apply_state(self, replica: LeaderAndIsrPartition) -> None:
        """Lead or follow a partition as the controller has decided.

        raises  BrokerError INCONSISTENT_TOPIC_ID, STALE_CONTROLLER_EPOCH (the leader epoch is not
                greater), UNKNOWN_TOPIC_OR_PARTITION (no replica belongs here), KAFKA_STORAGE_ERROR
                (of which DirectoryFull), LogIsAhead
        """
        partition = self._partitions.get(replica.topic, replica.partition)
        if partition is not None and partition.log.is_offline:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
        self._check_rest(replica)
        if partition is not None:
            has_new_id = self._agree_on_topic_id(partition, replica)
            if replica.state.leader_epoch <= partition.leader_epoch:
                if has_new_id and replica.state.leader_epoch == partition.leader_epoch:
                    return
                raise BrokerError(ErrorCode.STALE_CONTROLLER_EPOCH)
        if self._broker_id not in replica.replicas:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition is None:
            partition = self._open(replica)
        self._become_leader_or_follower(partition, replica)
        self._purgatory.notify(partition)
        self._purgatory.notify(partition.log_end_key)
        self._purgatory.notify(topic_key(replica.topic))

    def _check_rest(self, replica: LeaderAndIsrPartition) -> None:
        """Stop following when the replica must rest; a leader goes on until its StopReplica.

        raises  ReplicaRests
        """
        key = TopicPartition(replica.topic, replica.partition)
        is_here = self._broker_id in replica.replicas
        must_rest = is_here and self._resting.must_rest(key, replica.state)
        self._resting.note(key, is_resting=must_rest)
        if must_rest:
            if replica.state.leader != self._broker_id:
                self._remove(key)
            raise ReplicaRests

    def _remove(self, key: TopicPartition) -> None:
        """Neither lead nor follow a partition; its log stays."""
        partition = self._partitions.remove(*key)
        if partition is not None:
            partition.resign()
            self._notify_observers(partition)
            self._purgatory.notify(partition)
            self._purgatory.notify(partition.log_end_key)

    def _agree_on_topic_id(self, partition: Partition, replica: LeaderAndIsrPartition) -> bool:
        """Give a topic id to a partition that has none; True when it had none.

        A request without topic ids, of an older controller, agrees with every id.
        raises  BrokerError INCONSISTENT_TOPIC_ID
        """
        if replica.topic_id in (ZERO_UUID, partition.topic_id):
            return False
        if partition.topic_id != ZERO_UUID:
            raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID)
        self._make_log(replica, is_new=replica.is_new)
        partition.take_topic_id(replica.topic_id)
        return True

    def _make_log(self, replica: LeaderAndIsrPartition, *, is_new: bool) -> Log:
        return self._logs.create(
            replica.topic,
            replica.partition,
            self._config_of(replica.topic),
            topic_id=None if replica.topic_id == ZERO_UUID else replica.topic_id,
            is_new=is_new,
            now_ms=self._clock.now_ms(),
        )

    def _open(self, replica: LeaderAndIsrPartition) -> Partition:
        is_new = replica.is_new
        if self._has_doubtful_records(replica):
            self._logs.set_aside_unidentified(
                replica.topic, replica.partition, unique=self._rng.uuid().hex
            )
            is_new = True
        log = self._make_log(replica, is_new=is_new)
        partition = Partition(
            replica.topic,
            self._logs.topic_id(replica.topic, replica.partition) or ZERO_UUID,
            replica.partition,
            log,
            on_flush_awaited=self._on_flush_awaited,
        )
        self._partitions.add(partition)
        self._of_other_topics.pop(TopicPartition(replica.topic, replica.partition), None)
        return partition

    def _has_doubtful_records(self, replica: LeaderAndIsrPartition) -> bool:
        """Whether its log may be of another topic, and no acknowledged record rests on it.

        An in-sync replica was of this topic when it came in sync: its records stay.
        """
        is_counted = self._broker_id in replica.state.isr and not replica.is_new
        return (
            not is_counted
            and replica.topic_id != ZERO_UUID
            and self._logs.is_unidentified(replica.topic, replica.partition)
        )

    def _become_leader_or_follower(
        self, partition: Partition, replica: LeaderAndIsrPartition
    ) -> None:
        state = replica.state
        log = partition.log
        leader: PartitionLeader | None = None
        if state.leader == self._broker_id:
            if state.leader_epoch < log.leader_epochs.latest_epoch:
                raise LogIsAhead(log.leader_epochs.latest_epoch)
            log.head.epochs.assign(state.leader_epoch, log.end_offset)
            if replica.replicas == (self._broker_id,):
                log.gaps.explain_all()
            # Differs from Kafka, whose leader keeps what it knew after any number of epochs: in one
            # that was missed here another broker may have led, and followers been truncated.
            is_next_epoch = state.leader_epoch == partition.leader_epoch + 1
            leader = PartitionLeader(
                replica_id=state.leader,
                leader_epoch=state.leader_epoch,
                replicas=replica.replicas,
                in_sync=state.isr,
                end_offset=log.end_offset,
                rules=self._in_sync_rules,
                now_ms=self._clock.monotonic_ms(),
                previous=partition.leader if is_next_epoch else None,
            )
        partition.apply_state(state, leader)
        self._notify_observers(partition)

    def _notify_observers(self, partition: Partition) -> None:
        for observer in self._observers:
            observer.on_leader_change(partition)

    def _notify_applied(self) -> None:
        for observer in self._observers:
            observer.on_request_applied()

    def _note_refusal(self, replica: LeaderAndIsrPartition, error: BrokerError) -> None:
        key = TopicPartition(replica.topic, replica.partition)
        partition = self._partitions.get(*key)
        is_known = partition is not None and partition.log.is_offline
        if (
            is_known
            or isinstance(error, ReplicaRests)
            or error.code is ErrorCode.STALE_CONTROLLER_EPOCH
        ):
            # What is wrong with a directory was logged once for all of its partitions.
            return
        if key not in self._without_space:
            logger.warning("%s-%d cannot be opened: %s", *key, error.message or error.code.name)
        if isinstance(error, DirectoryFull):
            self._without_space[key] = replica
        elif partition is None and error.code is ErrorCode.INCONSISTENT_TOPIC_ID:
            self._of_other_topics[key] = None

    def retry(self) -> bool:
        """Make the logs that found no space on the disk; call it once a second.

        returns  True if one was made: the controller, which regards these replicas as offline, must
                 then look at the log directories again
        """
        has_space = False
        for key, replica in list(self._without_space.items()):
            try:
                self._make_log(replica, is_new=replica.is_new)
                has_space = True
            except DirectoryFull:
                break
            except BrokerError as error:
                logger.warning("%s-%d has no log: %s", *key, error.message or error.code.name)
            except NoDirectoryLeft as error:
                self._on_fatal(str(error))
                break
            del self._without_space[key]
        self._sync_new_logs()
        return has_space

    def _stop(
        self, left: deque[StopReplicaPartition], response: Pending[ControlResponse]
    ) -> Iterator[None]:
        """Stop one replica a step; the response waits until the deletions are durable."""
        errors: dict[TopicPartition, ErrorCode] = {}
        deletion = LogDeletion(self._logs, unique=self._rng.uuid().hex, now_ms=self._clock.now_ms())
        while left:
            replica = left.popleft()
            key = TopicPartition(replica.topic, replica.partition)
            try:
                self._stop_replica(replica, deletion)
            except BrokerError as error:
                errors[key] = error.code
            except NoDirectoryLeft as error:
                self._on_fatal(str(error))
            if left:
                yield
        self._notify_applied()

        def respond() -> None:
            for topic, index in deletion.failed:
                errors[TopicPartition(topic, index)] = ErrorCode.KAFKA_STORAGE_ERROR
            response.resolve(ControlResponse(partition_errors=errors))

        self._run_jobs(list(deletion.sync(respond)))

    def _stop_replica(self, replica: StopReplicaPartition, deletion: LogDeletion) -> None:
        """Neither lead nor follow a partition, and delete its log if that is requested.

        raises  BrokerError KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH; NoDirectoryLeft
        """
        key = TopicPartition(replica.topic, replica.partition)
        if self._is_on_failed_directory(replica):
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._is_fenced(replica):
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        self._remove(key)
        self._refused.forget(key)
        if not replica.is_deleted:
            return
        self._without_space.pop(key, None)
        self._resting.note(key, is_resting=False)
        if key in self._of_other_topics:
            del self._of_other_topics[key]
            logger.warning("%s-%d stays: it is of another topic of that name", *key)
            return
        deletion.remove(key)
        for observer in self._observers:
            observer.on_log_deleted(*key)

    def _is_on_failed_directory(self, replica: StopReplicaPartition) -> bool:
        """Such a replica stays until the broker restarts: its requests get KAFKA_STORAGE_ERROR."""
        partition = self._partitions.get(replica.topic, replica.partition)
        return partition is not None and partition.log.is_offline

    def _is_fenced(self, replica: StopReplicaPartition) -> bool:
        partition = self._partitions.get(replica.topic, replica.partition)
        return (
            partition is not None
            and replica.leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE)
            and replica.leader_epoch < partition.leader_epoch
        )
