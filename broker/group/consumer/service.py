"""Groups of the new protocol on one partition of `__consumer_offsets`: decided, appended, answered.

The edge between the pure core beside it and the shard.  A decision is appended as one batch and
replayed at once, so that memory is what the log says, and its answer waits until the batch is
replicated; so does an answer without records, for those that were appended before it.

    cannot be appended        nothing has changed; whoever asked is told
    is not replicated in time memory stays what the log says; whoever asked is told, and asks again
    leadership is lost        the shard is dropped; the next coordinator reads what was replicated

Invariant: what a client is told of a group is replicated before.
Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.broker.group.classic.events import Join, JoinAnswer, Leaving, Sync, SyncAnswer
from odradek.broker.group.classic.state import MEMBER_BYTES, Group, GroupState, TopicPartition
from odradek.broker.group.consumer.classic_members import (
    Joining,
    await_sync,
    begin_join,
    check_join,
    finish_join,
    joined,
    sync,
)
from odradek.broker.group.consumer.classic_members import find_leaving as find_all_leaving
from odradek.broker.group.consumer.classic_members import heartbeat as heartbeat_of_classic
from odradek.broker.group.consumer.convert import (
    check_upgrade,
    downgrade,
    forget_classic,
    hand_back,
    may_downgrade,
    upgrade,
)
from odradek.broker.group.consumer.decision import Draft
from odradek.broker.group.consumer.heartbeat import (
    JOIN_EPOCH,
    Beat,
    BeatAnswer,
    find_leaving,
    heartbeat,
    leave_for_a_while,
)
from odradek.broker.group.consumer.leave import RETRY_MS, begin_deadlines, fence, overdue
from odradek.broker.group.consumer.model import ConsumerMember
from odradek.broker.group.consumer.offsets import check_commit
from odradek.broker.group.consumer.records import classic_gone, encode, group_gone
from odradek.broker.group.consumer.regexes import Matching, store_matches
from odradek.broker.group.consumer.replay import replay
from odradek.broker.group.consumer.state import (
    LEAVE_FOR_A_WHILE_EPOCH,
    NAME_BYTES,
    ConsumerGroup,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.record import Record
from odradek.protocol.stored.group_metadata import GroupMetadataKey
from odradek.runtime.pending import Pending

if TYPE_CHECKING:
    from odradek.broker.group.consumer.topics import TopicDirectory
    from odradek.broker.group.shard import Shard

logger = logging.getLogger("odradek.groups")

STORE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What members are told when records could not be written."""

MATCH_SLICE_MS: Final = 2
"""How long matching may keep the loop from its clients."""

T = TypeVar("T")


