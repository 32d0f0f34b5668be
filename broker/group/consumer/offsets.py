"""Who may commit and fetch offsets of a consumer group.

Pure.  Source: KIP-848, KIP-1251; Kafka 4.3's ConsumerGroup.validateOffsetCommit,
validateOffsetFetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek.broker.group.consumer.model import ConsumerMember
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition

EPOCH_FROM: Final = 9
"""The version of OffsetCommit that knows epochs of members."""


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    version: int,
    partitions: Iterable[TopicPartition],
    topics: TopicDirectory,
) -> ErrorCode:
    """Whether an OffsetCommit may be stored.

    epoch    of the member, or its generation
    version  of the request
    """
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and version < EPOCH_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    if epoch < member.member_epoch and _has_owned_since(member, epoch, partitions, topics):
        # It has not received its later epoch yet.
        return ErrorCode.NONE
    return _stale(member)


def _has_owned_since(
    member: ConsumerMember, epoch: int, partitions: Iterable[TopicPartition], topics: TopicDirectory
) -> bool:
    """Whether a member has owned partitions without interruption since an earlier epoch."""
    for name, partition in partitions:
        facts = topics.by_name(name)
        if facts is None:
            return False
        since = None
        for owned in (member.assigned_partitions, member.partitions_pending_revocation):
            since = owned.get(facts.topic_id, {}).get(partition, since)
        if since is None or epoch < since:
            return False
    return True


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether a member may fetch offsets; requests without a member always may."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.member_epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    if member.classic is None:
        return ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.ILLEGAL_GENERATION
