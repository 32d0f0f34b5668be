"""One partition of `__consumer_offsets` that this broker leads: its groups, made durable.

The edge between the pure core and the node: it reads the partition when leadership begins, appends
records and waits until they are replicated, answers who waits, and keeps one timer per group.

Invariant: what a client is told of a commit, an assignment or a deletion is replicated before.
Source: Kafka's GroupMetadataManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from odradek.broker.group import offsets
from odradek.broker.group.classic import protocol as classic
from odradek.broker.group.classic.admission import Admission
from odradek.broker.group.classic.events import (
    Effect,
    Join,
    JoinAnswer,
    Joined,
    Leaving,
    StoreGroup,
    Sync,
    SyncAnswer,
    Synced,
    Ticket,
)
from odradek.broker.group.classic.rebalance import answer_join, answer_sync, begin_rebalance, drop
from odradek.broker.group.classic.state import (
    NEVER,
    CommittedOffset,
    Group,
    GroupState,
    TopicPartition,
)
from odradek.broker.group.consumer.service import ConsumerEdge
from odradek.broker.group.context import Doors
from odradek.broker.group.deleted_partitions import DeletedPartitions
from odradek.broker.group.loader import load_steps
from odradek.broker.group.records import batches, group_record, offset_record
from odradek.broker.group.replay import Loading
from odradek.broker.group.slices import run_in_slices
from odradek.broker.group.unreadable import SETTING, Refuse, report
from odradek.broker.purgatory import Delayed
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.runtime.pending import Pending
from odradek.runtime.timers import Timer

LOAD_SLICE_MS: Final = 2
"""How long loading may keep the loop from its clients."""
EXPIRED_AT_ONCE: Final = 1_000
"""Offsets of a group that are forgotten in one step."""

logger = logging.getLogger("odradek.groups")

WhenStored = Callable[[ErrorCode, int], None]
"""Told the outcome of an append, and the offset of its first record."""


class Shard:
    """The groups of one partition while this broker leads it."""

    def __init__(self, partition: Partition, doors: Doors) -> None:
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self.is_loading = True
        self.has_failed = False
        """The log could not be read."""
        self.refused: dict[str, None] = {}
        """Groups of which a committed offset is lost: COORDINATOR_NOT_AVAILABLE."""
        self.is_closed = False
        self.doors = doors
        self.consumer = ConsumerEdge(self)
        self.deleted = DeletedPartitions()
        self._doors = doors
        self._admission = Admission(doors.limits, self._drop_unjoined)
        self._leader = partition.leader
        self._timers: dict[str, Timer] = {}
        self._joins: dict[Ticket, Pending[JoinAnswer]] = {}
        self._syncs: dict[Ticket, Pending[SyncAnswer]] = {}
        loading = Loading(doors.memory)
        if partition.log.log_start_offset == partition.log.end_offset:
            self._loaded(loading)
        else:
            steps = load_steps(partition.log, loading)
            doors.wheel.add(doors.clock.monotonic_ms(), lambda: self._load(steps, loading))

    def waiting(self) -> int:
        """How many requests wait for an answer."""
        return len(self._joins) + len(self._syncs)

    # Loading.

    def _load(self, steps: Iterator[None], loading: Loading) -> None:
        clock = self._doors.clock
        end_ms = clock.monotonic_ms() + LOAD_SLICE_MS
        try:
            while not self.is_closed:
                if next(steps, steps) is steps:
                    self._loaded(loading)
                    return
                if loading.wait_ms or clock.monotonic_ms() >= end_ms:
                    at_ms = clock.monotonic_ms() + loading.wait_ms
                    self._doors.wheel.add(at_ms, lambda: self._load(steps, loading))
                    return
        except (BrokerError, OSError) as error:
            self._fail(error)

    def _fail(self, reason: object) -> None:
        self.has_failed = True
        logger.error("%s cannot be read, its groups have no coordinator: %s", self, reason)

    def _loaded(self, loading: Loading) -> None:
        self.groups = loading.finish(self._doors.now())
        refuse = self._doors.refuse
        count, lost = loading.unreadable_count, loading.lost_offsets()
        self.refused = report(repr(self), loading.unreadable, count, lost, refuse)
        if loading.misplaced:
            logger.warning("%s: %d base offsets do not fit, put right", self, loading.misplaced)
        if count and refuse is Refuse.PARTITION:
            self._fail(f"{SETTING}={refuse}")
            return
        self.is_loading = False
        if loading.unknown_records:
            logger.warning("%s: %d records of unknown kinds", self, loading.unknown_records)
        for group in self.groups.values():
            self.consumer.loaded(group)
            self.arm(group)
        if self.deleted:
            run_in_slices(self._doors.wheel, self._doors.clock, self.forget_deleted())

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def close(self) -> None:
        """This broker does not lead any more; whoever waits is sent to the new coordinator."""
        self.is_closed = True
        now = self._doors.now()
        for group in self.groups.values():
            self._perform(group, classic.close(group, now))
            group.forget()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.groups.clear()

    def check_ready(self) -> None:
        """Whether requests can be answered.

        raises  BrokerError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE
        """
        if self.is_closed or self.partition.leader is not self._leader:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        if self.has_failed:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.is_loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    # Members.

    def join(self, group_id: str, event: Join) -> Pending[JoinAnswer]:
        """A JoinGroup; its group is made when the member is new."""
        answer: Pending[JoinAnswer] = Pending()
        group = self.groups.get(group_id)
        if group is not None and group.consumer is not None:
            if group.consumer.members:
                return self.consumer.join(group, event)
            error = self.consumer.end_empty(group)
            if error:
                return Pending.of(JoinAnswer(error, event.member_id))
            # Only its offsets are left.
            self.groups[group_id] = group
        self._joins[event.ticket] = answer
        if group is None:
            if event.member_id:
                refused: list[Effect] = []
                classic.refuse_join(event, ErrorCode.UNKNOWN_MEMBER_ID, refused)
                self._answer(refused[0])
                return answer
            group = self.groups[group_id] = Group(group_id, self._doors.memory)
        self._admission.make_room(group, event)
        # One without members was forgotten, if they were all dropped just now.
        self.groups[group_id] = group
        effects = classic.join(group, event, self._doors.limits, self._doors.now())
        self._after(group, effects)
        self._admission.note_unjoined(group, event)
        return answer

    def _drop_unjoined(self, group: Group, member_id: str) -> None:
        """There is no memory for an id that was not used, or a member that has not joined."""
        effects: list[Effect] = []
        drop(group, member_id, self._doors.limits, self._doors.now(), effects)
        self._after(group, effects)

    def sync(self, group_id: str, event: Sync) -> Pending[SyncAnswer]:
        """A SyncGroup."""
        group = self.groups.get(group_id)
        if group is None:
            return Pending.of(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        if group.consumer is not None:
            return self.consumer.sync(group.consumer, event)
        answer: Pending[SyncAnswer] = Pending()
        self._syncs[event.ticket] = answer
        self._after(group, classic.sync(group, event, self._doors.now()))
        return answer

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A Heartbeat."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.consumer is not None:
            error = self.consumer.classic_heartbeat(group, member_id, instance_id, generation)
        else:
            now = self._doors.now()
            error = classic.heartbeat(group, member_id, instance_id, generation, now)
        self.arm(group)
        return error

    def leave(self, group_id: str, leaving: Sequence[Leaving]) -> Pending[list[ErrorCode]]:
        """A LeaveGroup; an error for each that goes."""
        group = self.groups.get(group_id)
        if group is None:
            return Pending.of([ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving))
        if group.consumer is not None:
            return self.consumer.classic_leave(group, leaving)
        doors = self._doors
        errors, effects = classic.leave(group, leaving, doors.limits, doors.now())
        self._after(group, effects)
        return Pending.of(errors)

    def rebalance(self, group: Group) -> None:
        """Have a group's members join again."""
        effects: list[Effect] = []
        begin_rebalance(group, self._doors.limits, self._doors.now(), effects)
        self._after(group, effects)

    def dismiss(self, group: Group) -> None:
        """The group is not a classic one any more: whoever waits finds that out when it joins."""
        effects: list[Effect] = []
        now = self._doors.now()
        again = ErrorCode.REBALANCE_IN_PROGRESS
        for member in group.members.values():
            answer_join(group, member, JoinAnswer(again, member.member_id), effects)
            answer_sync(group, member, SyncAnswer(again), now, effects)
        self._perform(group, effects)

    def _after(self, group: Group, effects: list[Effect]) -> None:
        self._perform(group, effects)
        if self._is_blank(group):
            self._forget(group)
        else:
            self.arm(group)

    def _is_blank(self, group: Group) -> bool:
        """Whether nothing of it is stored."""
        return group.generation == 0 and group.consumer is None and group.is_idle()

    def _forget(self, group: Group) -> None:
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
        timer = self._timers.pop(group.group_id, None)
        if timer is not None:
            timer.cancel()

    def _perform(self, group: Group, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StoreGroup):
                self._store_group(group, effect)
            else:
                self._answer(effect)

    def _answer(self, effect: Effect) -> None:
        if isinstance(effect, Joined):
            self._joins.pop(effect.ticket).resolve(effect.answer)
        elif isinstance(effect, Synced):
            self._syncs.pop(effect.ticket).resolve(effect.answer)

    def _store_group(self, group: Group, effect: StoreGroup) -> None:
        doors = self._doors

        def stored(error: ErrorCode, _: int) -> None:
            if error:
                logger.warning("%s: group %s is not stored: %s", self, group.group_id, error.name)
            self._perform(group, classic.stored(group, effect, error, doors.limits, doors.now()))
            self.arm(group)

        self.append([group_record(group.group_id, effect.value, doors.clock.now_ms())], stored)

    # Time.

    def arm(self, group: Group) -> None:
        """One timer per group; heartbeats only move deadlines away, and leave it where it is."""
        wake_ms = group.wake_ms
        if group.consumer is not None:
            wake_ms = min(wake_ms, group.consumer.deadlines.wake_ms)
        if wake_ms == NEVER or self.is_closed:
            return
        timer = self._timers.get(group.group_id)
        if timer is not None and timer.is_pending():
            if timer.deadline_ms <= wake_ms:
                return
            timer.cancel()
        self._timers[group.group_id] = self._doors.wheel.add(wake_ms, lambda: self._on_time(group))

    def _on_time(self, group: Group) -> None:
        if self.groups.get(group.group_id) is not group:
            return
        effects = classic.on_time(group, self._doors.limits, self._doors.now())
        self._timers.pop(group.group_id, None)
        self.consumer.on_time(group)
        self._after(group, effects)

    # Records.

    def append(self, records: Sequence[Record], when_stored: WhenStored) -> None:
        """Append one batch, and tell when it is replicated or why it is not."""
        error, base_offset = self.write(records)
        if error:
            when_stored(error, -1)
        else:
            last_offset = base_offset + len(records) - 1
            self._await_replicas(base_offset, last_offset, when_stored)

    def write(self, records: Sequence[Record]) -> tuple[ErrorCode, int]:
        """Append one batch and do not wait: why it is not in the log, and its first offset."""
        partition = self.partition
        leader = partition.leader
        if leader is None or leader is not self._leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if leader.in_sync_count() < partition.effective_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        batch = build_batch(records, codec=self._doors.codec)
        if len(batch) > partition.log.config.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        wall_ms = self._doors.clock.now_ms()
        (result,) = partition.append([RecordBatch(memoryview(batch))], wall_ms)
        self._doors.purgatory.notify(partition)
        if isinstance(result, BrokerError):
            return result.code, -1
        return ErrorCode.NONE, result.base_offset

    def when_replicated(self, told: Callable[[ErrorCode], None]) -> None:
        """Tell when everything that the log holds now is replicated, or why it is not."""
        last_offset = self.partition.log.end_offset - 1
        self._await_replicas(last_offset, last_offset, lambda error, _: told(error))

    def _await_replicas(self, base_offset: int, last_offset: int, when_stored: WhenStored) -> None:
        partition = self.partition

        def attempt() -> ErrorCode | None:
            leader = partition.leader
            if leader is None or leader is not self._leader:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            if partition.high_watermark <= last_offset:
                return ErrorCode.KAFKA_STORAGE_ERROR if partition.log.is_offline else None
            if leader.in_sync_count() < partition.effective_min_isr:
                return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return ErrorCode.NONE

        known = self._leader
        is_leading = known is not None and partition.leader is known
        if is_leading and partition.high_watermark > last_offset:
            when_stored(ErrorCode.NONE, base_offset)
            return
        delayed = Delayed(
            (partition,),
            self._doors.commit_timeout_ms,
            attempt,
            lambda: ErrorCode.REQUEST_TIMED_OUT,
        )
        self._doors.purgatory.park(
            delayed,
            self._doors.clock.monotonic_ms(),
            lambda error: when_stored(error, base_offset),
        )

    # Offsets.

    def commit(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: dict[TopicPartition, CommittedOffset],
        version: int = 8,
    ) -> Pending[ErrorCode]:
        """Offsets of a member, or of a client that is none and names no generation.

        version  of the request: from 9 on the generation may be the epoch of a member
        """
        doors = self._doors
        now = doors.now()
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                # Differs from Kafka 4: classic clients get over this one, not GROUP_ID_NOT_FOUND.
                return Pending.of(ErrorCode.ILLEGAL_GENERATION)
            group = Group(group_id, doors.memory)
        if group.consumer is None:
            error = offsets.check_commit(
                group, member_id=member_id, instance_id=instance_id, generation=generation, now=now
            )
            self.arm(group)
        else:
            error = self.consumer.check_commit(
                group.consumer, member_id, generation, version, commits
            )
        if error or not commits:
            return Pending.of(error)
        records = [
            offset_record(group_id, place, committed, now.wall_ms)
            for place, committed in commits.items()
        ]
        answer: Pending[ErrorCode] = Pending()
        self.groups[group_id] = group
        group.writes += 1

        def stored(failure: ErrorCode, base_offset: int) -> None:
            group.writes -= 1
            if not failure:
                for number, (place, committed) in enumerate(commits.items()):
                    placed = committed._replace(log_offset=base_offset + number)
                    offsets.store(group, place, placed)
            elif self._is_blank(group):
                self._forget(group)
            answer.resolve(offsets.COMMIT_ERRORS.get(failure, failure))

        self.append(records, stored)
        return answer

    def delete_offsets(self, group: Group, places: Sequence[TopicPartition]) -> Pending[ErrorCode]:
        """Forget committed offsets; an empty group without any is deleted too."""
        known = [place for place in places if place in group.offsets]
        wall_ms = self._doors.clock.now_ms()
        records = [offset_record(group.group_id, place, None, wall_ms) for place in known]
        is_gone = (
            group.is_empty()
            and len(known) == len(group.offsets)
            and not group.open_offsets
            and not group.pending
            and not group.writes
        )
        if is_gone and group.generation:
            records.append(group_record(group.group_id, None, wall_ms))
        if is_gone:
            records += self.consumer.deletion(group, wall_ms)
        for place in known:
            del group.offsets[place]
        if is_gone:
            group.move_to(GroupState.DEAD, self._doors.now())
            self._forget(group)
        return self._append_all(records)

    def delete_group(self, group: Group) -> Pending[ErrorCode]:
        """Delete an empty group with all that it has committed."""
        assert group.is_empty(), "a group with members is not deleted"
        group.pending.clear()
        return self.delete_offsets(group, list(group.offsets))

    def _append_all(self, records: list[Record]) -> Pending[ErrorCode]:
        """Append batch by batch; the first error ends it."""
        if not records:
            return Pending.of(ErrorCode.NONE)
        for batch in batches(records, self.partition.log.config.max_message_bytes):
            error, _ = self.write(batch)
            if error:
                logger.warning("%s: a deletion is not stored: %s", self, error.name)
                return Pending.of(offsets.COMMIT_ERRORS.get(error, error))
        answer: Pending[ErrorCode] = Pending()
        self.when_replicated(lambda error: answer.resolve(offsets.COMMIT_ERRORS.get(error, error)))
        return answer

    def expire(self, retention_ms: int) -> Iterator[None]:
        """Forget, step by step, what nobody will ask for (KIP-211)."""
        for group in list(self.groups.values()):
            if group.group_id in self.refused:
                continue  # Its members cannot show that they want its other offsets.
            while self.groups.get(group.group_id) is group:
                wall_ms = self._doors.clock.now_ms()
                old = offsets.expired(group, wall_ms=wall_ms, retention_ms=retention_ms)
                if old or group.is_idle():
                    self.delete_offsets(group, old[:EXPIRED_AT_ONCE])
                yield
                if len(old) <= EXPIRED_AT_ONCE:
                    break

    def forget_partition(self, place: TopicPartition) -> None:
        """Nobody can consume a deleted partition: `forget_deleted` is due."""
        self.deleted.add(place, self.partition.log.end_offset)

    def forget_deleted(self) -> Iterator[None]:
        """Forget, step by step, all offsets of deleted partitions."""
        while self.deleted and not self.is_loading:
            taken = self.deleted.taken()
            for group_id in list(self.groups):
                self.catch_up(group_id)
                yield
            self.deleted.done(taken)

    def catch_up(self, group_id: str) -> None:
        """Somebody asks for a group before its turn in `forget_deleted`."""
        group = self.groups.get(group_id)
        if group is not None:
            gone = self.deleted.of(group)
            if gone:
                self.delete_offsets(group, gone)
