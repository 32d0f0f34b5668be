"""UpdateRaftVoter (key 82): changes endpoints and versions of a voter of the KRaft quorum.

Introduced by KIP-853.

Source: kafka.apache.org/protocol, UpdateRaftVoter.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
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


@nested
class KRaftVersionFeature:
    min_supported_version: int = field(INT16, "0+")
    max_supported_version: int = field(INT16, "0+")


@message(api_key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest:
    cluster_id: str | None = field(STRING, "0+", nullable="0+")
    current_leader_epoch: int = field(INT32, "0+")
    """The epoch that the asker knows, or -1 to skip the comparison (KIP-320)."""
    voter_id: int = field(INT32, "0+")
    voter_directory_id: Uuid = field(UUID, "0+")
    listeners: list[Listener] = field(ArrayOf(Listener), "0+")
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature, "0+")


@nested
class CurrentLeader:
    leader_id: int = field(INT32, "0+", default=-1)
    leader_epoch: int = field(INT32, "0+", default=-1)
    host: str = field(STRING, "0+", default="")
    port: int = field(INT32, "0+", default=0)


@message(api_key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    current_leader: CurrentLeader | None = field(CurrentLeader, "0+", tag=0, default=None)
