"""Groups that change their protocol while in use, and members of both protocols in one group."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.group.classic.events import JoinResult
from odradek.broker.group.classic.state import GroupState
from odradek.broker.group.consumer.state import ConsumerGroup, ConsumerState
from odradek.broker.settings.groups import MigrationPolicy
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from tests.broker.group.consumer.talk import Talk, assignment, subscription
from tests.broker.group.host import classic_body, finish

NONE = ErrorCode.NONE
A_0 = TopicPartition("a", 0)
AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def talk() -> Any:
    """Checked at the end: memory is what the log says."""
    talk = Talk()
    yield talk
    talk.check()


def joined(response: JoinResult | None) -> JoinResult:
    assert response is not None, "joins of a consumer group do not wait"
    return response


def test_upgrade_keeps_the_assignments_of_a_classic_group(talk: Talk) -> None:
    old = talk.settle_classic()
    assert talk.commit_as(old, 1, version=8) is NONE
    result = talk.heartbeat("m", 0)
    assert (result.epoch, talk.names(result)) == (2, {})
    group = talk.group()
    assert group.members[old].classic is not None
    assert group.members[old].member_epoch == 1
    assert isinstance(talk.shard.groups["g"].body, ConsumerGroup)
    assert talk.offsets()[A_0].offset == 7
    assert talk.classic_heartbeat(old, 1) is AGAIN


def test_classic_member_revokes_and_gets_partitions_by_joining_again(talk: Talk) -> None:
    old = talk.settle_classic()
    talk.heartbeat("m", 0)
    assert talk.classic_heartbeat(old, 1) is AGAIN
    first = joined(talk.classic_join(old, owned={"a": (0, 1, 2)}))
    assert (first.error, first.generation, first.protocol, first.leader) == (NONE, 1, "range", "")
    synced = talk.classic_sync(old, 1)
    assert synced is not None
    assert synced.assignment == assignment({"a": (0, 1)})
    assert talk.names(talk.heartbeat("m", 2)) is None, "it may still be working on it"
    assert talk.classic_heartbeat(old, 1) is AGAIN, "it should tell that it has given it up"
    second = joined(talk.classic_join(old, owned={"a": (0, 1)}))
    assert second.generation == 2
    assert talk.classic_heartbeat(old, 2) is NONE
    assert talk.names(talk.heartbeat("m", 2)) == {"a": (2,)}
    assert talk.group().state is ConsumerState.STABLE


def test_group_is_downgraded_when_only_classic_members_are_left(talk: Talk) -> None:
    old = talk.settle_classic()
    talk.heartbeat("m", 0)
    talk.classic_join(old)
    talk.heartbeat("m", 2)
    assert talk.commit_as("m", 2) is NONE
    talk.heartbeat("m", -1)
    group = talk.classic()
    assert group.state is GroupState.PREPARING
    assert sorted(group.members) == [old]
    assert talk.offsets()[A_0].offset == 7
    assert classic_body(talk.replayed()["g"]).state is GroupState.STABLE
    assert classic_body(talk.replayed()["g"]).generation == group.generation == 2
    assert talk.classic_heartbeat(old, 2) is AGAIN
    again = joined(talk.classic_join(old))
    assert (again.generation, again.leader) == (3, old)


def test_join_right_after_a_downgrade_gets_no_partition_that_others_still_own(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    first = joined(talk.classic_join("")).member_id
    talk.heartbeat("m", 2)
    talk.heartbeat("m", 2, reported={"a": (0, 1)})
    assert joined(talk.classic_join(first)).generation == 3
    second = joined(talk.classic_join("")).member_id
    talk.heartbeat("m", 3)
    talk.heartbeat("m", 3, reported={"a": (0,)})
    group = talk.group()
    assert joined(talk.classic_join(second)).generation == group.epoch
    had = {
        member_id: dict(group.members[member_id].assigned_partitions)
        for member_id in (first, second)
    }
    talk.make_topic("a", 6)
    talk.heartbeat("m", group.epoch)
    talk.heartbeat("m", -1)
    assert talk.classic().state is GroupState.PREPARING
    talk.heartbeat("n", 0)
    for member_id in (first, second):
        taken = talk.group().members[member_id].assigned_partitions
        assert {topic: list(parts) for topic, parts in taken.items()} == {
            topic: list(parts) for topic, parts in had[member_id].items()
        }


def test_group_is_downgraded_when_the_last_consumer_member_expires(talk: Talk) -> None:
    old = talk.settle_classic()
    talk.heartbeat("m", 0)
    generation = joined(talk.classic_join(old)).generation
    talk.classic_sync(old, generation)
    for _ in range(46):
        talk.wait(1_000)
        talk.classic_heartbeat(old, generation)
    assert sorted(talk.classic().members) == [old]


def test_group_is_downgraded_when_the_last_consumer_member_restarts_as_a_classic_one(
    talk: Talk,
) -> None:
    old = talk.settle_classic()
    talk.heartbeat("m", 0, instance_id="i")
    talk.classic_join(old)
    talk.heartbeat("m", 2)
    talk.heartbeat("m", -2, instance_id="i")
    back = joined(talk.classic_join("", instance_id="i"))
    assert (back.error, back.generation) == (NONE, 2)
    group = talk.classic()
    assert sorted(group.members) == sorted([old, back.member_id])
    assert group.static_members == {"i": back.member_id}
    assert group.state is GroupState.STABLE, "no member has to join again"
    assert talk.classic_heartbeat(back.member_id, 2) is NONE
    synced = talk.classic_sync(back.member_id, 2)
    assert synced is not None
    assert synced.assignment == assignment({"a": (2,)})


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED])
def test_classic_group_is_not_upgraded_where_upgrades_are_disabled(policy: MigrationPolicy) -> None:
    talk = Talk(migration=policy)
    talk.settle_classic()
    refused = talk.refusal("m", 0)
    assert refused.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.message == (
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    )
    assert talk.refusal("m", 2).message == "Group g is not a consumer group."


def test_group_is_not_downgraded_where_downgrades_are_disabled() -> None:
    talk = Talk(migration=MigrationPolicy.UPGRADE)
    old = talk.settle_classic()
    talk.heartbeat("m", 0)
    talk.heartbeat("m", -1)
    assert sorted(talk.group().members) == [old]
    assert talk.classic_heartbeat(old, 1) is AGAIN
    talk.classic_leave(old)
    assert talk.group().state is ConsumerState.EMPTY
    talk.check()


def test_upgrade_of_a_group_that_cannot_be_upgraded_is_refused_with_the_reason() -> None:
    talk = Talk(members_max=0)
    talk.settle_classic()
    assert "group size exceeds" in str(talk.refusal("m", 0))
    talk = Talk()
    talk.classic_join("", protocol_type="connect", protocols=(("range", b"x"),))
    assert "does not use the consumer embedded protocol" in str(talk.refusal("m", 0))
    talk = Talk()
    response = joined(talk.classic_join("", protocols=(("range", b"\0"),)))
    talk.classic_sync(response.member_id, 1, {response.member_id: b""})
    assert "is malformed" in str(talk.refusal("m", 0))
    talk = Talk()
    member = talk.settle_classic()
    talk.classic_join(member)
    talk.classic_sync(member, 2, {member: assignment({"a": (0,)}, b"mine")})
    assert "unsupported custom assignor" in str(talk.refusal("m", 0))


def test_upgrade_sends_rebalance_in_progress_to_waiting_members(talk: Talk) -> None:
    first = joined(talk.classic_join("")).member_id
    waiting = talk.join(protocols=(("range", subscription("a")),))
    assert not waiting.is_done, "it waits for the first one"
    talk.heartbeat("m", 0)
    assert waiting.result().error is AGAIN
    assert talk.shard.waiting_count() == 0
    assert first in talk.group().members


def test_empty_group_may_be_joined_by_either_protocol(talk: Talk) -> None:
    old = talk.settle_classic()
    talk.commit_as(old, 1, version=8)
    talk.classic_leave(old)
    talk.wait(1)
    assert talk.heartbeat("m", 0).epoch == 2, "epochs do not go on from generations"
    talk.heartbeat("m", -1)
    assert joined(talk.classic_join("")).generation == 1
    assert talk.classic().generation == 1
    assert talk.offsets()[A_0].offset == 7
    assert talk.replayed()["g"].body is None


def test_classic_requests_of_a_consumer_group_get_the_errors_of_a_classic_group(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    assert talk.classic_heartbeat("m", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.classic_heartbeat("unknown", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    required = joined(talk.classic_join("", is_member_id_required=True))
    assert required.error is ErrorCode.MEMBER_ID_REQUIRED
    assert required.member_id
    entered = joined(talk.classic_join(required.member_id, is_member_id_required=True))
    assert (entered.error, entered.generation) == (NONE, 3)
    for changes in ({"protocol_type": "connect"}, {"protocols": ()}):
        refused = joined(talk.classic_join("", **changes))
        assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = (("roundrobin", subscription("a")),)
    refused = joined(talk.classic_join("", protocols=other))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    old = entered.member_id
    for response, error in (
        (talk.classic_sync(old, 9), ErrorCode.ILLEGAL_GENERATION),
        (talk.classic_sync(old, 3, protocol="x"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (talk.classic_sync(old, 3, protocol_type="x"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (talk.classic_sync("unknown", 3), ErrorCode.UNKNOWN_MEMBER_ID),
        (talk.classic_sync(old, 3), NONE),
    ):
        assert response is not None
        assert response.error is error
    assert talk.classic_leave("unknown", old) == [ErrorCode.UNKNOWN_MEMBER_ID, NONE]


def test_classic_member_that_does_not_join_or_sync_in_time_is_fenced(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    old = joined(talk.classic_join("")).member_id
    for _ in range(3):
        talk.wait(4_000)
        talk.classic_heartbeat(old, 3)
    assert old not in talk.group().members, "it has not synced"
    old = joined(talk.classic_join("")).member_id
    epoch = talk.group().members[old].member_epoch
    talk.classic_sync(old, epoch)
    talk.heartbeat("n", 0)
    for _ in range(4):
        talk.heartbeat("m", talk.group().members["m"].member_epoch)
        assert talk.classic_heartbeat(old, epoch) in (AGAIN, ErrorCode.UNKNOWN_MEMBER_ID)
        talk.wait(3_000)
    assert old not in talk.group().members, "it has not joined again"


# Offsets.


def test_offsets_are_committed_in_the_members_epoch(talk: Talk) -> None:
    assert talk.commit_as("m", 1) is ErrorCode.ILLEGAL_GENERATION
    assert talk.commit_as("m", 1, version=8) is ErrorCode.ILLEGAL_GENERATION
    talk.heartbeat("m", 0)
    talk.heartbeat("n", 0)
    talk.heartbeat("m", 2)
    talk.heartbeat("m", 2, reported={"a": (0, 1)})
    talk.heartbeat("n", 3)
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert talk.commit_as("m", 3) is NONE
    assert talk.commit_as("m", 2, 0, 1) is NONE, "it had them in that epoch already"
    assert talk.commit_as("m", 2, 0, 2) is stale
    assert talk.commit_as("n", 2, 2) is stale
    assert talk.commit_as("m", 2, topic="gone") is stale
    assert talk.commit_as("m", 4) is stale
    assert talk.commit_as("m", 3, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert talk.commit_as("o", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.commit_as("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    talk.heartbeat("m", -1)
    talk.heartbeat("n", -1)
    assert talk.commit_as("", -1) is NONE
    assert talk.commit_as("m", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_transaction_commits_offsets_of_a_group_with_members_without_naming_one(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    assert talk.commit_in_transaction("", -1) is NONE
    assert talk.commit_in_transaction("", -1, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.commit_in_transaction("o", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.commit_in_transaction("m", 9) is ErrorCode.ILLEGAL_GENERATION


def test_classic_members_commit_in_their_generation(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    old = joined(talk.classic_join("")).member_id
    assert talk.commit_as(old, 3, version=8) is NONE
    assert talk.commit_as(old, 4, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert talk.commit_as(old, 2, version=8) is ErrorCode.ILLEGAL_GENERATION


def test_offsets_of_topics_without_subscribers_expire(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    talk.commit_as("m", 2)
    talk.commit_as("m", 2, topic="b")
    talk.wait(20)
    finish(talk.shard.expire_offsets(10_000))
    assert len(talk.offsets()) == 2
    finish(talk.shard.expire_offsets(10))
    assert list(talk.offsets()) == [("a", 0)]
    talk.heartbeat("m", -1)
    finish(talk.shard.expire_offsets(10))
    assert "g" not in talk.shard.groups
    assert talk.replayed() == {}
