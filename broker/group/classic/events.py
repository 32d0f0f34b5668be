"""What enters a group and what leaves it: requests, answers, and effects that the edge performs.

All of them are frozen, comparable and printable.  Times and ids arrive with the events; nothing in
a group looks at a clock or draws a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from odradek.protocol.errors import ErrorCode
from odradek.protocol.stored.group_metadata import GroupMetadataValue

Ticket = int
"""Names a request that waits for its answer."""
Protocols = tuple[tuple[str, bytes], ...]
"""Name and metadata, in the order in which the member likes them."""


@dataclass(frozen=True, slots=True)
class Join:
    """A member enters, or enters again.

    new_member_id     drawn for the case that it has none
    is_id_required    a new dynamic member is told its id before it may enter (KIP-394)
    may_skip          it understands `skip_assignment` (KIP-814)
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
    is_id_required: bool = True
    may_skip: bool = True


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """What the leader is told of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The generation, or why the member is not in it."""

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
    """A member asks for its assignment; the leader brings everybody's.

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
class SyncAnswer:
    """A member's assignment, or why it has none."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A member that goes, by its id or (an administrator's word) by its instance id alone."""

    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class Joined:
    """Answer a waiting JoinGroup; nothing need be durable before it."""

    ticket: Ticket
    answer: JoinAnswer


@dataclass(frozen=True, slots=True)
class Synced:
    """Answer a waiting SyncGroup; what it tells is stored already."""

    ticket: Ticket
    answer: SyncAnswer


class StoreReason(StrEnum):
    """Why a group's record is written."""

    ASSIGNED = "the leader has assigned"
    EMPTIED = "the last member has gone"
    REPLACED = "a static member has returned"


@dataclass(frozen=True, slots=True)
class Replaced:
    """A static member under its new id, and what it was before."""

    ticket: Ticket
    instance_id: str
    old_member_id: str
    new_member_id: str
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader: str
    may_skip: bool


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Append the group's record, and tell the group of the outcome when it is replicated."""

    reason: StoreReason
    generation: int
    value: GroupMetadataValue
    replaced: Replaced | None = None


Effect = Joined | Synced | StoreGroup
