"""A classic group in memory: its members and the state of its rebalance.

Pure.  `TRANSITIONS` says which state may follow which.  `ClassicGroup` counts what the protocol
asks for, so that a decision costs the same whatever the size of the group.  `protocol` and
`rebalance` decide what happens to a group; its fields, and those of its members, are set here.

Invariants (`check`): the leader is a member; every instance id names a member; the number of
waiting joins is counted; a join waits only in PreparingRebalance (except that of a static member
whose new member id is being stored), a sync only in CompletingRebalance.

Source: KIP-62, KIP-345, KIP-394; Kafka's ClassicGroup and ClassicGroupMember.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from odradek.broker.group.classic.events import JoinedMember, Protocols, Ticket
from odradek.broker.group.limits import Now
from odradek.broker.group.member_memory import MemberMemory

NEVER: Final = 2**63 - 1
MEMBER_BYTES: Final = 1_000
"""Memory of a member without what its client has sent."""
PROTOCOL_BYTES: Final = 200
NEW_MEMBER_WAIT_MS: Final = 300_000
"""A new member cannot send heartbeats before its first generation; its first join waits no longer
than this."""
FIRST_JOIN_WAIT_MS: Final = 2
"""How long the first JoinGroup of an empty group waits where `group.initial.rebalance.delay.ms` is
0; on a wheel of whole milliseconds at least 1 ms.  Kafka ends a delay of 0 on another thread, 1 to
3 ms later, so members that start together share the first generation there."""


class GroupState(StrEnum):
    """The states, as DescribeGroups and ListGroups spell them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final = {
    GroupState.EMPTY: (GroupState.PREPARING, GroupState.DEAD),
    GroupState.PREPARING: (GroupState.COMPLETING, GroupState.EMPTY, GroupState.DEAD),
    GroupState.COMPLETING: (GroupState.STABLE, GroupState.PREPARING, GroupState.DEAD),
    GroupState.STABLE: (GroupState.PREPARING, GroupState.DEAD),
    GroupState.DEAD: (),
}
"""State -> the states that may follow it.  Dead: deleted, upgraded to a consumer group, or
coordinated by another broker."""


class ClassicMember:
    """One member; `deadline_ms` is None while a request of the member waits here."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "has_synced",
        "instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """It has not been in a generation yet."""
        self.has_synced = True
        """It has completed a join: False for a new member before its first SyncGroup."""
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None
        self.deadline_ms: int | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol, empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def size_bytes(self) -> int:
        """Estimated memory of what the client has sent.

        Without the assignment, which the size of the group's record bounds.
        """
        names = len(self.member_id) + len(self.client_id) + len(self.instance_id or "")
        return MEMBER_BYTES + names + protocols_bytes(self.protocols)


def protocols_bytes(protocols: Protocols) -> int:
    """Estimated memory of a member's protocols."""
    return sum(PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols)


