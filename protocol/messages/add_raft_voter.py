"""AddRaftVoter (key 80): adds a voter to the KRaft quorum.

    1   may answer before the change is committed (KIP-1186)

Introduced by KIP-853.

Source: kafka.apache.org/protocol, AddRaftVoter.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UINT16,
    UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class Listener:
    name: str = field(STRING, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@message(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    cluster_id: str | None = field(STRING, "0+", nullable="0+")
    timeout_ms: int = field(INT32, "0+")
    voter_id: int = field(INT32, "0+")
    voter_directory_id: Uuid = field(UUID, "0+")
    listeners: list[Listener] = field(ArrayOf(Listener), "0+")
    ack_when_committed: bool = field(BOOL, "1+", default=True)


@message(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
