"""Bugs of consumer groups that the simulator must find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from odradek.broker.group.classic import offsets, protocol, rebalance
from odradek.broker.group.classic.state import ClassicGroup
from odradek.broker.group.consumer import decision, reconcile, service
from odradek.broker.group.consumer.service import ConsumerGroups
from odradek.broker.group.offsets_log import OffsetsLog
from odradek.broker.group.replay import GroupReplay
from odradek.broker.node.group_coordination import GroupLeadership
from odradek.protocol.errors import ErrorCode
from tests.sim.planting import Bugs

GROUP_BUGS: Final = Bugs()


@GROUP_BUGS.add
def offsets_are_committed_when_appended(patch: pytest.MonkeyPatch) -> None:
    """The coordinator does not wait for its replicas."""
    patch.setattr(
        OffsetsLog,
        "await_replicas",
        lambda self, base_offset, last_offset, call: call(ErrorCode.NONE, base_offset),
    )


@GROUP_BUGS.add
def commits_of_earlier_generations_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """A member that has been expelled commits all the same."""
    patch.setattr(offsets, "check_commit", lambda group, **_: ErrorCode.NONE)


@GROUP_BUGS.add
def generations_keep_their_number(patch: pytest.MonkeyPatch) -> None:
    """Partitions have other owners, and the generation is the same."""
    complete_join = rebalance.complete_join

    def kept(group: ClassicGroup, now: Any, effects: Any) -> None:
        is_next = group.generation > 0
        group.generation -= is_next
        former = group.generation
        complete_join(group, now, effects)
        group.generation += is_next and group.generation == former

    patch.setattr(rebalance, "complete_join", kept)
    patch.setattr(protocol, "complete_join", kept)


@GROUP_BUGS.add
def generations_begin_again_after_a_failover(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over knows no groups, only offsets."""
    patch.setattr(GroupReplay, "_apply_group", lambda self, group_id, data: None)


@GROUP_BUGS.add
def first_offset_is_loaded(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over takes the oldest record of an offset for the newest one."""
    put = GroupReplay._put

    def first(self: GroupReplay, group_id: str, partition: Any, committed: Any) -> None:
        if partition not in self._group(group_id).offsets.committed:
            put(self, group_id, partition, committed)

    patch.setattr(GroupReplay, "_put", first)


@GROUP_BUGS.add
def members_have_no_sessions_after_a_failover(patch: pytest.MonkeyPatch) -> None:
    """A member that died with the coordinator keeps its partitions for ever."""
    patch.setattr(ClassicGroup, "start_sessions", lambda self, now: None)


@GROUP_BUGS.add
def replaced_static_members_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """KIP-345: a static member that was replaced commits all the same."""
    check_commit = offsets.check_commit

    def unfenced(group: ClassicGroup, *, instance_id: str | None, **others: Any) -> ErrorCode:
        member_id = group.static_members.get(instance_id or "")
        if member_id is not None:
            others["member_id"] = member_id
        return check_commit(group, instance_id=instance_id, **others)

    patch.setattr(offsets, "check_commit", unfenced)


@GROUP_BUGS.add
def partitions_are_given_before_they_are_released(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-16147: no member of the new protocol waits for others."""
    step = reconcile.reconcile

    def at_once(member: Any, goal: Any) -> Any:
        return step(member, replace(goal, partition_epochs={}))

    patch.setattr(decision, "reconcile", at_once)


@GROUP_BUGS.add
def commits_of_fenced_consumers_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """A member of the new protocol commits when its partitions have other owners."""
    patch.setattr(service, "check_commit", lambda *_: ErrorCode.NONE)


@GROUP_BUGS.add
def consumers_have_no_sessions_after_a_failover(patch: pytest.MonkeyPatch) -> None:
    """A member of the new protocol that died with the coordinator keeps its partitions."""
    patch.setattr(ConsumerGroups, "start_deadlines", lambda self, group: None)


@GROUP_BUGS.add
def offsets_go_with_a_replica(patch: pytest.MonkeyPatch) -> None:
    """A reassignment takes the committed offsets along: this simulator has found it."""
    patch.setattr(
        GroupLeadership,
        "on_log_deleted",
        lambda self, topic, index: self._groups.on_partition_deleted(topic, index),
    )
