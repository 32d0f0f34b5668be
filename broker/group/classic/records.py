"""The record of a classic group: key version 2, value version 3.

Pure.  Source: Kafka 3.9's GroupMetadataManager.groupMetadataKey and groupMetadataValue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.group.classic.state import ClassicGroup, ClassicMember
from odradek.broker.group.member_memory import MemberMemory
from odradek.broker.group.records import versioned
from odradek.protocol.records.record import Record
from odradek.protocol.stored.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

GROUP_KEY: Final = 2
GROUP_VALUE: Final = 3


def group_value(group: ClassicGroup, assignments: Mapping[str, bytes] | None) -> GroupMetadataValue:
    """The value of a group's record.

    assignments  by member id; None: those that the members have
    """
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp_ms=group.state_changed_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(group.protocol),
                assignment=member.assignment
                if assignments is None
                else assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )


def group_record(group_id: str, value: GroupMetadataValue | None, wall_ms: int) -> Record:
    """A group's record; None makes its tombstone."""
    return Record(
        versioned(GroupMetadataKey(group=group_id), GROUP_KEY),
        None if value is None else versioned(value, GROUP_VALUE),
        timestamp_ms=wall_ms,
    )


def group_of(group_id: str, value: GroupMetadataValue, memory: MemberMemory) -> ClassicGroup:
    """The group that a record describes; its members are those of a stable generation."""
    protocol = value.protocol
    return ClassicGroup.restored(
        group_id,
        memory,
        (
            ClassicMember(
                stored.member_id,
                instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=stored.session_timeout_ms
                if stored.rebalance_timeout_ms < 0
                else stored.rebalance_timeout_ms,
                session_timeout_ms=stored.session_timeout_ms,
                protocols=((protocol or "", stored.subscription),),
                assignment=stored.assignment,
            )
            for stored in value.members
        ),
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=protocol,
        leader=value.leader,
        state_changed_ms=value.current_state_timestamp_ms,
    )
