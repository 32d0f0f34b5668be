"""Whether there is memory for what a member of the classic protocol sends.

Pure.  The rules are those of `limits.Memory`; here is what they mean for a JoinGroup.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from odradek.broker.group.classic.events import Join
from odradek.broker.group.classic.state import Group, protocols_bytes
from odradek.broker.group.limits import Limits


class Admission:
    """The joins of one shard.

    drop  removes a member, or an id that was given out and not used, and answers what waits
    """

    __slots__ = ("_drop", "_limits")

    def __init__(self, limits: Limits, drop: Callable[[Group, str], None]) -> None:
        self._limits = limits
        self._drop = drop

    def make_room(self, group: Group, event: Join) -> None:
        """Before a join: drop members that never completed one if memory is short."""
        group.memory.make_room(
            event.client_host,
            group.member_bytes,
            more_bytes(group, event),
            self._limits.members_bytes_max,
        )

    def note_unjoined(self, group: Group, event: Join) -> None:
        """After a join: note an id that was given out, and a member without a SyncGroup."""
        memory, member_id = group.memory, event.member_id or event.new_member_id
        drop = partial(self._drop, group, member_id)
        if member_id in group.pending:
            memory.pending_ids.add(member_id, group.group_id, drop)
        member = group.members.get(member_id)
        if member is not None and not member.has_synced:
            memory.joined(member)
            memory.add_unjoined(member, member.client_host, member.size_bytes(), drop)


def has_memory(group: Group, event: Join, limits: Limits) -> bool:
    """Whether the member may be kept."""
    return group.memory.has_room(
        event.client_host, group.member_bytes, more_bytes(group, event), limits.members_bytes_max
    )


def more_bytes(group: Group, event: Join) -> int:
    """What a join adds to what its member takes."""
    known = group.members.get(event.member_id)
    former_bytes = 0 if known is None else protocols_bytes(known.protocols)
    return protocols_bytes(event.protocols) - former_bytes
