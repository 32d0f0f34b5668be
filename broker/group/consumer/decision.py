"""The steps of a decision: from a member's request to the records to be appended.

Pure: the group changes when the records are replayed, so a step gets what an earlier one has
decided as an argument.  Only deadlines and the version of the topics that were compared change at
once, which is harmless if the records cannot be appended.

    update_member  the member's metadata has changed
    update_regex   the member's expression has changed
    update_epoch   changed subscriptions or topics begin a group epoch
    update_target  a group epoch needs a target assignment
    reconcile      the member takes its next step to the target

Source: Kafka 4.3's GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from odradek.broker.group.consumer.assignors import ASSIGNORS, Assignor
from odradek.broker.group.consumer.convert import Downgrade
from odradek.broker.group.consumer.model import NOTHING, Assignment, ConsumerMember, MemberState
from odradek.broker.group.consumer.reconcile import Goal, ReportedPartitions, reconcile
from odradek.broker.group.consumer.records import (
    Records,
    assignment_record,
    epoch_record,
    member_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
    topics_tombstone,
)
from odradek.broker.group.consumer.state import (
    NEVER_MATCHED,
    ConsumerGroup,
    Subscribers,
    count,
    is_reconciled,
    most_votes,
    size_bytes,
    subscribe,
)
from odradek.broker.group.consumer.subscription_regex import check_regex
from odradek.broker.group.consumer.target import Subscriptions, plan_target
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.group.limits import Now
from odradek.broker.settings.groups import ConsumerGroupSettings
from odradek.protocol.errors import BrokerError, ErrorCode

REGEX_INTERVAL_MS: Final = 10_000
"""The expressions of a group are matched at most once in this time."""


class RegexChange(Enum):
    """How a member's expression has changed."""

    NONE = 0
    CHANGED = 1
    """The topics of the new one are not known yet."""
    RESOLVED = 2
    """It was removed, or the topics of the new one are known."""


