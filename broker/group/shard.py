"""The groups of one partition of `__consumer_offsets` while this broker leads it.

A shard loads the partition's records, sends each request to the classic or consumer group that it
names, performs migrations between the two protocols, and keeps one timer for each group.

Invariant: what a response says of a commit, an assignment or a deletion is replicated.
Source: Kafka's GroupCoordinatorShard and CoordinatorRuntime.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from odradek.broker.coordinator_log.shard import CoordinatorShard, PartitionWriter
from odradek.broker.group.append_errors import AppendPurpose, response_error
from odradek.broker.group.classic import protocol
from odradek.broker.group.classic.events import Join, JoinResult, LeavingMember, Sync, SyncResult
from odradek.broker.group.classic.offsets import check_transactional_commit
from odradek.broker.group.classic.service import ClassicGroups
from odradek.broker.group.classic.state import NEVER, ClassicGroup
from odradek.broker.group.consumer.heartbeat import JOIN_EPOCH, ConsumerHeartbeat, HeartbeatResult
from odradek.broker.group.consumer.service import Committed, ConsumerGroups, not_found
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.group.context import GroupContext
from odradek.broker.group.group import Group, OpenTransactions
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.group.offsets_log import OffsetsLog, OffsetsTransaction
from odradek.broker.group.records import offset_record
from odradek.broker.group.replay import GroupReplay
from odradek.broker.group.unreadable import SETTING, Refuse, report
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import NO_SEQUENCE
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from odradek.runtime.timers import Timer
from odradek.storage.producers.verification import VerificationGuard

EXPIRED_AT_ONCE: Final = 1_000
"""How many expired offsets of a group one step deletes."""

logger = logging.getLogger("odradek.groups")

T = TypeVar("T")


class Shard(CoordinatorShard[GroupContext, GroupReplay]):
    """The groups of one partition, from the leader epoch in which this broker began to lead it."""

    def __init__(
        self, partition: Partition, context: GroupContext, directory: TopicDirectory
    ) -> None:
        writer = PartitionWriter(partition, context)
        super().__init__(writer, context, "groups")
        self.groups: dict[str, Group] = {}
        self.refused: dict[str, None] = {}
        """Groups that have lost a committed offset: COORDINATOR_NOT_AVAILABLE."""
        self.deleted: dict[TopicPartition, int] = {}
        """Deleted partition -> the end offset of this log then; until all groups were processed."""
        self._open_transactions = OpenTransactions({})
        self._log = OffsetsLog(writer, context)
        self._classic = ClassicGroups(context, self._log, self._settle)
        self._consumer = ConsumerGroups(context, directory, self._log)
        self._timers: dict[str, Timer] = {}
        self._load()

    def waiting_count(self) -> int:
        """Requests of classic members that wait for their responses."""
        return self._classic.waiting_count()

    # Loading.

    def _new_replay(self) -> GroupReplay:
        return GroupReplay(self._context.memory)

    def _loaded(self, replay: GroupReplay) -> None:
        context = self._context
        self.groups = replay.finish(context.now())
        self._open_transactions = OpenTransactions(self.groups)
        count, lost = replay.unreadable_count, replay.lost_offsets()
        self.refused = report(repr(self), replay.unreadable, count, lost, context.refuse)
        if replay.misplaced:
            logger.warning("%s: %d wrong base offsets were corrected", self, replay.misplaced)
        if count and context.refuse is Refuse.PARTITION:
            self._fail(f"{SETTING}={context.refuse}")
            return
        self.is_loading = False
        if replay.unknown_records:
            logger.warning("%s: %d records of unknown kinds", self, replay.unknown_records)
        for group in self.groups.values():
            if isinstance(group.body, ConsumerGroup):
                self._consumer.start_deadlines(group.body)
            self._arm(group)
        if self.deleted:
            context.run_between_requests(self.forget_deleted())

    def close(self) -> None:
        super().close()
        self._consumer.close()
        for group in self.groups.values():
            if isinstance(group.body, ClassicGroup):
                self._classic.close(group.body)
            group.replace_body(None)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.groups.clear()

    # Members.

    def join(self, group_id: str, event: Join) -> Pending[JoinResult]:
        """A JoinGroup request.

        1. There is no such group: a new member creates it.
        2. A consumer group with members: the member joins it as a classic member.
        3. A consumer group without members, or only offsets: it becomes a classic group.
        4. A classic group.
        """
        group = self.groups.get(group_id)
        if group is None:
            if event.member_id:
                error = ErrorCode.UNKNOWN_MEMBER_ID
                return Pending.of(JoinResult(error, event.member_id))
            group = Group(group_id)
        match group.body:
            case ClassicGroup() as classic:
                pass
            case ConsumerGroup(members=members) as consumer if members:
                return self._commit(group, self._consumer.join(consumer, event))
            case body:
                if body is not None:
                    error = self._consumer.delete_empty(body)
                    if error:
                        return Pending.of(JoinResult(error, event.member_id))
                classic = ClassicGroup(group_id, self._context.memory)
                group.replace_body(classic)
        protocol.reclaim_memory(classic, event)
        # A group that was without members afterwards has been removed.
        self.groups[group_id] = group
        joining = self._classic.join(classic, event)
        self._settle(group_id)
        return joining

    def sync(self, group_id: str, event: Sync) -> Pending[SyncResult]:
        """A SyncGroup request."""
        match self._body(group_id):
            case ClassicGroup() as classic:
                syncing = self._classic.sync(classic, event)
                self._settle(group_id)
                return syncing
            case ConsumerGroup() as consumer:
                return self._consumer.sync(consumer, event)
            case None:
                return Pending.of(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A Heartbeat request."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        match group.body:
            case ClassicGroup() as classic:
                error = protocol.heartbeat(
                    classic, member_id, instance_id, generation, self._context.now()
                )
                timer = self._timers.get(group_id)
                if timer is not None and timer.is_pending():
                    # The heartbeat has only postponed a deadline.
                    return error
            case ConsumerGroup() as consumer:
                error = self._consumer.classic_heartbeat(
                    consumer, member_id, instance_id, generation
                )
            case None:
                error = ErrorCode.UNKNOWN_MEMBER_ID
        self._arm(group)
        return error

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Pending[list[ErrorCode]]:
        """A LeaveGroup request; the errors are in the order of the members."""
        group = self.groups.get(group_id)
        match None if group is None else group.body:
            case ClassicGroup() as classic:
                errors = self._classic.leave(classic, leaving)
                self._settle(group_id)
                return Pending.of(errors)
            case ConsumerGroup() as consumer:
                assert group is not None, "it has a body"
                return self._commit(group, self._consumer.classic_leave(consumer, leaving))
            case None:
                return Pending.of([ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving))

    def consumer_heartbeat(
        self, group_id: str, request: ConsumerHeartbeat
    ) -> Pending[HeartbeatResult | BrokerError]:
        """A ConsumerGroupHeartbeat request.

        raises  BrokerError as `heartbeat` does, GROUP_ID_NOT_FOUND, and those of an append that
                wrote nothing
        """
        if request.epoch == JOIN_EPOCH:
            # Before the decision, since members of this group may be removed.
            self._consumer.reclaim_memory(self._body(group_id), request)
            present = self.groups.get(group_id)
            group = present or Group(group_id)
            committed = self._consumer.join_group(
                group_id, group.body, request, is_new=present is None
            )
        else:
            existing_group = self.groups.get(group_id)
            if existing_group is None:
                kind = "Group" if request.epoch < 0 else "Consumer group"
                raise not_found(f"{kind} {group_id} not found.")
            group = existing_group
            if not isinstance(group.body, ConsumerGroup):
                raise not_found(f"Group {group_id} is not a consumer group.")
            committed = self._consumer.heartbeat(group.body, request)
        return self._commit(group, committed)

    def _body(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        group = self.groups.get(group_id)
        return None if group is None else group.body

    def _commit(self, group: Group, committed: Committed[T]) -> Pending[T]:
        """Make a group what its appended records describe; the response is returned."""
        before, after = group.body, committed.body
        if before is not after:
            if isinstance(before, ClassicGroup):
                self._classic.fence_waiting_members(before)
            self.groups[group.group_id] = group
            group.replace_body(after)
            if isinstance(after, ClassicGroup):
                logger.info("%s: group %s is downgraded to classic", self, group.group_id)
                if committed.must_rebalance:
                    self.rebalance(after)
        self._arm(group)
        return committed.response

    def rebalance(self, group: ClassicGroup) -> None:
        """Have all members of a group join again."""
        self._classic.rebalance(group)
        self._settle(group.group_id)

    # Time.

    def _settle(self, group_id: str) -> None:
        """A classic group has changed: remove it if it is blank, else set its timer."""
        group = self.groups.get(group_id)
        if group is None:
            return
        if group.is_blank():
            self._remove(group)
        else:
            self._arm(group)

    def _remove(self, group: Group) -> None:
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
        timer = self._timers.pop(group.group_id, None)
        if timer is not None:
            timer.cancel()

    def _arm(self, group: Group) -> None:
        """Set the group's timer unless it is early enough: heartbeats only postpone deadlines."""
        wake_ms = group.wake_ms()
        if wake_ms == NEVER or self.is_closed:
            return
        timer = self._timers.get(group.group_id)
        if timer is not None and timer.is_pending():
            if timer.deadline_ms <= wake_ms:
                return
            timer.cancel()
        self._timers[group.group_id] = self._context.wheel.add(
            wake_ms, lambda: self._on_time(group)
        )

    def _on_time(self, group: Group) -> None:
        if self.groups.get(group.group_id) is not group:
            return
        self._timers.pop(group.group_id, None)
        match group.body:
            case ClassicGroup() as classic:
                self._classic.on_time(classic)
                self._settle(group.group_id)
            case ConsumerGroup() as consumer:
                fenced = self._consumer.on_time(consumer)
                if fenced is not None:
                    self._commit(group, fenced)
                self._arm(group)

    # Offsets.

    def commit_offsets(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: dict[TopicPartition, OffsetAndMetadata],
        version: int = 8,
    ) -> Pending[ErrorCode]:
        """An OffsetCommit request, of a member or of a client without a generation.

        version  of the request: from 9 on the generation may be a member epoch
        """
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                # Differs from Kafka 4: classic clients do not recover from GROUP_ID_NOT_FOUND.
                return Pending.of(ErrorCode.ILLEGAL_GENERATION)
            group = Group(group_id)
        match group.body:
            case ClassicGroup() as classic:
                error = self._classic.check_commit(classic, member_id, instance_id, generation)
                self._arm(group)
            case ConsumerGroup() as consumer:
                error = self._consumer.check_commit(
                    consumer, member_id, generation, version, commits
                )
            case None:
                error = ErrorCode.NONE if generation < 0 else ErrorCode.UNKNOWN_MEMBER_ID
        if error or not commits:
            return Pending.of(error)
        return self._store_offsets(group, commits)

    def _store_offsets(
        self, group: Group, commits: dict[TopicPartition, OffsetAndMetadata]
    ) -> Pending[ErrorCode]:
        wall_ms = self._context.clock.now_ms()
        records = [
            offset_record(group.group_id, partition, committed, wall_ms)
            for partition, committed in commits.items()
        ]
        pending: Pending[ErrorCode] = Pending()
        offsets = group.offsets
        self.groups[group.group_id] = group
        offsets.begin_commit(commits)

        def replicated(error: ErrorCode, base_offset: int) -> None:
            offsets.end_commit(commits)
            if not error:
                for number, (partition, committed) in enumerate(commits.items()):
                    offsets.store(partition, committed._replace(log_offset=base_offset + number))
            elif group.is_blank():
                self._remove(group)
            pending.resolve(response_error(error, AppendPurpose.OFFSETS))

        self._log.append(records, replicated)
        return pending

    def begin_verification(
        self, producer_id: int, producer_epoch: int, *, is_v2: bool = False
    ) -> VerificationGuard | None:
        """The guard under which offsets are verified; None when the transaction is open here.

        Ask for the shard again after the verification: the leader may have changed.
        """
        return self._writer.partition.log.producer_states.begin_verification(
            producer_id,
            sequence=NO_SEQUENCE,
            producer_epoch=producer_epoch,
            now_ms=self._context.clock.now_ms(),
            is_v2=is_v2,
        )

    def offsets_partition(self) -> TopicPartition:
        """The partition of `__consumer_offsets`."""
        return TopicPartition(self._writer.partition.topic, self._writer.partition.index)

    def commit_transactional_offsets(
        self,
        group_id: str,
        transaction: OffsetsTransaction,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: dict[TopicPartition, OffsetAndMetadata],
    ) -> Pending[ErrorCode]:
        """A TxnOffsetCommit request: the offsets count once the transaction's marker commits them.

        What is in the log counts, also when the response is an error: it ends with the transaction.
        """
        group = self.groups.get(group_id) or Group(group_id)
        match group.body:
            case ClassicGroup() as classic:
                error = check_transactional_commit(
                    classic, member_id=member_id, instance_id=instance_id, generation=generation
                )
            case ConsumerGroup() as consumer:
                error = self._consumer.check_transactional_commit(
                    consumer, member_id, instance_id, generation, commits
                )
            case None:
                error = ErrorCode.NONE if generation < 0 else ErrorCode.UNKNOWN_MEMBER_ID
        if error or not commits:
            return Pending.of(error)
        wall_ms = self._context.clock.now_ms()
        records = [
            offset_record(group_id, partition, committed, wall_ms)
            for partition, committed in commits.items()
        ]
        error, base_offset = self._log.write(records, transaction)
        if error:
            return Pending.of(response_error(error, AppendPurpose.OFFSETS))
        self.groups[group_id] = group
        producer_id = transaction.producer_id
        self._open_transactions.add(producer_id, group_id)
        for offset, (partition, committed) in enumerate(commits.items(), start=base_offset):
            stored = committed._replace(log_offset=offset)
            group.offsets.store_transactional(producer_id, partition, stored)
        pending: Pending[ErrorCode] = Pending()
        self._log.await_replicas(
            base_offset,
            base_offset + len(records) - 1,
            lambda error, _: pending.resolve(response_error(error, AppendPurpose.OFFSETS)),
        )
        return pending

    def end_transaction(self, producer_id: int, *, is_commit: bool, marker_offset: int) -> None:
        """Commit or drop the offsets that precede a replicated marker."""
        ended = self._open_transactions.end(
            self.groups, producer_id, is_commit=is_commit, marker_offset=marker_offset
        )
        for group in ended:
            if group.is_blank():
                self._remove(group)

    def delete_offsets(
        self, group: Group, partitions: Sequence[TopicPartition]
    ) -> Pending[ErrorCode]:
        """Delete committed offsets at once; the response waits until the deletion is replicated.

        A group that is idle afterwards is deleted too.
        """
        wall_ms = self._context.clock.now_ms()
        deleted = [partition for partition in partitions if group.offsets.has(partition)]
        tombstones = [offset_record(group.group_id, key, None, wall_ms) for key in deleted]
        for partition in deleted:
            group.offsets.remove(partition)
        if group.is_idle():
            tombstones += group.tombstones(wall_ms)
            group.replace_body(None)
            self._remove(group)
        return self._log.delete(tombstones)

    def delete_group(self, group: Group) -> Pending[ErrorCode]:
        """Delete a group without members, with its offsets and its pending members."""
        assert group.is_empty(), "a group with members is not deleted"
        if isinstance(group.body, ClassicGroup):
            group.body.discard_pending_members()
        return self.delete_offsets(group, group.offsets.partitions())

    def expire_offsets(self, retention_ms: int) -> Iterator[None]:
        """Delete expired offsets, and groups without any, step by step (KIP-211)."""
        for group in list(self.groups.values()):
            if group.group_id in self.refused:
                continue  # Its members cannot show that they use its other offsets.
            while self.groups.get(group.group_id) is group:
                wall_ms = self._context.clock.now_ms()
                expired = group.expired_offsets(wall_ms=wall_ms, retention_ms=retention_ms)
                if expired or group.is_idle():
                    self.delete_offsets(group, expired[:EXPIRED_AT_ONCE])
                yield
                if len(expired) <= EXPIRED_AT_ONCE:
                    break

    def note_deleted_partition(self, partition: TopicPartition) -> None:
        """A partition was deleted: `forget_deleted` deletes the offsets committed for it."""
        self.deleted[partition] = self._writer.partition.log.end_offset

    def forget_deleted(self) -> Iterator[None]:
        """Delete the offsets of all deleted partitions, step by step."""
        while self.deleted and not self.is_loading:
            taken = dict(self.deleted)
            for group_id in list(self.groups):
                self.forget_deleted_of(group_id)
                yield
            for partition, end_offset in taken.items():
                if self.deleted.get(partition) == end_offset:  # else it was deleted again
                    del self.deleted[partition]

    def forget_deleted_of(self, group_id: str) -> None:
        """Delete a group's offsets of deleted partitions, before a request reads them."""
        group = self.groups.get(group_id)
        if group is not None:
            deleted = group.offsets.of_deleted(self.deleted)
            if deleted:
                self.delete_offsets(group, deleted)