class ConsumerEdge:
    """What a shard does with groups of the new protocol."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._doors = shard.doors

    # Requests.

    def heartbeat(self, group_id: str, beat: Beat) -> Pending[BeatAnswer | BrokerError]:
        """A member enters, stays or leaves.

        raises  BrokerError as `heartbeat` says, GROUP_ID_NOT_FOUND, and when nothing was written
        """
        if beat.epoch == JOIN_EPOCH:
            self._make_room(group_id, beat)
            holder, draft = self._enter(group_id)
        else:
            holder = self._known(group_id, is_leaving=beat.epoch < 0)
            assert holder.consumer is not None, "it was found"
            draft = self._draft(holder.consumer)
        if beat.epoch < 0:
            return self._leave(holder, draft, beat)
        return self._commit(holder, draft, heartbeat(draft, beat))

    def _make_room(self, group_id: str, beat: Beat) -> None:
        """Have members of the classic protocol that never completed a join dropped if memory is
        short; before anything is decided, since they may be of this group."""
        holder = self._shard.groups.get(group_id)
        group_bytes = 0
        if holder is not None:
            group_bytes = holder.member_bytes
            if holder.consumer is not None:
                group_bytes += holder.consumer.member_bytes
        names = (beat.member_id, beat.topic_regex or "", *(beat.topic_names or ()))
        more_bytes = MEMBER_BYTES + sum(NAME_BYTES + len(name) for name in names)
        doors = self._doors
        bytes_max = doors.consumer.members_bytes_max
        doors.memory.make_room(beat.client_host, group_bytes, more_bytes, bytes_max)

    def _known(self, group_id: str, *, is_leaving: bool) -> Group:
        holder = self._shard.groups.get(group_id)
        if holder is None:
            kind = "Group" if is_leaving else "Consumer group"
            raise not_found(f"{kind} {group_id} not found.")
        if holder.consumer is None:
            raise not_found(f"Group {group_id} is not a consumer group.")
        return holder

    def _enter(self, group_id: str) -> tuple[Group, Draft]:
        """The group, and a draft of the record that takes it from the classic protocol."""
        holder = self._shard.groups.get(group_id)
        if holder is None:
            return Group(group_id, self._doors.memory), self._draft(
                ConsumerGroup(group_id, self._doors.memory)
            )
        if holder.consumer is not None:
            return holder, self._draft(holder.consumer)
        if holder.state is GroupState.EMPTY:
            draft = self._draft(ConsumerGroup(group_id, self._doors.memory))
            draft.records.append(classic_gone(group_id))
            return holder, draft
        check_upgrade(holder, self._doors.consumer)
        group, records = upgrade(holder, self._directory(), self._doors.now())
        draft = self._draft(group)
        draft.records += records
        return holder, draft

    def _leave(self, holder: Group, draft: Draft, beat: Beat) -> Pending[BeatAnswer | BrokerError]:
        group = draft.group
        member = find_leaving(group, beat.member_id, beat.instance_id)
        answer = BeatAnswer(beat.member_id, beat.epoch)
        if beat.epoch == LEAVE_FOR_A_WHILE_EPOCH and beat.instance_id is not None:
            draft.records.append(leave_for_a_while(group, member))
        else:
            self._fence(draft, {member.member_id: member})
        return self._commit(holder, draft, answer)

    def _fence(self, draft: Draft, leaving: Mapping[str, ConsumerMember]) -> None:
        """Members are gone; if they were the last of the new protocol, so is the group."""
        if may_downgrade(draft.group, leaving, draft.settings):
            draft.downgrade = downgrade(draft.group, leaving, draft.topics, draft.now)
            draft.records += draft.downgrade.records
        else:
            fence(draft, leaving)

    def _draft(self, group: ConsumerGroup) -> Draft:
        doors = self._doors
        return Draft(group, self._directory(), self._doors.consumer, doors.now())

    def _directory(self) -> TopicDirectory:
        directory = self._doors.directory
        assert directory is not None, "who leads a shard has made one"
        directory.refresh()
        return directory

    # Members that speak the classic protocol.

    def join(self, holder: Group, event: Join) -> Pending[JoinAnswer]:
        """A JoinGroup to a group of the new protocol that has members."""
        group = holder.consumer
        assert group is not None, "the group is one of the new protocol"
        try:
            draft = self._draft(group)
            if not event.member_id and event.instance_id is None and event.is_id_required:
                check_join(draft, event)
                required = ErrorCode.MEMBER_ID_REQUIRED
                return Pending.of(JoinAnswer(required, event.new_member_id))
            replaced = group.static_member(event.instance_id)
            joining = begin_join(draft, event)
            if replaced is not None and may_downgrade(
                group, {replaced.member_id: replaced}, draft.settings, is_replaced=True
            ):
                member = self._join_back(draft, joining, replaced)
            else:
                member = finish_join(draft, joining)
            pending = self._commit(holder, draft, joined(member))
        except BrokerError as error:
            return Pending.of(JoinAnswer(error.code, ""))
        if holder.consumer is group:
            await_sync(group, member, draft.now)
            self._shard.arm(holder)
        return mapped(pending, lambda error: JoinAnswer(error.code, ""))

    def _join_back(
        self, draft: Draft, joining: Joining, replaced: ConsumerMember
    ) -> ConsumerMember:
        """The last member of the new protocol comes back as a classic one."""
        group = draft.group
        is_rebalance = group.target_epoch < draft.epoch
        member = joining.member
        if not is_rebalance:
            member = draft.reconcile(
                member,
                (group.target_epoch, group.target_of(member)),
                joining.reported,
                has_subscription_changed=joining.has_subscription_changed,
            )
        draft.downgrade = downgrade(
            group,
            {replaced.member_id: replaced},
            draft.topics,
            draft.now,
            joining=member,
            is_rebalance=is_rebalance,
        )
        draft.records += draft.downgrade.records
        return member

    def sync(self, group: ConsumerGroup, event: Sync) -> Pending[SyncAnswer]:
        """A SyncGroup; what it tells is replicated."""
        try:
            answer = sync(group, event, self._directory(), self._doors.now())
        except BrokerError as error:
            return Pending.of(SyncAnswer(error.code))
        return mapped(self._replicated(answer), lambda error: SyncAnswer(error.code))

    def classic_heartbeat(
        self, holder: Group, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A Heartbeat."""
        group = holder.consumer
        assert group is not None, "the group is one of the new protocol"
        return heartbeat_of_classic(group, member_id, instance_id, generation, self._doors.now())

    def classic_leave(self, holder: Group, leaving: Sequence[Leaving]) -> Pending[list[ErrorCode]]:
        """A LeaveGroup, or an administrator who removes members; an error for each that goes."""
        group = holder.consumer
        assert group is not None, "the group is one of the new protocol"
        errors, found = find_all_leaving(group, leaving)
        draft = self._draft(group)
        if found:
            self._fence(draft, found)
        try:
            pending = self._commit(holder, draft, errors)
        except BrokerError as error:
            return Pending.of([error.code] * len(leaving))
        return mapped(pending, lambda error: [error.code] * len(leaving))

    def end_empty(self, holder: Group) -> ErrorCode:
        """Somebody joins a group without members by the classic protocol, which it has from now
        on; the error when that cannot be written."""
        error, _ = self._shard.write(self.deletion(holder, self._doors.clock.now_ms()))
        if not error:
            holder.consumer = None
        return STORE_ERRORS.get(error, error)

    # Records.

    def _commit(self, holder: Group, draft: Draft, answer: T) -> Pending[T | BrokerError]:
        """Append what was decided, replay it, and answer (or say why not) once it is replicated.

        raises  BrokerError when it could not be appended
        """
        shard = self._shard
        if draft.records:
            self._append(holder, draft)
        if draft.is_regex_due:
            self._resolve(holder)
        shard.arm(holder)
        return self._replicated(answer)

    def _replicated(self, answer: T) -> Pending[T | BrokerError]:
        """The answer, once everything that it may rest on is replicated."""
        pending: Pending[T | BrokerError] = Pending()

        def replicated(error: ErrorCode) -> None:
            pending.resolve(BrokerError(STORE_ERRORS.get(error, error)) if error else answer)

        self._shard.when_replicated(replicated)
        return pending

    def _append(self, holder: Group, draft: Draft) -> None:
        shard = self._shard
        wall_ms = self._doors.clock.now_ms()
        error, _ = shard.write([encode(one, wall_ms) for one in draft.records])
        if error:
            logger.warning("%s: group %s is not stored: %s", shard, holder.group_id, error.name)
            raise BrokerError(STORE_ERRORS.get(error, error))
        shard.groups[holder.group_id] = holder
        if draft.downgrade is not None:
            logger.info("%s: group %s is handed back to classic", shard, holder.group_id)
            hand_back(holder, draft.downgrade, draft.now)
            if draft.downgrade.is_rebalance:
                shard.rebalance(holder)
            return
        if holder.consumer is None:
            shard.dismiss(holder)
            forget_classic(holder)
        group: ConsumerGroup | None = draft.group
        for stored in draft.records:
            if not isinstance(stored.key, GroupMetadataKey):
                group = replay(group, stored)
        draft.group.share(self._doors.memory)
        holder.consumer = group

    def deletion(self, holder: Group, wall_ms: int) -> list[Record]:
        """The records that delete a group without members."""
        group = holder.consumer
        return [] if group is None else [encode(one, wall_ms) for one in group_gone(group)]

    # Offsets.

    def check_commit(
        self,
        group: ConsumerGroup,
        member_id: str,
        epoch: int,
        version: int,
        places: Iterable[TopicPartition],
    ) -> ErrorCode:
        """Whether an OffsetCommit may be stored."""
        return check_commit(group, member_id, epoch, version, places, self._directory())

    # Time.

    def on_time(self, holder: Group) -> None:
        """Members whose time is up are fenced."""
        group = holder.consumer
        if group is None:
            return
        now = self._doors.now()
        late = overdue(group, now.monotonic_ms)
        if not late:
            return
        fenced = self._fence_some(holder, group, list(late))
        for member_id in fenced:
            logger.info(
                "%s: member %s of group %s is fenced: %s",
                self._shard,
                member_id,
                group.group_id,
                late.pop(member_id),
            )
        # What went well once goes on at once; the rest may take until the log can be written.
        again_ms = now.monotonic_ms + (0 if fenced else RETRY_MS)
        for member_id in late:
            group.deadlines.touch(member_id, again_ms)

    def _fence_some(self, holder: Group, group: ConsumerGroup, member_ids: list[str]) -> list[str]:
        """As many of them as one batch can tell of; whom it was about."""
        while member_ids:
            draft = self._draft(group)
            self._fence(draft, {member_id: group.members[member_id] for member_id in member_ids})
            try:
                self._commit(holder, draft, None)
            except BrokerError as error:
                is_too_large = error.code is ErrorCode.UNKNOWN_SERVER_ERROR
                member_ids = member_ids[: len(member_ids) // 2 if is_too_large else 0]
            else:
                break
        return member_ids

    def loaded(self, holder: Group) -> None:
        """The group was read from the log: its members' time begins."""
        group = holder.consumer
        if group is None:
            return
        now_ms = self._doors.now().monotonic_ms
        session_ms = self._doors.consumer.session_timeout_ms
        begin_deadlines(group, now_ms, session_ms)

    # Expressions.

    def _resolve(self, holder: Group) -> None:
        """Match the members' expressions against the topics, between requests."""
        group = holder.consumer
        if group is None or group.is_resolving:
            return
        group.is_resolving = True
        directory = self._directory()
        matching = Matching(group.regex_subscribers, directory)
        self._later(lambda: self._match(holder, group, matching))

    def _later(self, work: Callable[[], None]) -> None:
        self._doors.wheel.add(self._doors.clock.monotonic_ms(), work)

    def _match(self, holder: Group, group: ConsumerGroup, matching: Matching) -> None:
        if holder.consumer is not group or self._shard.is_closed:
            return
        clock = self._doors.clock
        end_ms = clock.monotonic_ms() + MATCH_SLICE_MS
        while not matching.step():
            if clock.monotonic_ms() >= end_ms:
                self._later(lambda: self._match(holder, group, matching))
                return
        group.is_resolving = False
        draft = self._draft(group)
        store_matches(draft, matching)
        try:
            self._commit(holder, draft, None)
        except BrokerError:
            # A heartbeat asks again, but not the very next one: what is too large stays so.
            group.match_failed_ms = draft.now.wall_ms


def mapped(pending: Pending[T | BrokerError], refused: Callable[[BrokerError], T]) -> Pending[T]:
    """The answer, also for an error."""
    answer: Pending[T] = Pending()

    def done(settled: Pending[T | BrokerError]) -> None:
        result = settled.result()
        answer.resolve(refused(result) if isinstance(result, BrokerError) else result)

    pending.on_done(done)
    return answer


def not_found(message: str) -> BrokerError:
    """There is no such group."""
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, message)
