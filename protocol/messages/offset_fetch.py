"""OffsetFetch (key 9): returns the committed offsets of groups.

    0   read from ZooKeeper
    2   null topics ask for all; an error for the group
    3   throttle time
    5   leader epoch of the offset (KIP-320)
    6   flexible encoding (KIP-482)
    7   unstable offsets of open transactions may be refused (KIP-447)
    8   several groups at once (KIP-709)
    9   member id and epoch of the new groups (KIP-848)
    10  topic ids in place of names (KIP-516)

Topics of versions with one group have the structure of those with several, which Kafka declares
twice.
Source: kafka.apache.org/protocol, OffsetFetch.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class OffsetFetchRequestTopic:
    name: str = field("string", "0-9", default="")
    topic_id: Uuid = field("uuid", "10+", default=ZERO_UUID)
    partition_indexes: list[int] = field(["int32"], "0+")


@nested
class OffsetFetchRequestGroup:
    group_id: str = field("string", "0+")
    member_id: str | None = field("string", "9+", nullable="9+", default=None)
    member_epoch: int = field("int32", "9+", default=-1)
    topics: list[OffsetFetchRequestTopic] | None = field(
        [OffsetFetchRequestTopic], "0+", nullable="0+"
    )
    """None asks for all."""


@message(api_key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest:
    group_id: str = field("string", "0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field(
        [OffsetFetchRequestTopic], "0-7", nullable="2-7", default=[]
    )
    """None asks for all."""
    groups: list[OffsetFetchRequestGroup] = field([OffsetFetchRequestGroup], "8+", default=[])
    require_stable: bool = field("bool", "7+", default=False)
    """UNSTABLE_OFFSET_COMMIT is returned while a transaction is open."""


@nested
class OffsetFetchResponsePartition:
    partition_index: int = field("int32", "0+")
    committed_offset: int = field("int64", "0+")
    """-1 if there is none."""
    committed_leader_epoch: int = field("int32", "5+", default=-1)
    """Leader epoch of the last consumed record, -1 if unknown."""
    metadata: str | None = field("string", "0+", nullable="0+")
    error_code: int = field("int16", "0+")


@nested
class OffsetFetchResponseTopic:
    name: str = field("string", "0-9", default="")
    topic_id: Uuid = field("uuid", "10+", default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartition] = field([OffsetFetchResponsePartition], "0+")


@nested
class OffsetFetchResponseGroup:
    group_id: str = field("string", "0+")
    topics: list[OffsetFetchResponseTopic] = field([OffsetFetchResponseTopic], "0+")
    error_code: int = field("int16", "0+", default=0)


@message(api_key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: int = field("int32", "3+", default=0)
    topics: list[OffsetFetchResponseTopic] = field([OffsetFetchResponseTopic], "0-7", default=[])
    error_code: int = field("int16", "2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field([OffsetFetchResponseGroup], "8+", default=[])
