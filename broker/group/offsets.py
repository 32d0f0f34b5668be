"""Committed offsets: who may commit, what is fetched, what expires.

Pure.  Source: KIP-211, KIP-447, KIP-496; Kafka's GroupCoordinator.validateOffsetCommit and
GroupMetadata.removeExpiredOffsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from odradek.broker.group.classic.protocol import check_member
from odradek.broker.group.classic.state import (
    CommittedOffset,
    Group,
    GroupState,
    Member,
    TopicPartition,
)
from odradek.broker.group.limits import Now
from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolSubscription

CONSUMER: Final = "consumer"
"""The protocol type of groups whose subscriptions a broker can read."""
SUBSCRIPTION_NEWEST: Final = 3
_VERSION: Final = Struct(">h")
Since = Callable[[CommittedOffset], int]

COMMIT_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""What a client is told when its commit could not be written."""


def check_commit(
    group: Group, *, member_id: str, instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    """Whether an OffsetCommit may be stored; one of a member shows that it lives."""
    state = group.state
    if state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not member_id and instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_member(group, member_id, instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if state is GroupState.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    member = group.members[member_id]
    if member.deadline_ms is not None and not member.is_new:
        group.touch(member, now)
    return ErrorCode.NONE


def store(group: Group, place: TopicPartition, committed: CommittedOffset) -> None:
    """A commit is replicated; of two the one that lies later in the log counts."""
    known = group.offsets.get(place)
    if known is None or known.log_offset <= committed.log_offset:
        group.offsets[place] = committed


class Fetched(NamedTuple):
    """What is told of one partition; `committed` None: nothing."""

    place: TopicPartition
    committed: CommittedOffset | None
    error: ErrorCode


def fetch(
    group: Group | None, wanted: Iterable[TopicPartition] | None, *, require_stable: bool
) -> Iterator[Fetched]:
    """Committed offsets of a group; None wants all of them.

    require_stable  UNSTABLE_OFFSET_COMMIT where a transaction may still change the offset
    """
    if group is None or group.state is GroupState.DEAD:
        for place in wanted or ():
            yield Fetched(place, None, ErrorCode.NONE)
        return
    unstable: dict[TopicPartition, None] = {}
    if require_stable:
        for opened in group.open_offsets.values():
            unstable.update(dict.fromkeys(opened))
    if wanted is None:
        wanted = list(dict.fromkeys((*group.offsets, *unstable)))
    for place in wanted:
        if place in unstable:
            yield Fetched(place, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        else:
            yield Fetched(place, group.offsets.get(place), ErrorCode.NONE)


def expired(group: Group, *, wall_ms: int, retention_ms: int) -> list[TopicPartition]:
    """The offsets that nobody will ask for any more.

    A group with members of a protocol that is not the consumers', or in a rebalance, keeps all.
    """
    if group.consumer is not None:
        subscribed = group.consumer.topics
        old = _older(group, wall_ms, lambda one: one.commit_ms, retention_ms)
        return [place for place in old if place[0] not in subscribed]
    if group.protocol_type is not None and group.state is GroupState.EMPTY:
        since_ms = group.state_changed_ms
        return _older(
            group, wall_ms, lambda one: since_ms if since_ms >= 0 else one.commit_ms, retention_ms
        )
    if group.protocol_type is None:
        return _older(group, wall_ms, lambda one: one.commit_ms, retention_ms)
    if group.protocol_type == CONSUMER and group.state is GroupState.STABLE:
        topics = subscribed_topics(group)
        if topics is not None:
            old = _older(group, wall_ms, lambda one: one.commit_ms, retention_ms)
            return [place for place in old if place[0] not in topics]
    return []


def _older(
    group: Group,
    wall_ms: int,
    since: Since,
    retention_ms: int,
) -> list[TopicPartition]:
    opened: dict[TopicPartition, None] = {}
    for offsets in group.open_offsets.values():
        opened.update(dict.fromkeys(offsets))
    return [
        place
        for place, one in group.offsets.items()
        if place not in opened
        and (
            wall_ms >= one.expire_ms if one.expire_ms >= 0 else wall_ms - since(one) >= retention_ms
        )
    ]


def deletable(group: Group, topic: str) -> ErrorCode:
    """Whether an administrator may delete the group's offsets of a topic (KIP-496)."""
    if group.is_empty():
        return ErrorCode.NONE
    if group.consumer is None:
        topics = subscribed_topics(group)
    else:
        topics = dict.fromkeys(group.consumer.topics)
    # A consumer group whose subscriptions cannot be read may be consuming anything.
    if topics is None or topic in topics:
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return ErrorCode.NONE


def subscribed_topics(group: Group) -> dict[str, None] | None:
    """The topics that a group of consumers reads; None when they cannot be told."""
    topics: dict[str, None] = {}
    if group.protocol_type != CONSUMER or (group.members and group.protocol is None):
        return None
    for member in group.members.values():
        try:
            topics.update(dict.fromkeys(_subscription(member, group.protocol)))
        except DecodeError:
            return None
    return topics


def _subscription(member: Member, protocol: str | None) -> list[str]:
    data = member.metadata(protocol)
    if len(data) < _VERSION.size:
        raise DecodeError("a subscription without a version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"a subscription of version {version}")
    decode = decoder(ConsumerProtocolSubscription, min(version, SUBSCRIPTION_NEWEST))
    subscription, _ = decode(memoryview(data), _VERSION.size)
    return subscription.topics
