"""Committed offsets: stored, fetched, expired; who may delete them."""

from __future__ import annotations

import pytest

from odradek.broker.group.classic.consumer_protocol import subscribed_topics
from odradek.broker.group.group import Group
from odradek.broker.group.offsets import GroupOffsets, OffsetAndMetadata
from odradek.protocol.compiler import encoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.topic_partition import TopicPartition
from tests.broker.group.classic.conversation import WALL_MS, Conversation

RETENTION_MS = 1_000
OLD_MS = WALL_MS - RETENTION_MS
T_0, T_1, U_0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def committed(
    offset: int = 5, *, commit_ms: int = WALL_MS, log_offset: int = 0
) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, -1, "", commit_ms, log_offset=log_offset)


def subscription(*topics: str, version: int = 1) -> bytes:
    message = ConsumerProtocolSubscription(topics=list(topics))
    return version.to_bytes(2, "big") + encoder(ConsumerProtocolSubscription, min(version, 3))(
        message
    )


def consumers(*topics: str) -> Conversation:
    talk = Conversation()
    talk.stable(2, protocols=(("range", subscription(*topics)),))
    return talk


def group_of(talk: Conversation | None, commits: dict[TopicPartition, int]) -> Group:
    """A group with the members of a conversation.

    commits  time of the commit by partition
    """
    group = Group("g", None if talk is None else talk.group)
    for partition, commit_ms in commits.items():
        group.offsets.store(partition, committed(commit_ms=commit_ms))
    return group


def expired(group: Group, wall_ms: int = WALL_MS) -> list[TopicPartition]:
    return group.expired_offsets(wall_ms=wall_ms, retention_ms=RETENTION_MS)


def test_store_of_an_earlier_record_keeps_the_later_commit() -> None:
    offsets = GroupOffsets()
    offsets.store(T_0, committed(7, log_offset=3))
    offsets.store(T_0, committed(5, log_offset=2))
    assert offsets.committed[T_0].offset == 7


def test_fetch_without_a_commit_returns_nothing_and_no_error() -> None:
    offsets = GroupOffsets()
    (result,) = offsets.fetch([T_0], require_stable=True)
    assert (result.committed, result.error) == (None, ErrorCode.NONE)
    assert not list(offsets.fetch(None, require_stable=False))


def test_fetch_without_partitions_returns_all_offsets() -> None:
    offsets = GroupOffsets()
    offsets.store(T_1, committed())
    offsets.store(U_0, committed())
    results = list(offsets.fetch(None, require_stable=False))
    assert [result.partition for result in results] == [T_1, U_0]


def test_fetch_during_a_transaction_is_unstable_if_the_request_requires_stable() -> None:
    offsets = GroupOffsets()
    offsets.store(T_0, committed(5))
    offsets.store_transactional(9, T_0, committed(6))
    (stable,) = offsets.fetch([T_0], require_stable=True)
    assert stable.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    (result,) = offsets.fetch([T_0], require_stable=False)
    assert result.committed == committed(5)


@pytest.mark.parametrize("talk", [None, Conversation()])
def test_offsets_of_a_group_that_never_had_members_expire_one_by_one(
    talk: Conversation | None,
) -> None:
    group = group_of(talk, {T_0: OLD_MS, T_1: OLD_MS + 1})
    assert expired(group) == [T_0]


def test_offsets_of_an_emptied_group_expire_together_since_it_became_empty() -> None:
    talk = consumers("t")
    group = group_of(talk, {T_0: 0, T_1: WALL_MS})
    talk.wait(100_000)
    since_ms = talk.group.state_changed_ms
    assert since_ms > WALL_MS
    assert not expired(group, since_ms + RETENTION_MS - 1)
    assert len(expired(group, since_ms + RETENTION_MS)) == 2


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    group = group_of(consumers("t"), {T_0: OLD_MS, U_0: OLD_MS})
    assert expired(group) == [U_0]


def test_no_offset_expires_during_a_rebalance_or_with_members_that_are_not_consumers() -> None:
    talk = consumers("t")
    talk.join()
    assert not expired(group_of(talk, {U_0: OLD_MS}))
    other = Conversation()
    other.stable(1, protocol_type="connect")
    assert not expired(group_of(other, {U_0: OLD_MS}))


def test_expiry_time_in_the_record_overrides_the_retention_time() -> None:
    group = Group("g")
    group.offsets.store(T_0, committed(commit_ms=OLD_MS)._replace(expire_ms=WALL_MS + 1))
    assert not expired(group)
    assert expired(group, WALL_MS + 1) == [T_0]


def test_offset_in_an_open_transaction_does_not_expire() -> None:
    group = group_of(None, {T_0: OLD_MS})
    group.offsets.store_transactional(9, T_0, committed())
    assert not expired(group)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 100])
def test_subscription_of_any_version_protects_its_topics_from_deletion(version: int) -> None:
    talk = Conversation()
    talk.stable(1, protocols=(("range", subscription("t", "u", version=version)),))
    group = group_of(talk, {})
    assert list(subscribed_topics(talk.group) or ()) == ["t", "u"]
    assert group.check_offset_deletion("t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert group.check_offset_deletion("v") is ErrorCode.NONE


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01\x00\x00", b"\xff\xff\x00\x00\x00\x00"])
def test_malformed_subscription_protects_all_topics_from_deletion(data: bytes) -> None:
    talk = Conversation()
    talk.stable(1, protocols=(("range", data),))
    assert subscribed_topics(talk.group) is None
    group = group_of(talk, {})
    assert group.check_offset_deletion("t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
