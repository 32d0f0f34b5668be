"""One member's next step towards its target.

    state                  goes on when
    STABLE                 the target has another epoch than the member
    UNREVOKED_PARTITIONS   the member no longer owns a partition that it must revoke
    UNRELEASED_PARTITIONS  always: a partition may have become free
    UNKNOWN                the member owns no partition, else it is fenced

A step first revokes: partitions that are not in the target are pending revocation, and the member
stays in its epoch until it no longer owns them.  Then the member gets the target's epoch and those
of its target partitions that are free; it waits for the ones that other members still own.  So no
partition ever has two owners.  Pure.

Source: KIP-848, KIP-1251; Kafka 4.3's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import (
    NOTHING_OWNED,
    Assignment,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)
from odradek.protocol.errors import BrokerError, ErrorCode

ReportedPartitions = Sequence[tuple[Uuid, Sequence[int]]]
"""The partitions that a member reports to own: topic id and partitions, in any order."""

UNKNOWN_STATE: Final = (
    "The consumer group member is in a unknown state. "
    "The member must abandon all its partitions and rejoin."
)
_NO_PARTITIONS: Final[Mapping[int, int]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The input of a step besides the member.

    target                   the member's part of the target
    subscribed_topic_ids     of topics that exist; partitions of other topics are revoked even if
                             they are in the target
    partition_epochs         topic id -> partition -> epoch of the member that owns it, also while
                             it must revoke it; all other partitions are free
    reported                 the partitions that the member reports to own; None: not in the request
    has_subscription_changed by the heartbeat of this step
    """

    target_epoch: int
    target: Assignment
    subscribed_topic_ids: Container[Uuid]
    partition_epochs: Mapping[Uuid, Mapping[int, int]]
    reported: ReportedPartitions | None = None
    has_subscription_changed: bool = False


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after its step; the same object if no step is possible.

    A result that equals the member need not be stored.

    raises  BrokerError FENCED_MEMBER_EPOCH  the member's stored state is of a later release, and it
                                             still owns partitions
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch != goal.target_epoch:
                return _step(member, goal, member.member_epoch)
        case MemberState.UNREVOKED_PARTITIONS:
            if not _still_owns(goal.reported, member.partitions_pending_revocation):
                return _step(member, goal, member.member_epoch)
        case MemberState.UNRELEASED_PARTITIONS:
            return _step(member, goal, member.member_epoch)
        case MemberState.UNKNOWN:
            if goal.reported is None or goal.reported:
                raise BrokerError(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE)
            return _step(member, goal, goal.target_epoch)
    return _without_unsubscribed(member, goal) if goal.has_subscription_changed else member


def _still_owns(reported: ReportedPartitions | None, revoked: OwnedPartitions) -> bool:
    """Whether the member may still own some of these; True if it has not reported."""
    if reported is None:
        return True
    return any(
        partition in revoked.get(topic_id, _NO_PARTITIONS)
        for topic_id, partitions in reported
        for partition in partitions
    )


def _without_unsubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member in the same epoch, without topics that it no longer subscribes to."""
    removed = {
        topic_id: partitions
        for topic_id, partitions in member.assigned_partitions.items()
        if topic_id not in goal.subscribed_topic_ids
    }
    if not removed:
        return member
    kept = {
        topic_id: partitions
        for topic_id, partitions in member.assigned_partitions.items()
        if topic_id not in removed
    }
    pending = dict(member.partitions_pending_revocation)
    for topic_id, partitions in removed.items():
        merged = {**pending.get(topic_id, _NO_PARTITIONS), **partitions}
        pending[topic_id] = dict(sorted(merged.items()))
    if _still_owns(goal.reported, pending):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_member_epoch=member.member_epoch,
            assigned_partitions=kept,
            partitions_pending_revocation=pending,
        )
    return replace(member, previous_member_epoch=member.member_epoch, assigned_partitions=kept)


def _step(member: ConsumerMember, goal: Goal, epoch: int) -> ConsumerMember:
    """The next step to the target.

    epoch  of the member while it must revoke partitions
    """
    kept: dict[Uuid, dict[int, int]] = {}
    assigned: dict[Uuid, dict[int, int]] = {}
    revoked: dict[Uuid, Mapping[int, int]] = {
        topic_id: partitions
        for topic_id, partitions in member.assigned_partitions.items()
        if topic_id not in goal.target
    }
    is_waiting = False
    for topic_id, target_partitions in goal.target.items():
        present = member.assigned_partitions.get(topic_id, _NO_PARTITIONS)
        if topic_id not in goal.subscribed_topic_ids:
            target_partitions = ()
        stays = {
            partition: present[partition] for partition in target_partitions if partition in present
        }
        if len(stays) < len(present):
            revoked[topic_id] = {
                partition: since for partition, since in present.items() if partition not in stays
            }
        given = stays
        if len(stays) < len(target_partitions):
            given = _given(member, goal, topic_id, target_partitions)
            is_waiting = is_waiting or len(given) < len(target_partitions)
        if stays:
            kept[topic_id] = stays
        if given:
            assigned[topic_id] = given
    if revoked and _still_owns(goal.reported, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            member_epoch=epoch,
            previous_member_epoch=member.member_epoch,
            assigned_partitions=kept,
            partitions_pending_revocation=revoked,
        )
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        member_epoch=goal.target_epoch,
        previous_member_epoch=member.member_epoch,
        assigned_partitions=assigned,
        partitions_pending_revocation=NOTHING_OWNED,
    )


def _given(
    member: ConsumerMember, goal: Goal, topic_id: Uuid, target_partitions: tuple[int, ...]
) -> dict[int, int]:
    """The target partitions of a topic that the member owns or that are free.

    Partitions that it must still revoke are its own.
    """
    present = member.assigned_partitions.get(topic_id, _NO_PARTITIONS)
    own = member.partitions_pending_revocation.get(topic_id, _NO_PARTITIONS)
    epochs = goal.partition_epochs.get(topic_id, _NO_PARTITIONS)
    return {
        partition: present.get(partition, goal.target_epoch)
        for partition in target_partitions
        if partition in present or partition not in epochs or partition in own
    }