class Decision:
    """Records to be appended in one batch, and what the steps have found.

    Kafka: CoordinatorResult.
    """

    __slots__ = (
        "downgrade",
        "epoch",
        "group",
        "is_regex_due",
        "now",
        "records",
        "settings",
        "topics",
    )

    def __init__(
        self,
        group: ConsumerGroup,
        topics: TopicDirectory,
        settings: ConsumerGroupSettings,
        now: Now,
    ) -> None:
        self.group = group
        self.topics = topics
        self.settings = settings
        self.now = now
        self.records: Records = []
        self.downgrade: Downgrade | None = None
        """The records downgrade the group."""
        self.epoch = group.epoch
        self.is_regex_due = False
        """The expressions must be matched against the topics after the append."""

    def store_downgrade(self, downgrade: Downgrade) -> None:
        """Store that the group becomes a classic one."""
        self.downgrade = downgrade
        self.records.extend(downgrade.records)

    def update_member(self, old: ConsumerMember, new: ConsumerMember) -> bool:
        """Store the member's metadata if it has changed; returns whether its topic names have.

        raises  BrokerError GROUP_MAX_SIZE_REACHED when there is no memory for it
        """
        if new == old:
            return False
        self._check_memory(new)
        self.records.append(member_record(self.group.group_id, new))
        return new.subscribed_topic_names != old.subscribed_topic_names

    def _check_memory(self, new: ConsumerMember) -> None:
        """Differs from Kafka: the memory of the members of all groups is bounded."""
        old_member = self.group.members.get(new.member_id)
        more_bytes = size_bytes(new) - (0 if old_member is None else size_bytes(old_member))
        memory, group_bytes = self.group.memory, self.group.member_bytes
        bytes_max = self.settings.members_bytes_max
        if not memory.fits(new.client_host, group_bytes, more_bytes, bytes_max):
            raise BrokerError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "There is no memory for more members."
            )

    # Expressions.

    def update_regex(self, old: ConsumerMember, new: ConsumerMember) -> RegexChange:
        """Store that a member has changed its expression.

        raises  BrokerError INVALID_REGULAR_EXPRESSION
        """
        group = self.group
        before, after = old.subscribed_topic_regex or "", new.subscribed_topic_regex or ""
        change = RegexChange.NONE
        is_due = False
        if before != after:
            change = RegexChange.CHANGED
            if before and group.regex_subscribers.get(before) == 1:
                self.records.append(regex_tombstone(group.group_id, before))
            if after and after not in group.regex_subscribers:
                check_regex(after)
                is_due = True
            elif after in group.resolved_regexes or (before and not after):
                change = RegexChange.RESOLVED
        if is_due or group.regex_subscribers:
            self.is_regex_due = not group.is_resolving and self._must_resolve(
                _changed_counts(group.regex_subscribers, before, after), is_due=is_due
            )
        return change

    def _must_resolve(self, subscribers: Mapping[str, int], *, is_due: bool) -> bool:
        resolved = self.group.resolved_regexes
        last_ms = max(
            self.group.match_failed_ms,
            *(resolved_regex.timestamp_ms for resolved_regex in resolved.values()),
            NEVER_MATCHED,
        )
        wall_ms = self.now.wall_ms
        if not subscribers or wall_ms <= last_ms + REGEX_INTERVAL_MS:
            return False
        return (
            is_due
            or len(subscribers) != len(resolved)
            or any(
                resolved_regex.version != self.topics.names_version
                for resolved_regex in resolved.values()
            )
            or wall_ms > last_ms + self.settings.regex_refresh_ms
        )

    # Epochs.

    def update_epoch(self, old: ConsumerMember, new: ConsumerMember, *, must_begin: bool) -> None:
        """Raise the group epoch if subscriptions, or topics subscribed to, have changed."""
        group = self.group
        version, epoch = group.seen_topics
        if not must_begin and version == self.topics.version and group.epoch >= epoch:
            return
        metadata_hash = self.topics.hash_of(self._topics_with(old, new))
        if must_begin or metadata_hash != group.metadata_hash:
            self.bump_epoch(metadata_hash)
        group.note_seen_topics(self.topics.version, self.epoch)
        if group.has_topics_record:
            self.records.append(topics_tombstone(group.group_id))

    def bump_epoch(self, metadata_hash: int) -> None:
        """Begin an epoch."""
        self.epoch = self.group.epoch + 1
        self.records.append(epoch_record(self.group.group_id, self.epoch, metadata_hash))

    def _topics_with(self, old: ConsumerMember, new: ConsumerMember) -> Mapping[str, Subscribers]:
        group = self.group
        before, after = old.subscribed_topic_regex, new.subscribed_topic_regex
        if old.subscribed_topic_names == new.subscribed_topic_names and before == after:
            return group.topics
        topics = dict(group.topics)
        subscribe(topics, old.subscribed_topic_names, by_name=-1)
        subscribe(topics, new.subscribed_topic_names, by_name=1)
        if before and before != after and group.regex_subscribers.get(before) == 1:
            resolved = group.resolved_regexes.get(before)
            if resolved is not None:
                subscribe(topics, resolved.topics, by_regex=-1)
        return topics

    # The target.

    def update_target(self, old: ConsumerMember, new: ConsumerMember) -> tuple[int, Assignment]:
        """The epoch and the member's part of the target, which is computed if it is outdated.

        A target is kept for at least `group.consumer.assignment.interval.ms`, unless it was made
        at a later time than now: a clock was set back, maybe that of a former coordinator.
        """
        group = self.group
        if group.target_epoch >= self.epoch or not self._may_assign():
            return group.target_epoch, group.target_of(new)
        votes = dict(group.assignor_votes)
        for member, step in ((old, -1), (new, 1)):
            if member.server_assignor is not None:
                count(votes, member.server_assignor, step)
        members = dict(group.members)
        inherits: dict[str, str] = {}
        former = None if new.instance_id is None else group.static_members.get(new.instance_id)
        if former is not None and former != new.member_id:
            members.pop(former, None)
            inherits[new.member_id] = former
        members[new.member_id] = new
        planned = plan_target(
            members,
            group.targets,
            assignor=self._assignor(votes),
            topics=self.topics.select(self._topics_with(old, new)),
            resolved=self._resolved(),
            inherits=inherits,
        )
        for member_id, assignment in planned.changed.items():
            self.records.append(target_record(group.group_id, member_id, assignment))
        self.records.append(target_epoch_record(group.group_id, self.epoch, self.now.wall_ms))
        return self.epoch, planned.assignments.get(new.member_id, NOTHING)

    def _assignor(self, votes: Mapping[str, int]) -> Assignor:
        """The assignor with most votes, or the default if this release does not know it."""
        default = self.settings.assignors[0]
        return ASSIGNORS.get(most_votes(votes, default), ASSIGNORS[default])

    def _may_assign(self) -> bool:
        interval_ms = self.settings.assignment_interval_ms
        last_ms = self.group.target_timestamp_ms
        since_ms = self.now.wall_ms - last_ms
        return not last_ms or not interval_ms or since_ms < 0 or since_ms >= interval_ms

    def _resolved(self) -> dict[str, tuple[str, ...]]:
        return {
            regex: resolved_regex.topics
            for regex, resolved_regex in self.group.resolved_regexes.items()
        }

    # The member.

    def reconcile(
        self,
        member: ConsumerMember,
        target: tuple[int, Assignment],
        reported: ReportedPartitions | None,
        *,
        has_subscription_changed: bool,
    ) -> ConsumerMember:
        """The member after its next step; starts or ends its time to revoke partitions.

        raises  BrokerError FENCED_MEMBER_EPOCH
        """
        target_epoch, assignment = target
        if not has_subscription_changed and is_reconciled(member, target_epoch):
            return member
        group = self.group
        resolved = self._resolved()
        names = dict.fromkeys(member.subscribed_topic_names)
        names.update(dict.fromkeys(resolved.get(member.subscribed_topic_regex or "", ())))
        subscriptions = Subscriptions(self.topics.select(names), resolved)
        updated = reconcile(
            member,
            Goal(
                target_epoch=target_epoch,
                target=assignment,
                subscribed_topic_ids=frozenset(subscriptions.topic_ids(member)),
                partition_epochs=group.partition_epochs,
                reported=reported,
                has_subscription_changed=has_subscription_changed,
            ),
        )
        if updated == member:
            return updated
        self.records.append(assignment_record(group.group_id, updated))
        if updated.classic is None:
            self._await_revocation(updated)
        return updated

    def _await_revocation(self, member: ConsumerMember) -> None:
        deadlines = self.group.deadlines
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            deadline_ms = self.now.monotonic_ms + member.rebalance_timeout_ms
            deadlines.await_revocation(member.member_id, deadline_ms, member.member_epoch)
        else:
            deadlines.end_revocation(member.member_id)


def _changed_counts(
    counts: Mapping[str, int], before: str | None, after: str | None
) -> dict[str, int]:
    changed = dict(counts)
    if before:
        count(changed, before, -1)
    if after:
        count(changed, after, 1)
    return changed
