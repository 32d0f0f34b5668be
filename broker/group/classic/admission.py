"""Whether there is memory for a JoinGroup of a classic member.

Pure.  The rules are those of `MemberMemory`.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.group.classic.events import Join
from odradek.broker.group.classic.state import ClassicGroup, protocols_bytes
from odradek.broker.group.limits import GroupLimits


def fits(group: ClassicGroup, event: Join, limits: GroupLimits) -> bool:
    """Whether there is memory for the member."""
    return group.memory.fits(
        event.client_host, group.member_bytes, more_bytes(group, event), limits.members_bytes_max
    )


def reclaim(group: ClassicGroup, event: Join, limits: GroupLimits) -> None:
    """Before a join: remove members that have never completed one, if memory is short."""
    group.memory.reclaim(
        event.client_host, group.member_bytes, more_bytes(group, event), limits.members_bytes_max
    )


def note_join(group: ClassicGroup, event: Join, remove: Callable[[str], None]) -> None:
    """After a join: note a pending member, or a member that has not sent a SyncGroup yet.

    remove  removes one of them by its member id
    """
    memory, member_id = group.memory, event.member_id or event.new_member_id
    if member_id in group.pending:
        memory.pending.add(member_id, group.group_id, lambda: remove(member_id))
    member = group.members.get(member_id)
    if member is not None and not member.has_synced:
        memory.note_joined(member)
        memory.add_unjoined(
            member, member.client_host, member.size_bytes(), lambda: remove(member_id)
        )


def more_bytes(group: ClassicGroup, event: Join) -> int:
    """By how much a join changes the memory of its member."""
    member = group.members.get(event.member_id)
    former_bytes = 0 if member is None else protocols_bytes(member.protocols)
    return protocols_bytes(event.protocols) - former_bytes
