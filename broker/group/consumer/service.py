"""Consumer groups of one shard: decides, appends the records, replays them, and responds.

The records of a decision are appended as one batch and replayed at once, so that memory equals the
log.  The response waits until the batch is replicated; a response without records waits as well,
for the records that were appended before it.

    the append fails            nothing has changed; the response is the error
    not replicated in time      memory still equals the log; the response is the error, and the
                                client retries
    leadership is lost          the shard is closed; the next coordinator loads what was replicated

Invariant: what a response says of a group is replicated.
Source: Kafka's GroupMetadataManager and CoordinatorRuntime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from odradek.broker.group.append_errors import AppendPurpose, response_error
from odradek.broker.group.classic.events import Join, JoinResult, LeavingMember, Sync, SyncResult
from odradek.broker.group.classic.state import MEMBER_BYTES, ClassicGroup, GroupState
from odradek.broker.group.consumer import classic_members
from odradek.broker.group.consumer.classic_members import Joining
from odradek.broker.group.consumer.convert import (
    GroupBody,
    check_upgrade,
    downgrade_to_classic,
    may_downgrade,
    upgrade_to_consumer,
)
from odradek.broker.group.consumer.decision import Decision
from odradek.broker.group.consumer.heartbeat import (
    RETRY_MS,
    ConsumerHeartbeat,
    HeartbeatResult,
    fence_members,
    find_leaving,
    heartbeat,
    start_deadlines,
    static_leave_record,
    take_overdue,
)
from odradek.broker.group.consumer.model import ConsumerMember
from odradek.broker.group.consumer.offsets import EPOCH_FROM, check_commit
from odradek.broker.group.consumer.records import classic_tombstone, encode, group_tombstones
from odradek.broker.group.consumer.regexes import RegexMatching, store_matches
from odradek.broker.group.consumer.replay import replay
from odradek.broker.group.consumer.state import LEAVE_STATIC_EPOCH, NAME_BYTES, ConsumerGroup
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.group.context import GroupContext
from odradek.broker.group.offsets_log import OffsetsLog
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.stored.group_metadata import GroupMetadataKey
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from odradek.runtime.work import pause

logger = logging.getLogger("odradek.groups")

T = TypeVar("T")


class Committed(NamedTuple, Generic[T]):
    """An appended decision."""

    response: Pending[T]
    """Done when the records are replicated."""
    body: GroupBody
    """The group after the decision: another object after an upgrade or a downgrade."""
    must_rebalance: bool = False
    """After a downgrade: the members have to join again."""


class ConsumerGroups:
    """Serves the consumer groups of one shard."""

    def __init__(self, context: GroupContext, directory: TopicDirectory, log: OffsetsLog) -> None:
        self._context = context
        self._topics = directory
        self._log = log
        self._is_closed = False

    def close(self) -> None:
        """The shard is closed: expressions are no longer matched."""
        self._is_closed = True

    # ConsumerGroupHeartbeat.

    def reclaim_memory(self, body: GroupBody, request: ConsumerHeartbeat) -> None:
        """Before a member joins: remove unjoined classic members, of any group, if memory is
        short."""
        names = (request.member_id, request.topic_regex or "", *(request.topic_names or ()))
        self._context.memory.reclaim(
            request.client_host,
            0 if body is None else body.member_bytes,
            MEMBER_BYTES + sum(NAME_BYTES + len(name) for name in names),
            self._context.consumer.members_bytes_max,
        )

    def join_group(
        self, group_id: str, body: GroupBody, request: ConsumerHeartbeat, *, is_new: bool
    ) -> Committed[HeartbeatResult | BrokerError]:
        """The heartbeat of a member that joins.

        is_new  whether it creates the group: nothing is stored of it
        raises  BrokerError as `heartbeat` does, GROUP_ID_NOT_FOUND if a classic group cannot be
                upgraded, and the error of an append that wrote nothing
        """
        decision = self._entered(group_id, body, is_new=is_new)
        return self._commit(decision, heartbeat(decision, request))

    def _entered(self, group_id: str, body: GroupBody, *, is_new: bool) -> Decision:
        """A decision that begins with the records of an upgrade.

        1. There is no group: nothing.
        2. A consumer group: nothing.
        3. No members, or a classic group without members: the tombstone of the classic group.
        4. A classic group with members: its tombstone, and the members as consumers.
        """
        memory = self._context.memory
        if is_new:
            return self._decision(ConsumerGroup(group_id, memory))
        match body:
            case ConsumerGroup() as consumer:
                return self._decision(consumer)
            case ClassicGroup() as classic if classic.state is not GroupState.EMPTY:
                check_upgrade(classic, self._context.consumer)
                upgraded, records = upgrade_to_consumer(
                    classic, self._directory(), self._context.now()
                )
                decision = self._decision(upgraded)
                decision.records.extend(records)
                return decision
            case _:
                decision = self._decision(ConsumerGroup(group_id, memory))
                decision.records.append(classic_tombstone(group_id))
                return decision

    def heartbeat(
        self, group: ConsumerGroup, request: ConsumerHeartbeat
    ) -> Committed[HeartbeatResult | BrokerError]:
        """The heartbeat of a member that stays or leaves.

        raises  BrokerError as `heartbeat` does, and the error of an append that wrote nothing
        """
        decision = self._decision(group)
        if request.epoch >= 0:
            return self._commit(decision, heartbeat(decision, request))
        member = find_leaving(group, request.member_id, request.instance_id)
        if request.epoch == LEAVE_STATIC_EPOCH and request.instance_id is not None:
            decision.records.append(static_leave_record(group, member))
        else:
            self._fence(decision, {member.member_id: member})
        return self._commit(decision, HeartbeatResult(request.member_id, request.epoch))

    def _fence(self, decision: Decision, leaving: Mapping[str, ConsumerMember]) -> None:
        """Remove members; without the last one that uses the consumer protocol, downgrade."""
        group = decision.group
        if may_downgrade(group, leaving, decision.settings):
            decision.store_downgrade(
                downgrade_to_classic(group, leaving, decision.topics, decision.now)
            )
        else:
            fence_members(decision, leaving)

    def _decision(self, group: ConsumerGroup) -> Decision:
        context = self._context
        return Decision(group, self._directory(), context.consumer, context.now())

    def _directory(self) -> TopicDirectory:
        self._topics.refresh()
        return self._topics

    # Classic members.

    def join(self, group: ConsumerGroup, event: Join) -> Committed[JoinResult]:
        """A JoinGroup request to a consumer group that has members."""
        try:
            decision = self._decision(group)
            if not event.member_id and event.instance_id is None and event.is_member_id_required:
                classic_members.check_join(decision, event)
                required = JoinResult(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id)
                return Committed(Pending.of(required), group)
            replaced = group.static_member(event.instance_id)
            joining = classic_members.begin_join(decision, event)
            if replaced is not None and may_downgrade(
                group, {replaced.member_id: replaced}, decision.settings, is_replaced=True
            ):
                member = self._join_downgraded(decision, joining, replaced)
            else:
                member = classic_members.finish_join(decision, joining)
            committed = self._commit(decision, classic_members.joined_result(member))
        except BrokerError as error:
            return Committed(Pending.of(JoinResult(error.code, "")), group)
        if committed.body is group:
            classic_members.await_sync(group, member, decision.now)
        response = _mapped(committed.response, lambda error: JoinResult(error.code, ""))
        return Committed(response, committed.body, committed.must_rebalance)

    def _join_downgraded(
        self, decision: Decision, joining: Joining, replaced: ConsumerMember
    ) -> ConsumerMember:
        """The last member that used the consumer protocol has restarted as a classic member."""
        group = decision.group
        must_rebalance = group.target_epoch < decision.epoch
        member = joining.member
        if not must_rebalance:
            member = decision.reconcile(
                member,
                (group.target_epoch, group.target_of(member)),
                joining.reported,
                has_subscription_changed=joining.has_subscription_changed,
            )
        decision.store_downgrade(
            downgrade_to_classic(
                group,
                {replaced.member_id: replaced},
                decision.topics,
                decision.now,
                joining=member,
                must_rebalance=must_rebalance,
            )
        )
        return member

    def sync(self, group: ConsumerGroup, event: Sync) -> Pending[SyncResult]:
        """A SyncGroup request."""
        try:
            result = classic_members.sync(group, event, self._directory(), self._context.now())
        except BrokerError as error:
            return Pending.of(SyncResult(error.code))
        return _mapped(self._when_replicated(result), lambda error: SyncResult(error.code))

    def classic_heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A Heartbeat request."""
        now = self._context.now()
        return classic_members.heartbeat(group, member_id, instance_id, generation, now)

    def classic_leave(
        self, group: ConsumerGroup, leaving: Sequence[LeavingMember]
    ) -> Committed[list[ErrorCode]]:
        """A LeaveGroup request, also of an administrator; the errors are in the order of the
        members."""
        errors, members = classic_members.find_leaving(group, leaving)
        decision = self._decision(group)
        if members:
            self._fence(decision, members)
        try:
            committed = self._commit(decision, errors)
        except BrokerError as error:
            return Committed(Pending.of([error.code] * len(leaving)), group)
        response = _mapped(committed.response, lambda error: [error.code] * len(leaving))
        return Committed(response, committed.body, committed.must_rebalance)

    def delete_empty(self, group: ConsumerGroup) -> ErrorCode:
        """Append the tombstones of a group without members: a classic group takes its place."""
        wall_ms = self._context.clock.now_ms()
        error, _ = self._log.write([encode(record, wall_ms) for record in group_tombstones(group)])
        return response_error(error, AppendPurpose.CONSUMER_GROUP)

    # Records.

    def _commit(self, decision: Decision, result: T) -> Committed[T | BrokerError]:
        """Append the decision and replay it; the response waits until it is replicated.

        raises  BrokerError when it could not be appended
        """
        group = decision.group
        downgrade = decision.downgrade
        if decision.records:
            self._append(decision)
        if decision.is_regex_due:
            self._match_regexes(group)
        response = self._when_replicated(result)
        if downgrade is None:
            return Committed(response, group)
        return Committed(response, downgrade.classic, downgrade.must_rebalance)

    def _append(self, decision: Decision) -> None:
        context = self._context
        group = decision.group
        wall_ms = context.clock.now_ms()
        error, _ = self._log.write([encode(record, wall_ms) for record in decision.records])
        if error:
            logger.warning("%s: group %s is not stored: %s", self._log, group.group_id, error.name)
            raise BrokerError(response_error(error, AppendPurpose.CONSUMER_GROUP))
        if decision.downgrade is not None:
            classic = decision.downgrade.classic
            classic.share(context.memory)
            classic.start_sessions(decision.now)
            return
        for stored in decision.records:
            if not isinstance(stored.key, GroupMetadataKey):
                replay(group, stored)
        group.share(context.memory)

    def _when_replicated(self, result: T) -> Pending[T | BrokerError]:
        """The result, once all records that it may depend on are replicated."""
        pending: Pending[T | BrokerError] = Pending()

        def replicated(error: ErrorCode) -> None:
            code = response_error(error, AppendPurpose.CONSUMER_GROUP)
            pending.resolve(BrokerError(code) if code else result)

        self._log.when_replicated(replicated)
        return pending

    # Offsets.

    def check_commit(
        self,
        group: ConsumerGroup,
        member_id: str,
        epoch: int,
        version: int,
        partitions: Iterable[TopicPartition],
    ) -> ErrorCode:
        """Whether an OffsetCommit may be stored."""
        return check_commit(group, member_id, epoch, version, partitions, self._directory())

    def check_transactional_commit(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> ErrorCode:
        """Whether a TxnOffsetCommit may be stored; producers know no epochs of members, and many
        name none (Kafka 3.9 refuses those, 4.3 does not)."""
        if epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE
        error = check_commit(group, member_id, epoch, EPOCH_FROM, partitions, self._directory())
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    # Time.

    def start_deadlines(self, group: ConsumerGroup) -> None:
        """Start the sessions of all members; called when the group was loaded."""
        now_ms = self._context.now().monotonic_ms
        start_deadlines(group, now_ms, self._context.consumer.session_timeout_ms)

    def on_time(self, group: ConsumerGroup) -> Committed[None | BrokerError] | None:
        """Fence the members whose deadlines have passed; None if no decision was appended."""
        now = self._context.now()
        overdue = take_overdue(group, now.monotonic_ms)
        if not overdue:
            return None
        committed, fenced = self._fence_overdue(group, list(overdue))
        for member_id in fenced:
            logger.info(
                "%s: member %s of group %s is fenced: %s",
                self._log,
                member_id,
                group.group_id,
                overdue.pop(member_id),
            )
        # After a success the rest is fenced at once, after an error when the log may be writable.
        again_ms = now.monotonic_ms + (0 if fenced else RETRY_MS)
        for member_id in overdue:
            group.deadlines.touch(member_id, again_ms)
        return committed

    def _fence_overdue(
        self, group: ConsumerGroup, member_ids: list[str]
    ) -> tuple[Committed[None | BrokerError] | None, list[str]]:
        """Fence as many members as fit into one batch; returns their ids."""
        while member_ids:
            decision = self._decision(group)
            self._fence(decision, {member_id: group.members[member_id] for member_id in member_ids})
            try:
                return self._commit(decision, None), member_ids
            except BrokerError as error:
                is_too_large = error.code is ErrorCode.UNKNOWN_SERVER_ERROR
                member_ids = member_ids[: len(member_ids) // 2 if is_too_large else 0]
        return None, []

    # Subscriptions by regular expression.

    def _match_regexes(self, group: ConsumerGroup) -> None:
        """Match the members' expressions against the topics, between requests."""
        if not group.is_resolving:
            group.begin_matching()
            matching = RegexMatching(group.regex_subscribers, self._directory())
            self._context.matching.run_later(lambda: self._match(group, matching))

    async def _match(self, group: ConsumerGroup, matching: RegexMatching) -> None:
        while not (self._is_closed or group.is_released):
            if matching.step():
                self._store_matches(group, matching)
                return
            await pause()

    def _store_matches(self, group: ConsumerGroup, matching: RegexMatching) -> None:
        group.end_matching()
        decision = self._decision(group)
        store_matches(decision, matching)
        try:
            self._commit(decision, None)
        except BrokerError:
            # A heartbeat tries again, but not the next one: what is too large remains too large.
            group.note_matching_failed(decision.now.wall_ms)


def _mapped(pending: Pending[T | BrokerError], failed: Callable[[BrokerError], T]) -> Pending[T]:
    """The result; an error becomes what `failed` makes of it."""

    def convert(result: T | BrokerError) -> T:
        return failed(result) if isinstance(result, BrokerError) else result

    return pending.then(convert)


def not_found(message: str) -> BrokerError:
    """GROUP_ID_NOT_FOUND."""
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, message)