class ClassicGroup:
    """A group whose members elect a leader."""

    __slots__ = (
        "awaiting_joins",
        "generation",
        "group_id",
        "initial_left_ms",
        "is_new_member_added",
        "leader",
        "member_bytes",
        "members",
        "memory",
        "pending",
        "pending_syncs",
        "protocol",
        "protocol_counts",
        "protocol_type",
        "rebalance_deadline_ms",
        "state",
        "state_changed_ms",
        "static_members",
        "sync_deadline_ms",
        "wake_ms",
    )

    def __init__(self, group_id: str, memory: MemberMemory | None = None) -> None:
        self.group_id = group_id
        self.memory = memory or MemberMemory()
        self.member_bytes = 0
        """Bytes of `memory` that the members of this group use."""
        self.state = GroupState.EMPTY
        self.generation = 0
        """Grows with each completed rebalance; the first members see 1."""
        self.protocol_type: str | None = None
        """None until the first member has joined."""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending: dict[str, int] = {}
        """Ids of pending members (KIP-394) -> deadline."""
        self.pending_syncs: dict[str, None] = {}
        """Members of this generation that have not sent a SyncGroup."""
        self.protocol_counts: dict[str, int] = {}
        """Protocol -> number of members that support it."""
        self.awaiting_joins = 0
        self.is_new_member_added = False
        """A new member has joined during the initial delay, which may be extended."""
        self.initial_left_ms: int | None = None
        """By how much the initial delay may still be extended; None outside of it."""
        self.rebalance_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self.state_changed_ms = -1
        """Wall time; -1 unknown."""
        self.wake_ms = NEVER
        """No deadline is before it."""

    @classmethod
    def restored(
        cls,
        group_id: str,
        memory: MemberMemory | None,
        members: Iterable[ClassicMember],
        *,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        leader: str | None,
        state_changed_ms: int,
    ) -> ClassicGroup:
        """A group as its record describes it: Stable with members, Empty without.

        leader  the first member leads if this is not the id of a member
        """
        group = cls(group_id, memory)
        group.generation = generation
        group.protocol_type = protocol_type
        group.protocol = protocol
        group.state_changed_ms = state_changed_ms
        for member in members:
            group.add(member)
        if leader in group.members:
            group.leader = leader
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        return group

    # Deadlines.

    def wake(self, deadline_ms: int) -> None:
        """Note a deadline."""
        if deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms

    def touch(self, member: ClassicMember, now: Now) -> None:
        """Start the member's session again."""
        member.deadline_ms = now.monotonic_ms + member.session_timeout_ms
        self.wake(member.deadline_ms)

    def update_wake(self) -> None:
        """Find the next deadline: those before it are over."""
        self.wake_ms = self.next_deadline_ms()

    def start_sessions(self, now: Now) -> None:
        """Start the sessions of all members: a coordinator has loaded or downgraded the group."""
        for member in self.members.values():
            self.touch(member, now)

    def next_deadline_ms(self) -> int:
        """The next deadline, or NEVER.

        cost  linear in the members
        """
        next_ms = NEVER
        for deadline_ms in (
            self.rebalance_deadline_ms,
            self.sync_deadline_ms,
            *self.pending.values(),
            *(member.deadline_ms for member in self.members.values()),
        ):
            if deadline_ms is not None and deadline_ms < next_ms:
                next_ms = deadline_ms
        return next_ms

    # State.

    def move_to(self, state: GroupState, now: Now) -> None:
        """Change the state."""
        assert state in TRANSITIONS[self.state], f"{state} does not follow {self.state}"
        self.state = state
        self.state_changed_ms = now.wall_ms
        if state is not GroupState.PREPARING:
            self.rebalance_deadline_ms = None
            self.initial_left_ms = None
            self.is_new_member_added = False

    def is_empty(self) -> bool:
        """Whether it has no members; pending members do not count."""
        return self.state is GroupState.EMPTY

    # Rebalance.

    def prepare_rebalance(self, now: Now) -> None:
        """Wait for the members of the next generation; an empty group begins its initial delay."""
        is_first = self.state is GroupState.EMPTY
        self.pending_syncs.clear()
        self.sync_deadline_ms = None
        self.move_to(GroupState.PREPARING, now)
        wait_ms = self.rebalance_timeout_ms()
        if is_first:
            delay_ms = self.memory.limits.initial_delay_ms
            self.initial_left_ms = max(wait_ms - delay_ms, 0) if delay_ms else 0
            wait_ms = max(delay_ms, FIRST_JOIN_WAIT_MS)
        self.wait_for_members(wait_ms, now)

    def wait_for_members(self, wait_ms: int, now: Now) -> None:
        """Set the end of the wait for members to join."""
        self.rebalance_deadline_ms = now.monotonic_ms + wait_ms
        self.wake(self.rebalance_deadline_ms)

    def end_wait_for_members(self, now: Now) -> bool:
        """Whether the wait for members is over; an initial delay is extended if it may be."""
        if self.rebalance_deadline_ms is None or self.rebalance_deadline_ms > now.monotonic_ms:
            return False
        return self.initial_left_ms is None or not self._extend_initial_delay(now)

    def _extend_initial_delay(self, now: Now) -> bool:
        """Extend the initial delay if new members have joined in it; False: it is over.

        All extensions together are at most the rebalance timeout.  A delay of 0 is never extended:
        `initial_left_ms` is 0 then.
        """
        left_ms = self.initial_left_ms
        assert left_ms is not None, "the initial delay has begun"
        if not (self.is_new_member_added and left_ms):
            return False
        self.is_new_member_added = False
        wait_ms = min(self.memory.limits.initial_delay_ms, left_ms)
        self.initial_left_ms = left_ms - wait_ms
        self.wait_for_members(wait_ms, now)
        return True

    def end_initial_delay(self) -> None:
        """The group no longer waits for more members than it has."""
        self.initial_left_ms = None

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else elect the first member that has; False: none."""
        assert self.leader is not None, "a group with members has a leader"
        if self.members[self.leader].join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader = member.member_id
                return True
        return False

    def begin_generation(self, now: Now) -> None:
        """Begin the next generation, which waits for SyncGroups unless it has no members."""
        self.generation += 1
        self.pending_syncs.clear()
        if not self.members:
            self.protocol = None
            self.move_to(GroupState.EMPTY, now)
            return
        self.set_protocol()
        self.move_to(GroupState.COMPLETING, now)
        for member in self.members.values():
            self.touch(member, now)
            member.is_new = False
            self.pending_syncs[member.member_id] = None
        self.sync_deadline_ms = now.monotonic_ms + self.rebalance_timeout_ms()
        self.wake(self.sync_deadline_ms)

    def take_overdue_syncs(self, now: Now) -> list[str]:
        """The members that have not sent a SyncGroup in time; they are returned once."""
        if self.sync_deadline_ms is None or self.sync_deadline_ms > now.monotonic_ms:
            return []
        self.sync_deadline_ms = None
        return list(self.pending_syncs)

    # Members.

    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits: the longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: ClassicMember, ticket: Ticket | None = None) -> None:
        """Add a member; the first one becomes the leader."""
        assert member.member_id not in self.members, "a member is added once"
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, "an instance id names one member"
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id
        self._count(member.protocols, 1)
        self._charge(member, member.size_bytes())
        self._discard_pending(member.member_id)
        self.wait_for_join(member, ticket)

    def add_new(self, member: ClassicMember, ticket: Ticket, protocol_type: str, now: Now) -> None:
        """Add a member that joins for the first time."""
        member.is_new = True
        member.has_synced = False
        if self.state is GroupState.PREPARING and self.generation == 0:
            self.is_new_member_added = True
        if not self.members:
            self.protocol_type = protocol_type
        self.add(member, ticket)
        member.deadline_ms = now.monotonic_ms + NEW_MEMBER_WAIT_MS
        self.wake(member.deadline_ms)

    def add_pending(self, member_id: str, deadline_ms: int) -> None:
        """Add a pending member, which must join before the deadline."""
        self.pending[member_id] = deadline_ms
        self.wake(deadline_ms)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending member; returns the member."""
        self._discard_pending(member_id)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.wait_for_join(member, None)
        self._count(member.protocols, -1)
        self._charge(member, -member.size_bytes())
        self.memory.note_joined(member)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Give a static member another member id; no request of it may wait here."""
        assert member.instance_id is not None, "only static members get another member id"
        assert member.join_ticket is None, "a waiting request has its response first"
        assert member.sync_ticket is None, "a waiting request has its response first"
        old = member.member_id
        self._charge(member, len(member_id) - len(old))
        del self.members[old]
        if self.pending_syncs.pop(old, 0) is None:
            self.pending_syncs[member_id] = None
        member.member_id = member_id
        self.members[member_id] = member
        self.static_members[member.instance_id] = member_id
        if self.leader == old:
            self.leader = member_id

    def update(
        self,
        member: ClassicMember,
        *,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take over what a member that joins again has sent."""
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        self._charge(member, protocols_bytes(protocols) - protocols_bytes(member.protocols))
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def note_synced(self, member: ClassicMember) -> None:
        """Note a member's SyncGroup, which completes its join."""
        if not member.has_synced:
            member.has_synced = True
            self.memory.note_joined(member)
        self.pending_syncs.pop(member.member_id, None)

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Set every member's assignment, by member id; members without one get no bytes."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")

    def _discard_pending(self, member_id: str) -> None:
        if self.pending.pop(member_id, None) is not None:
            self.memory.pending.discard(member_id)

    def _charge(self, member: ClassicMember, more_bytes: int) -> None:
        self.member_bytes += more_bytes
        self.memory.charge(member.client_host, more_bytes)

    def share(self, memory: MemberMemory) -> None:
        """Charge the members to another memory from now on."""
        if self.memory is not memory:
            for member in self.members.values():
                memory.charge(member.client_host, member.size_bytes())
            self.memory = memory

    def release(self) -> None:
        """Release the memory of the members and pending members: the group is no longer used."""
        for member in self.members.values():
            self._charge(member, -member.size_bytes())
            self.memory.note_joined(member)
        self.discard_pending_members()

    def discard_pending_members(self) -> None:
        """Remove all pending members."""
        for member_id in self.pending:
            self.memory.pending.discard(member_id)
        self.pending.clear()

    def wait_for_join(self, member: ClassicMember, ticket: Ticket | None) -> None:
        """Set the JoinGroup of a member that waits; None: no longer.

        A new member keeps its deadline, another one has none while it waits.
        """
        self.awaiting_joins += (ticket is not None) - (member.join_ticket is not None)
        member.join_ticket = ticket
        if ticket is not None and not member.is_new:
            member.deadline_ms = None

    def wait_for_sync(self, member: ClassicMember, ticket: Ticket | None) -> None:
        """Set the SyncGroup of a member that waits and has no deadline then; None: no longer."""
        member.sync_ticket = ticket
        if ticket is not None:
            member.deadline_ms = None

    def have_all_joined(self) -> bool:
        """Whether the rebalance has nothing more to wait for."""
        return len(self.members) == self.awaiting_joins and not self.pending

    # Protocols.

    def _count(self, protocols: Protocols, step: int) -> None:
        counts = self.protocol_counts
        for name in dict(protocols):
            left = counts.get(name, 0) + step
            if left:
                counts[name] = left
            else:
                del counts[name]

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join: all members support one of them."""
        if self.state is GroupState.EMPTY:
            return protocol_type != "" and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def choose_protocol(self) -> str:
        """The protocol with most votes among those that all members support.

        A member votes for the first of its protocols that is a candidate.
        """
        size = len(self.members)
        votes = {name: 0 for name, count in self.protocol_counts.items() if count == size}
        assert votes, "a member joins only with a protocol that all support"
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in votes)] += 1
        return max(votes, key=lambda name: votes[name])

    def set_protocol(self) -> str:
        """Choose the group's protocol."""
        self.protocol = self.choose_protocol()
        return self.protocol

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The members as the leader gets them."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    def check(self) -> None:
        """Assert the invariants."""
        assert (self.leader is None) == (not self.members), "a group with members has a leader"
        assert self.leader is None or self.leader in self.members, "the leader is a member"
        for instance_id, member_id in self.static_members.items():
            assert self.members[member_id].instance_id == instance_id, "instance ids name members"
        waiting = [member for member in self.members.values() if member.join_ticket is not None]
        assert len(waiting) == self.awaiting_joins, "waiting joins are counted"
        if self.state is not GroupState.PREPARING:
            # A static member with a new id waits until the group's record is replicated.
            assert all(member.instance_id for member in waiting), "joins wait for a rebalance"
        syncing = [member for member in self.members.values() if member.sync_ticket is not None]
        assert not syncing or self.state is GroupState.COMPLETING, "syncs wait for the leader"
        assert self.next_deadline_ms() >= self.wake_ms, "no deadline is before wake_ms"
        assert not any(name in self.members for name in self.pending), (
            "a pending member is not a member"
        )
        if self.state is GroupState.STABLE or self.state is GroupState.COMPLETING:
            assert self.members, f"{self.state} has members"
        if self.state is GroupState.EMPTY:
            assert not self.members, "an empty group has none"
        counts: dict[str, int] = {}
        for classic_member in self.members.values():
            for name in dict(classic_member.protocols):
                counts[name] = counts.get(name, 0) + 1
        assert counts == self.protocol_counts, "protocols are counted"
        sizes = sum(member.size_bytes() for member in self.members.values())
        assert sizes == self.member_bytes, "the members' memory is charged"
