"""ShareGroupDescribe (key 77): shows members and assignments of share groups.

    0   early access in 3.9 and 4.0, incompatible by agreement
    1   stable (KIP-932)

Source: kafka.apache.org/protocol, ShareGroupDescribe.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@message(api_key=77, versions="0-1", flexible="0+")
class ShareGroupDescribeRequest:
    group_ids: list[str] = field(["string"], "0+")
    include_authorized_operations: bool = field("bool", "0+")


@nested
class TopicPartitions:
    topic_id: Uuid = field("uuid", "0+")
    topic_name: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@nested
class Assignment:
    topic_partitions: list[TopicPartitions] = field([TopicPartitions], "0+")


@nested
class Member:
    member_id: str = field("string", "0+")
    rack_id: str | None = field("string", "0+", nullable="0+", default=None)
    member_epoch: int = field("int32", "0+")
    client_id: str = field("string", "0+")
    client_host: str = field("string", "0+")
    subscribed_topic_names: list[str] = field(["string"], "0+")
    assignment: Assignment = field(Assignment, "0+")


@nested
class DescribedGroup:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    group_id: str = field("string", "0+")
    group_state: str = field("string", "0+")
    group_epoch: int = field("int32", "0+")
    assignment_epoch: int = field("int32", "0+")
    assignor_name: str = field("string", "0+")
    members: list[Member] = field([Member], "0+")
    authorized_operations: int = field("int32", "0+", default=-2147483648)
    """Bit set of 1 << AclOperation; -2147483648 when it was not asked for."""


@message(api_key=77, versions="0-1", flexible="0+")
class ShareGroupDescribeResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    groups: list[DescribedGroup] = field([DescribedGroup], "0+")
