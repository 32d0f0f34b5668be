"""Events of classic groups, their results, and the effects that the service performs.

All of them are frozen, comparable and printable.  Times and generated ids are part of the events;
a group reads no clock and no random source.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from odradek.protocol.errors import ErrorCode
from odradek.protocol.stored.group_metadata import GroupMetadataValue

Ticket = int
"""Names a request that waits for its response."""
Protocols = tuple[tuple[str, bytes], ...]
"""Name and metadata of protocols, in the order of the member's preference."""


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request.

    member_id             empty for a new member
    new_member_id         the id to assign if the member needs one
    is_member_id_required a new dynamic member gets its id first, and joins with it (KIP-394)
    may_skip_assignment   the client knows `skip_assignment` (KIP-814)
    """

    ticket: Ticket
    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    is_member_id_required: bool = True
    may_skip_assignment: bool = True


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The generation that a member has joined, or the error; only the leader gets `members`."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Sync:
    """A SyncGroup request; the leader's has the assignments of all members.

    protocol_type, protocol  None where the version of the request has none
    """

    ticket: Ticket
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    """A member's assignment, or the error."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member of a LeaveGroup request, named by its id or, by an administrator, by its instance id
    alone."""

    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class RespondToJoin:
    """Send the response of a JoinGroup; no record needs to be replicated first."""

    ticket: Ticket
    result: JoinResult


@dataclass(frozen=True, slots=True)
class RespondToSync:
    """Send the response of a SyncGroup; the assignment in it is replicated."""

    ticket: Ticket
    result: SyncResult


class StoreReason(StrEnum):
    """Why a group's record is written."""

    ASSIGNED = "the leader has assigned"
    EMPTIED = "the last member was removed"
    REPLACED = "a static member has a new member id"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member with its new member id, and its former values in case the record fails."""

    ticket: Ticket
    old_member_id: str
    new_member_id: str
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader: str
    may_skip_assignment: bool


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Append the group's record, and call `stored` when it is replicated or has failed."""

    reason: StoreReason
    generation: int
    value: GroupMetadataValue
    replacement: Replacement | None = None


Effect = RespondToJoin | RespondToSync | StoreGroup
