"""Members that leave, or miss one of their deadlines.

Pure.  Source: Kafka 4.3's GroupMetadataManager.consumerGroupFenceMembers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.group.consumer.decision import Decision
from odradek.broker.group.consumer.model import ConsumerMember, MemberState
from odradek.broker.group.consumer.records import member_tombstones, regex_tombstone
from odradek.broker.group.consumer.state import ConsumerGroup, count, subscribe

RETRY_MS: Final = 500
"""Fencing that could not be appended is tried again after it."""

Members = Mapping[str, ConsumerMember]


def fence_members(decision: Decision, leaving: Members) -> None:
    """Remove members, and the expressions that only they subscribe by; begins an epoch."""
    group = decision.group
    for member_id in leaving:
        decision.records.extend(member_tombstones(group.group_id, member_id))
    topics = dict(group.topics)
    by_regex: dict[str, int] = {}
    for member in leaving.values():
        subscribe(topics, member.subscribed_topic_names, by_name=-1)
        if member.subscribed_topic_regex:
            count(by_regex, member.subscribed_topic_regex, 1)
    for regex, members in by_regex.items():
        if group.regex_subscribers.get(regex) == members:
            decision.records.append(regex_tombstone(group.group_id, regex))
            resolved = group.resolved_regexes.get(regex)
            if resolved is not None:
                subscribe(topics, resolved.topics, by_regex=-1)
    decision.bump_epoch(decision.topics.hash_of(topics))


def take_overdue(group: ConsumerGroup, now_ms: int) -> dict[str, str]:
    """Members whose deadline has passed, and the reason to log; these deadlines are removed.

    now_ms  monotonic
    """
    passed = group.deadlines.take_passed(now_ms)
    reasons = dict.fromkeys(passed.sessions, "the member session expired")
    for member_id, epoch in passed.rebalances:
        member = group.members.get(member_id)
        if member is not None and member.member_epoch == epoch:
            reasons[member_id] = f"it failed to transition from epoch {epoch} in time"
    reasons |= dict.fromkeys(
        passed.joins, "the classic member failed to join within the rebalance timeout"
    )
    reasons |= dict.fromkeys(passed.syncs, "the member failed to sync within timeout")
    return {
        member_id: reason for member_id, reason in reasons.items() if member_id in group.members
    }


def start_deadlines(group: ConsumerGroup, now_ms: int, session_timeout_ms: int) -> None:
    """Start the members' sessions, and their time to revoke partitions, after a load.

    now_ms  monotonic
    """
    for member in group.members.values():
        group.deadlines.touch(member.member_id, now_ms + session_timeout_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            group.deadlines.await_revocation(
                member.member_id, now_ms + member.rebalance_timeout_ms, member.member_epoch
            )
