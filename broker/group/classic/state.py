"""A classic group in memory: its members, the state it is in, and the offsets it has committed.

Pure.  `TRANSITIONS` says which state may follow which; `Group` keeps the counts that make every
question about it cheap whatever its size.

Invariants (`check`): a leader is a member; every instance id names a member; as many members wait
for a join as are counted; nobody waits for a join outside PreparingRebalance (but for a static
member whose return is being stored), nor for a sync outside CompletingRebalance.

Source: KIP-62, KIP-345, KIP-394; Kafka's GroupMetadata and MemberMetadata.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.broker.group.classic.events import JoinedMember, Protocols, Ticket
from odradek.broker.group.limits import Memory, Now

if TYPE_CHECKING:
    from odradek.broker.group.consumer.state import ConsumerGroup

NEVER: Final = 2**63 - 1
MEMBER_BYTES: Final = 1_000
"""A member without what its client sent."""
PROTOCOL_BYTES: Final = 200


class GroupState(StrEnum):
    """As DescribeGroups and ListGroups spell them."""

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
"""State -> what may follow it.  Dead: deleted, or coordinated elsewhere."""


class Event(StrEnum):
    """What can happen to a group."""

    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"
    TIME = "a deadline"
    STORED = "a record is stored"
    COMMIT = "commit"
    CLOSE = "close"


_E, _P, _C, _S, _D = GroupState
_SAME: Final = {state: (state,) for state in GroupState}

NEXT_STATES: Final = {
    Event.JOIN: {_E: (_E, _P), _P: (_P, _C), _C: (_C, _P), _S: (_S, _P, _C), _D: (_D,)},
    Event.SYNC: _SAME,
    Event.HEARTBEAT: _SAME,
    Event.LEAVE: {_E: (_E,), _P: (_P, _C, _E), _C: (_C, _P, _E), _S: (_S, _P, _C, _E), _D: (_D,)},
    Event.TIME: {_E: (_E,), _P: (_P, _C, _E), _C: (_C, _P, _E), _S: (_S, _P, _C, _E), _D: (_D,)},
    Event.STORED: {_E: (_E,), _P: (_P,), _C: (_C, _P, _S), _S: (_S,), _D: (_D,)},
    Event.COMMIT: _SAME,
    Event.CLOSE: dict.fromkeys(GroupState, (_D,)),
}
"""Event -> state before it -> states that may be found after it.  One event can take several steps:
a JoinGroup of the only member of a stable group ends in CompletingRebalance."""


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int
    """Of the last consumed record, -1 unknown."""
    metadata: str
    commit_ms: int
    """Wall time."""
    expire_ms: int = -1
    """When the client itself let it expire (OffsetCommit before version 5), else -1."""
    log_offset: int = -1
    """Where its record lies; the later record counts."""


TopicPartition = tuple[str, int]


class Member:
    """One member; `deadline_ms` is None while its own request waits here, which proves it lives."""

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
        """It has completed a join; a new member has not before its first SyncGroup."""
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None
        self.deadline_ms: int | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """What it says for a protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def size_bytes(self) -> int:
        """About what it keeps in memory of what its client sent; assignments are bounded by the
        record that they are stored in."""
        names = len(self.member_id) + len(self.client_id) + len(self.instance_id or "")
        return MEMBER_BYTES + names + protocols_bytes(self.protocols)


def protocols_bytes(protocols: Protocols) -> int:
    """What they take in memory, about."""
    return sum(PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols)


