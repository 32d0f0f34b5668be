"""Committed offsets: fetched, expired, deleted."""

from __future__ import annotations

import pytest

from odradek.broker.group.classic.state import CommittedOffset
from odradek.broker.group.offsets import deletable, expired, fetch, store, subscribed_topics
from odradek.protocol.compiler import encoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolSubscription
from tests.broker.group.classic.conversation import WALL_MS, Conversation

RETENTION_MS = 1_000
OLD_MS = WALL_MS - RETENTION_MS


def committed(offset: int = 5, *, commit_ms: int = WALL_MS, log_offset: int = 0) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", commit_ms, log_offset=log_offset)


def subscription(*topics: str, version: int = 1) -> bytes:
    wanted = ConsumerProtocolSubscription(topics=list(topics))
    return version.to_bytes(2, "big") + encoder(ConsumerProtocolSubscription, min(version, 3))(
        wanted
    )


def consumers(*topics: str) -> Conversation:
    talk = Conversation()
    talk.stable(2, protocols=(("range", subscription(*topics)),))
    return talk


def test_of_two_commits_the_later_record_counts() -> None:
    talk = Conversation()
    store(talk.group, ("t", 0), committed(7, log_offset=3))
    store(talk.group, ("t", 0), committed(5, log_offset=2))
    assert talk.group.offsets["t", 0].offset == 7


def test_nothing_committed_is_no_error() -> None:
    talk = Conversation()
    for group in (None, talk.group):
        (found,) = fetch(group, [("t", 0)], require_stable=True)
        assert (found.committed, found.error) == (None, ErrorCode.NONE)
        assert not list(fetch(group, None, require_stable=False))


def test_all_offsets_are_told_when_none_are_named() -> None:
    talk = Conversation()
    store(talk.group, ("t", 1), committed())
    store(talk.group, ("u", 0), committed())
    found = list(fetch(talk.group, None, require_stable=False))
    assert [one.place for one in found] == [("t", 1), ("u", 0)]


def test_an_open_transaction_makes_an_offset_unstable_for_those_who_care() -> None:
    talk = Conversation()
    store(talk.group, ("t", 0), committed(5))
    talk.group.open_offsets[9] = {("t", 0): committed(6)}
    (stable,) = fetch(talk.group, [("t", 0)], require_stable=True)
    assert stable.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    (known,) = fetch(talk.group, [("t", 0)], require_stable=False)
    assert known.committed == committed(5)


def old_places(talk: Conversation, *, wall_ms: int = WALL_MS) -> list[tuple[str, int]]:
    return expired(talk.group, wall_ms=wall_ms, retention_ms=RETENTION_MS)


def test_offsets_of_a_group_without_members_ever_expire_one_by_one() -> None:
    talk = Conversation()
    store(talk.group, ("t", 0), committed(commit_ms=OLD_MS))
    store(talk.group, ("t", 1), committed(commit_ms=OLD_MS + 1))
    assert old_places(talk) == [("t", 0)]


def test_offsets_of_an_emptied_group_expire_together_after_it_was_emptied() -> None:
    talk = consumers("t")
    store(talk.group, ("t", 0), committed(commit_ms=0))
    store(talk.group, ("t", 1), committed(commit_ms=WALL_MS))
    talk.wait(100_000)
    since_ms = talk.group.state_changed_ms
    assert since_ms > WALL_MS
    assert not old_places(talk, wall_ms=since_ms + RETENTION_MS - 1)
    assert len(old_places(talk, wall_ms=since_ms + RETENTION_MS)) == 2


def test_consumers_keep_the_offsets_of_their_topics_however_old() -> None:
    talk = consumers("t")
    store(talk.group, ("t", 0), committed(commit_ms=OLD_MS))
    store(talk.group, ("u", 0), committed(commit_ms=OLD_MS))
    assert old_places(talk) == [("u", 0)]


def test_nothing_expires_during_a_rebalance_or_for_members_of_another_kind() -> None:
    talk = consumers("t")
    store(talk.group, ("u", 0), committed(commit_ms=OLD_MS))
    talk.join()
    assert not old_places(talk)
    other = Conversation()
    other.stable(1, protocol_type="connect")
    store(other.group, ("u", 0), committed(commit_ms=OLD_MS))
    assert not old_places(other)


def test_a_time_of_expiry_in_the_record_goes_before_the_settings() -> None:
    talk = Conversation()
    store(talk.group, ("t", 0), committed(commit_ms=OLD_MS)._replace(expire_ms=WALL_MS + 1))
    assert not old_places(talk)
    assert old_places(talk, wall_ms=WALL_MS + 1) == [("t", 0)]


def test_an_open_transaction_keeps_an_offset() -> None:
    talk = Conversation()
    store(talk.group, ("t", 0), committed(commit_ms=OLD_MS))
    talk.group.open_offsets[9] = {("t", 0): committed()}
    assert not old_places(talk)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 100])
def test_subscriptions_of_every_version_are_read(version: int) -> None:
    talk = Conversation()
    talk.stable(1, protocols=(("range", subscription("t", "u", version=version)),))
    assert list(subscribed_topics(talk.group) or ()) == ["t", "u"]
    assert deletable(talk.group, "t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert deletable(talk.group, "v") is ErrorCode.NONE


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01\x00\x00", b"\xff\xff\x00\x00\x00\x00"])
def test_who_cannot_be_read_may_consume_anything(data: bytes) -> None:
    talk = Conversation()
    talk.stable(1, protocols=(("range", data),))
    assert subscribed_topics(talk.group) is None
    assert deletable(talk.group, "t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
