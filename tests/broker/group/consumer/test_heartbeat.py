"""A group of the new protocol, event by event; each state is also read back from the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from odradek.broker.group.consumer.state import ConsumerGroup, ConsumerState
from odradek.protocol.errors import ErrorCode
from tests.broker.group.consumer.talk import Talk


@pytest.fixture
def talk() -> Any:
    """Checked at the end: memory is what the log says."""
    talk = Talk()
    yield talk
    talk.check()


def test_first_member_gets_all_partitions_in_one_response(talk: Talk) -> None:
    joined = talk.heartbeat("m", 0)
    assert (joined.member_id, joined.epoch, joined.heartbeat_interval_ms) == ("m", 2, 5_000)
    assert talk.names(joined) == {"a": (0, 1, 2)}
    assert talk.names(talk.heartbeat("m", 2)) is None
    full = talk.heartbeat(
        "m", 2, topic_names=("a",), rebalance_timeout_ms=30_000, reported={"a": (0, 1, 2)}
    )
    assert talk.names(full) == {"a": (0, 1, 2)}
    assert talk.group().state is ConsumerState.STABLE


def test_second_member_waits_until_the_first_has_revoked_its_partitions(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    joined = talk.heartbeat("n", 0)
    assert (joined.epoch, talk.names(joined)) == (3, {})
    assert talk.group().state is ConsumerState.RECONCILING
    result = talk.heartbeat("m", 2)
    assert (result.epoch, talk.names(result)) == (2, {"a": (0, 1)})
    assert talk.names(talk.heartbeat("n", 3)) is None
    assert talk.names(talk.heartbeat("m", 2, reported={"a": (0, 1, 2)})) is None
    assert talk.heartbeat("m", 2, reported={"a": (0, 1)}).epoch == 3
    assert talk.names(talk.heartbeat("n", 3)) == {"a": (2,)}
    assert talk.group().state is ConsumerState.STABLE


def test_heartbeat_repeated_after_a_lost_response_succeeds_only_with_owned_partitions(
    talk: Talk,
) -> None:
    talk.heartbeat("m", 0)
    talk.heartbeat("n", 0)
    talk.heartbeat("m", 2)
    talk.heartbeat("m", 2, reported={"a": (0, 1)})
    again = talk.heartbeat("m", 2, reported={"a": (0, 1)})
    assert again.epoch == 3
    assert talk.refusal("m", 2, reported={"a": (0, 1, 2)}).code is ErrorCode.FENCED_MEMBER_EPOCH
    assert talk.refusal("m", 2).code is ErrorCode.FENCED_MEMBER_EPOCH


def test_unknown_member_or_epoch_is_refused(talk: Talk) -> None:
    unknown = talk.refusal("m", 1)
    assert unknown.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert unknown.message == "Consumer group g not found."
    assert talk.refusal("m", -1).message == "Group g not found."
    talk.heartbeat("m", 0)
    assert talk.refusal("n", 1).message == "Member n is not a member of group g."
    assert talk.refusal("n", -1).code is ErrorCode.UNKNOWN_MEMBER_ID
    greater = talk.refusal("m", 9)
    assert greater.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert greater.message == (
        "The consumer group member has a greater member epoch (9) than the one known by the group "
        "coordinator (2). The member must abandon all its partitions and rejoin."
    )
    assert "smaller member epoch (1)" in str(talk.refusal("m", 1))


def test_partitions_of_a_leaving_member_are_free_at_once(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    talk.heartbeat("n", 0)
    left = talk.heartbeat("m", -1)
    assert (left.member_id, left.epoch, left.assigned) == ("m", -1, None)
    assert talk.group().state is ConsumerState.ASSIGNING
    assert talk.names(talk.heartbeat("n", 3)) == {"a": (0, 1, 2)}
    talk.heartbeat("n", -1)
    assert talk.group().state is ConsumerState.EMPTY
    assert talk.names(talk.heartbeat("o", 0)) == {"a": (0, 1, 2)}


def test_silent_member_is_fenced_when_its_session_ends(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    talk.heartbeat("n", 0)
    talk.wait(44_000)
    talk.heartbeat("n", 3)
    talk.wait(1_100)
    assert sorted(talk.group().members) == ["n"]
    assert talk.names(talk.heartbeat("n", 3)) == {"a": (0, 1, 2)}
    assert talk.refusal("m", 2).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_silent_members_beyond_one_batch_of_records_are_all_fenced(talk: Talk) -> None:
    long_name = "g" * 30_000
    members = [f"m{number}" for number in range(20)]
    for member in members:
        talk.heartbeat(member, 0, long_name)
    talk.reload()
    talk.wait(45_100)
    assert talk.group(long_name).state is ConsumerState.EMPTY
    talk.reload()
    assert talk.group(long_name).state is ConsumerState.EMPTY


def test_member_that_does_not_revoke_within_the_rebalance_timeout_is_fenced(talk: Talk) -> None:
    talk.heartbeat("m", 0, rebalance_timeout_ms=5_000)
    talk.heartbeat("n", 0)
    talk.heartbeat("m", 2)
    talk.wait(5_100)
    assert sorted(talk.group().members) == ["n"]
    talk.heartbeat("o", 0, rebalance_timeout_ms=5_000)
    talk.heartbeat("n", 3)
    talk.wait(5_100)
    assert sorted(talk.group().members) == ["n", "o"], "n has given it up within its own time"


def test_sessions_start_again_after_a_load(talk: Talk) -> None:
    talk.heartbeat("m", 0, rebalance_timeout_ms=20_000)
    talk.heartbeat("n", 0)
    talk.heartbeat("m", 2)
    talk.wait(15_000)
    talk.reload()
    talk.check()
    talk.wait(15_000)
    assert sorted(talk.group().members) == ["m", "n"]
    talk.wait(6_000)
    assert sorted(talk.group().members) == ["n"]
    talk.wait(30_000)
    assert talk.group().state is ConsumerState.EMPTY


def test_target_is_computed_at_most_once_in_each_assignment_interval() -> None:
    talk = Talk(assignment_interval_ms=1_000)
    talk.wait(1)
    talk.heartbeat("m", 0)
    joined = talk.heartbeat("n", 0)
    assert (joined.epoch, talk.group().epoch, talk.group().target_epoch) == (2, 3, 2)
    assert talk.group().state is ConsumerState.ASSIGNING
    talk.wait(1_000)
    assert talk.names(talk.heartbeat("m", 2)) == {"a": (0, 1)}
    talk.check()


def test_target_is_computed_again_after_the_clock_was_set_back() -> None:
    talk = Talk(assignment_interval_ms=1_000)
    talk.wait(1)
    talk.heartbeat("m", 0)
    talk.group().target_timestamp_ms += 300_000
    assert talk.heartbeat("n", 0).epoch == 3
    assert talk.group().target_epoch == talk.group().epoch
    talk.check()


# Static members.


def test_returning_static_member_gets_its_partitions(talk: Talk) -> None:
    talk.heartbeat("m", 0, instance_id="i")
    talk.heartbeat("n", 0, instance_id="j")
    assert talk.names(talk.heartbeat("m", 2, reported={"a": (0, 1)})) == {"a": (0, 1)}
    epoch = talk.group().epoch
    away = talk.heartbeat("m", -2, instance_id="i")
    assert (away.member_id, away.epoch) == ("m", -2)
    assert talk.group().members["m"].member_epoch == -2
    assert talk.names(talk.heartbeat("n", 3)) == {"a": (2,)}, (
        "what is away for a while is not given"
    )
    back = talk.heartbeat("o", 0, instance_id="i")
    assert (back.epoch, talk.names(back)) == (3, {"a": (0, 1)})
    assert talk.group().epoch == epoch, "no other member is affected"
    assert talk.group().static_members == {"i": "o", "j": "n"}


def test_static_member_that_stays_away_is_fenced(talk: Talk) -> None:
    talk.heartbeat("m", 0, instance_id="i")
    talk.heartbeat("m", -2, instance_id="i")
    talk.wait(46_000)
    assert talk.group().state is ConsumerState.EMPTY


def test_instance_id_belongs_to_one_member(talk: Talk) -> None:
    talk.heartbeat("m", 0, instance_id="i")
    taken = talk.refusal("n", 0, instance_id="i")
    assert taken.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert taken.message == (
        "Static member n with instance id i cannot join the group because the instance id is owned "
        "by m member."
    )
    fenced = talk.refusal("n", 2, instance_id="i")
    assert fenced.code is ErrorCode.FENCED_INSTANCE_ID
    assert fenced.message == "Static member n with instance id i was fenced by member m."
    assert talk.refusal("n", -2, instance_id="i").code is ErrorCode.FENCED_INSTANCE_ID
    unknown = talk.refusal("m", 2, instance_id="k")
    assert unknown.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.message == "Instance id k is unknown."
    talk.heartbeat("m", -1, instance_id="i")
    assert talk.heartbeat("n", 0, instance_id="i").epoch == 4


# Topics.


def test_change_of_a_subscribed_topic_raises_the_group_epoch(talk: Talk) -> None:
    talk.heartbeat("m", 0, topic_names=("a", "c"))
    assert talk.heartbeat("m", 2).epoch == 2
    talk.make_topic("other", 5)
    assert talk.heartbeat("m", 2).epoch == 2, "no member subscribes to it"
    talk.make_topic("c", 1)
    assert talk.names(talk.heartbeat("m", 2)) == {"a": (0, 1, 2), "c": (0,)}
    talk.make_topic("a", 4)
    assert talk.names(talk.heartbeat("m", 3)) == {"a": (0, 1, 2, 3), "c": (0,)}
    talk.delete_topic("a")
    result = talk.heartbeat("m", 4)
    assert (result.epoch, talk.names(result)) == (4, {"c": (0,)})
    assert talk.heartbeat("m", 4, reported={"c": (0,)}).epoch == 5


def test_changed_subscription_revokes_and_assigns(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    result = talk.heartbeat("m", 2, topic_names=("b",), reported={"a": (0, 1, 2)})
    assert (result.epoch, talk.names(result)) == (2, {})
    result = talk.heartbeat("m", 2, reported={})
    assert (result.epoch, talk.names(result)) == (3, {"b": (0, 1)})
    assert sorted(talk.group().topics) == ["b"]


def test_topics_that_an_earlier_release_has_stored_are_deleted(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    talk.group().has_topics_record = True
    talk.make_topic("a", 4)
    talk.heartbeat("m", 2)
    assert talk.group().has_topics_record is False


# Expressions.


def test_expression_is_matched_after_the_heartbeat(talk: Talk) -> None:
    joined = talk.heartbeat("m", 0, topic_names=None, topic_regex="a|b")
    assert (joined.epoch, talk.names(joined)) == (1, {})
    talk.wait(1)
    assert talk.group().state is ConsumerState.ASSIGNING
    result = talk.heartbeat("m", 1)
    assert (result.epoch, talk.names(result)) == (2, {"a": (0, 1, 2), "b": (0, 1)})
    second = talk.heartbeat("n", 0, topic_names=None, topic_regex="a|b")
    assert second.epoch == 3, "its topics are known"
    talk.heartbeat("m", -1)
    talk.heartbeat("n", -1)
    assert not talk.group().resolved_regexes


def test_expression_is_matched_again_when_topics_were_created(talk: Talk) -> None:
    talk.heartbeat("m", 0, topic_names=None, topic_regex="a.*")
    talk.wait(1)
    talk.heartbeat("m", 1)
    talk.make_topic("aa", 1)
    talk.heartbeat("m", 2)
    talk.wait(1)
    assert talk.heartbeat("m", 2).epoch == 2, "not so soon"
    talk.wait(11_000)
    talk.heartbeat("m", 2)
    talk.wait(1)
    assert talk.names(talk.heartbeat("m", 2)) == {"a": (0, 1, 2), "aa": (0,)}


def test_expression_whose_matches_cannot_be_stored_is_not_resolved_at_each_heartbeat(
    talk: Talk,
) -> None:
    for number in range(60):
        talk.make_topic(f"{number:03}{'x' * 240}", 1)
    log = talk.partition.log
    log.config = replace(log.config, max_message_bytes=8_000)
    talk.heartbeat("m", 0, topic_names=None, topic_regex=".*")
    talk.wait(1)
    assert not talk.group().resolved_regexes
    talk.heartbeat("m", 1)
    assert not talk.group().is_resolving
    talk.wait(10_001)
    log.config = replace(log.config, max_message_bytes=1_000_000)
    talk.heartbeat("m", 1)
    talk.wait(1)
    assert len(talk.group().resolved_regexes[".*"].topics) == 62


def test_topic_names_replace_the_expression_of_a_member(talk: Talk) -> None:
    talk.heartbeat("m", 0, topic_names=None, topic_regex="a")
    talk.wait(1)
    talk.heartbeat("m", 1)
    result = talk.heartbeat("m", 2, topic_names=("b",), topic_regex="")
    assert (result.epoch, talk.names(result)) == (2, {})
    assert talk.names(talk.heartbeat("m", 2, reported={})) == {"b": (0, 1)}
    assert not talk.group().regex_subscribers


def test_expression_that_cannot_be_read_is_refused(talk: Talk) -> None:
    refused = talk.refusal("m", 0, topic_names=None, topic_regex="(")
    assert refused.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.message == (
        "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    )


# Bounds.


def test_join_of_a_full_group_returns_group_max_size_reached() -> None:
    talk = Talk(members_max=1)
    talk.heartbeat("m", 0)
    refused = talk.refusal("n", 0)
    assert refused.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.message == "The consumer group has reached its maximum capacity of 1 members."
    assert talk.heartbeat("m", 2).epoch == 2


def test_members_take_memory_that_is_bounded_over_all_groups() -> None:
    talk = Talk(members_bytes_max=9_000)
    talk.heartbeat("m", 0)
    used_bytes = talk.context.memory.used_bytes
    assert used_bytes == talk.group().member_bytes > 1_000
    many = tuple(f"{number:04}" for number in range(100))
    assert talk.refusal("n", 0, topic_names=many).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert talk.refusal("m", 2, topic_names=many).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    talk.heartbeat("n", 0, group_id="h")
    assert talk.context.memory.used_bytes == 2 * used_bytes
    talk.reload()
    assert talk.context.memory.used_bytes == 2 * used_bytes
    talk.heartbeat("m", -1)
    talk.heartbeat("n", -1, group_id="h")
    assert talk.context.memory.used_bytes == 0


def test_assignor_of_most_members_is_used(talk: Talk) -> None:
    talk.make_topic("b", 3)
    talk.heartbeat("m", 0, topic_names=("a", "b"), assignor="range")
    talk.heartbeat("n", 0, topic_names=("a", "b"), assignor="range")
    talk.heartbeat("o", 0, topic_names=("a", "b"), assignor="uniform")
    assert talk.group().preferred_assignor("uniform") == "range"
    talk.heartbeat("m", -1)
    talk.heartbeat("n", -1)
    assert talk.group().preferred_assignor("range") == "uniform"


# Durability.


def test_response_waits_until_its_records_are_replicated() -> None:
    talk = Talk(in_sync=(1, 2))
    with pytest.raises(AssertionError, match="before it is there"):
        talk.heartbeat("m", 0)
    assert talk.group().members["m"].member_epoch == 2, "memory is what the log says"
    with pytest.raises(AssertionError, match="before it is there"):
        talk.heartbeat("m", 2)
    talk.check()


def test_change_whose_records_cannot_be_appended_is_not_applied() -> None:
    talk = Talk()
    talk.heartbeat("m", 0)
    leader = talk.partition.leader
    talk.partition.leader = None
    refused = talk.refusal("n", 0)
    assert refused.code is ErrorCode.NOT_COORDINATOR
    assert sorted(talk.group().members) == ["m"]
    talk.wait(46_000)
    assert sorted(talk.group().members) == ["m"], "its fencing could not be written either"
    talk.partition.leader = leader
    talk.wait(600)
    assert talk.group().state is ConsumerState.EMPTY
    talk.check()


def test_compacted_records_replay_to_the_same_group() -> None:
    talk = Talk()
    talk.heartbeat("m", 0)
    talk.heartbeat("n", 0, instance_id="i")
    talk.heartbeat("m", -1)
    talk.heartbeat("n", 3)
    talk.check_compacted()
    assert isinstance(talk.read(talk.stored())["g"].body, ConsumerGroup)


def test_empty_group_is_deleted_with_all_that_it_has_committed(talk: Talk) -> None:
    talk.heartbeat("m", 0)
    assert talk.commit_as("m", 2) is ErrorCode.NONE
    talk.heartbeat("m", -1)
    group = talk.shard.groups["g"]
    assert group.is_empty()
    assert talk.shard.delete_group(group).result() is ErrorCode.NONE
    assert "g" not in talk.shard.groups
    assert talk.replayed() == {}
    assert group.body is None
