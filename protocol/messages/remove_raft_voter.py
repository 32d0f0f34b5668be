"""RemoveRaftVoter (key 81): removes a voter from the KRaft quorum.

Introduced by KIP-853.

Source: kafka.apache.org/protocol, RemoveRaftVoter.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import INT16, INT32, STRING, UUID, field, message


@message(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: str | None = field(STRING, "0+", nullable="0+")
    voter_id: int = field(INT32, "0+")
    voter_directory_id: Uuid = field(UUID, "0+")


@message(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