class Group:
    """One group; only `classic`, `offsets` and `apply` change it."""

    __slots__ = (
        "awaiting_joins",
        "consumer",
        "generation",
        "group_id",
        "initial_left_ms",
        "is_new_member_added",
        "leader",
        "member_bytes",
        "members",
        "memory",
        "offsets",
        "open_offsets",
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
        "writes",
    )

    def __init__(self, group_id: str, memory: Memory | None = None) -> None:
        self.group_id = group_id
        self.memory = memory or Memory()
        self.member_bytes = 0
        """Its own part of `memory`."""
        self.consumer: ConsumerGroup | None = None
        """The group of the new protocol that it is; the classic half is blank then."""
        self.state = GroupState.EMPTY
        self.generation = 0
        """Grows with each completed rebalance; the first members see 1."""
        self.protocol_type: str | None = None
        """None for a group that only keeps offsets."""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending: dict[str, int] = {}
        """Ids that were given out and not used yet -> deadline."""
        self.pending_syncs: dict[str, None] = {}
        """Members of this generation that have not asked for their assignment."""
        self.protocol_counts: dict[str, int] = {}
        """Protocol -> how many members know it."""
        self.awaiting_joins = 0
        self.is_new_member_added = False
        """Somebody new came during the initial delay, which may be prolonged."""
        self.initial_left_ms: int | None = None
        """How far the initial delay can still be prolonged; None outside of it."""
        self.rebalance_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self.state_changed_ms = -1
        """Wall time; -1 unknown."""
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.open_offsets: dict[int, dict[TopicPartition, CommittedOffset]] = {}
        """Producer id -> offsets of its transaction, which may still be aborted."""
        self.writes = 0
        """Commits that are appended and not replicated yet: they keep the group alive."""
        self.wake_ms = NEVER
        """No deadline lies before it."""

    # Deadlines.

    def wake(self, deadline_ms: int) -> None:
        """Something is due then."""
        if deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms

    def touch(self, member: Member, now: Now) -> None:
        """The member has shown that it lives."""
        member.deadline_ms = now.monotonic_ms + member.session_timeout_ms
        self.wake(member.deadline_ms)

    def next_deadline_ms(self) -> int:
        """The least deadline, or NEVER; looks at every member."""
        least = NEVER
        for deadline_ms in (
            self.rebalance_deadline_ms,
            self.sync_deadline_ms,
            *self.pending.values(),
            *(member.deadline_ms for member in self.members.values()),
        ):
            if deadline_ms is not None and deadline_ms < least:
                least = deadline_ms
        return least

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
        """Whether it has no members, of either protocol."""
        if self.consumer is not None:
            return not self.consumer.members
        return self.state is GroupState.EMPTY

    def is_idle(self) -> bool:
        """Whether nothing would be lost without it."""
        return (
            self.is_empty()
            and not self.pending
            and not self.offsets
            and not self.open_offsets
            and not self.writes
        )

    # Members.

    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits: as long as its most patient member."""
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    def add(self, member: Member, ticket: Ticket | None = None) -> None:
        """Take a member in; the first one leads."""
        assert member.member_id not in self.members, "a member enters once"
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, "an instance id is one member's"
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id
        self._count(member.protocols, 1)
        self._weigh(member, member.size_bytes())
        self._drop_pending(member.member_id)
        self.wait_for_join(member, ticket)

    def remove(self, member_id: str) -> Member | None:
        """Take a member, or an id that was given out, from the group."""
        self._drop_pending(member_id)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.wait_for_join(member, None)
        self._count(member.protocols, -1)
        self._weigh(member, -member.size_bytes())
        self.memory.joined(member)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """A static member has come back and gets another id; nothing of it may wait here."""
        assert member.instance_id is not None, "only static members come back under another id"
        assert member.join_ticket is None, "what waits is answered before"
        assert member.sync_ticket is None, "what waits is answered before"
        old = member.member_id
        self._weigh(member, len(member_id) - len(old))
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
        member: Member,
        *,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """A member has entered again."""
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        self._weigh(member, protocols_bytes(protocols) - protocols_bytes(member.protocols))
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def _drop_pending(self, member_id: str) -> None:
        if self.pending.pop(member_id, None) is not None:
            self.memory.pending_ids.discard(member_id)

    def _weigh(self, member: Member, more_bytes: int) -> None:
        self.member_bytes += more_bytes
        self.memory.charge(member.client_host, more_bytes)

    def forget(self) -> None:
        """The group is dropped with its members: their memory is free."""
        for member in self.members.values():
            self._weigh(member, -member.size_bytes())
            self.memory.joined(member)
        for member_id in self.pending:
            self.memory.pending_ids.discard(member_id)
        if self.consumer is not None:
            self.consumer.forget()

    def wait_for_join(self, member: Member, ticket: Ticket | None) -> None:
        """A member's JoinGroup waits, or no longer."""
        self.awaiting_joins += (ticket is not None) - (member.join_ticket is not None)
        member.join_ticket = ticket

    def has_everybody_joined(self) -> bool:
        """Whether the rebalance need not wait any more."""
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
        """Whether somebody with these protocols may enter."""
        if self.state is GroupState.EMPTY:
            return protocol_type != "" and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def choose_protocol(self) -> str:
        """The one most members like best among those that all know."""
        size = len(self.members)
        votes = {name: 0 for name, count in self.protocol_counts.items() if count == size}
        assert votes, "a member enters only with a protocol that all know"
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in votes)] += 1
        return max(votes, key=lambda name: votes[name])

    def roll(self) -> tuple[JoinedMember, ...]:
        """The members as their leader is told of them."""
        return tuple(
            JoinedMember(one.member_id, one.instance_id, one.metadata(self.protocol))
            for one in self.members.values()
        )

    def check(self) -> None:
        """Assert the invariants; for tests and the simulator."""
        assert (self.leader is None) == (not self.members), "a group with members has a leader"
        assert self.leader is None or self.leader in self.members, "a leader is a member"
        for instance_id, member_id in self.static_members.items():
            assert self.members[member_id].instance_id == instance_id, "instance ids name members"
        waiting = [one for one in self.members.values() if one.join_ticket is not None]
        assert len(waiting) == self.awaiting_joins, "waiting joins are counted"
        if self.state is not GroupState.PREPARING:
            # A static member that returned waits until the group's record is replicated.
            assert all(one.instance_id for one in waiting), "joins wait for a rebalance"
        syncing = [one for one in self.members.values() if one.sync_ticket is not None]
        assert not syncing or self.state is GroupState.COMPLETING, "syncs wait for the leader"
        assert self.next_deadline_ms() >= self.wake_ms, "every deadline has its wake-up"
        assert not any(name in self.members for name in self.pending), "pending ids are unused"
        if self.state is GroupState.STABLE or self.state is GroupState.COMPLETING:
            assert self.members, f"{self.state} has members"
        if self.state is GroupState.EMPTY:
            assert not self.members, "an empty group has none"
        counts: dict[str, int] = {}
        for one in self.members.values():
            for name in dict(one.protocols):
                counts[name] = counts.get(name, 0) + 1
        assert counts == self.protocol_counts, "protocols are counted"
        sizes = sum(one.size_bytes() for one in self.members.values())
        assert sizes == self.member_bytes, "members are weighed"
