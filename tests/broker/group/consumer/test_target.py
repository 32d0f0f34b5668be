"""A group's next target: from subscriptions to what must be stored."""

from __future__ import annotations

import random
from uuid import UUID as Uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.group.consumer.assignors import ASSIGNORS, UNIFORM
from odradek.broker.group.consumer.model import (
    Assignment,
    ConsumerMember,
    SubscriptionType,
    TopicFacts,
    topic_order,
)
from odradek.broker.group.consumer.target import (
    Subscriptions,
    Target,
    plan_target,
    subscription_type,
)
from tests.broker.group.consumer.cases import target_case

T, U, GONE = Uuid(int=1), Uuid(int=2), Uuid(int=3)
TOPICS = {"t": TopicFacts(T, "t", 4), "u": TopicFacts(U, "u", 2)}


def member(member_id: str, *names: str, regex: str | None = None) -> ConsumerMember:
    return ConsumerMember(
        member_id=member_id, subscribed_topic_names=names, subscribed_topic_regex=regex
    )


def plan(
    members: list[ConsumerMember],
    present: dict[str, Assignment],
    inherits: dict[str, str] | None = None,
) -> Target:
    return plan_target(
        {member.member_id: member for member in members},
        present,
        assignor=ASSIGNORS[UNIFORM],
        topics=TOPICS,
        resolved={"[tu]": ("t", "u")},
        inherits=inherits,
    )


def test_only_what_changes_is_stored() -> None:
    members = [member("a", "t"), member("b", "t")]
    first = plan(members, {})
    assert first.assignments == {"a": {T: (0, 1)}, "b": {T: (2, 3)}}
    assert first.changed == first.assignments
    assert plan(members, first.assignments) == (first.assignments, {})
    alone = plan(members[1:], first.assignments)
    assert alone.changed == {"b": {T: (0, 1, 2, 3)}}


def test_member_without_topics_is_stored_once_with_nothing() -> None:
    nothing = plan([member("a", "unknown")], {})
    assert nothing.changed == {"a": {}}
    assert plan([member("a", "unknown")], nothing.assignments).changed == {}


def test_returning_static_member_keeps_its_target() -> None:
    members = [member("b", "t"), member("new", "t")]
    present: dict[str, Assignment] = {"old": {T: (0, 2)}, "b": {T: (1, 3)}}
    assert plan(members, present, {"new": "old"}).changed == {"new": {T: (0, 2)}}


def test_partition_of_two_members_in_a_damaged_target_stays_with_one() -> None:
    present: dict[str, Assignment] = {"a": {T: (0, 1, 2)}, "b": {T: (2, 3)}}
    assert plan([member("a", "t"), member("b", "t")], present).assignments == {
        "a": {T: (0, 1)},
        "b": {T: (2, 3)},
    }


def test_missing_partitions_and_topics_are_left_out() -> None:
    present: dict[str, Assignment] = {"a": {GONE: (0,), T: (0, 9)}}
    assert plan([member("a", "t")], present).assignments == {"a": {T: (0, 1, 2, 3)}}


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ([], SubscriptionType.HOMOGENEOUS),
        ([member("a", "t"), member("b", "t")], SubscriptionType.HOMOGENEOUS),
        ([member("a", "t"), member("b", "t", "u")], SubscriptionType.HETEROGENEOUS),
        ([member("a", "t"), member("b")], SubscriptionType.HETEROGENEOUS),
        ([member("a", regex="x"), member("b", regex="x")], SubscriptionType.HOMOGENEOUS),
        ([member("a", regex="x"), member("b", regex="y")], SubscriptionType.HETEROGENEOUS),
        ([member("a", "t", regex="x")], SubscriptionType.HETEROGENEOUS),
        ([member("a", "t", regex=""), member("b", "t")], SubscriptionType.HOMOGENEOUS),
    ],
)
def test_subscription_type_is_homogeneous_only_for_equal_subscriptions(
    members: list[ConsumerMember], kind: SubscriptionType
) -> None:
    assert subscription_type(members) is kind


def test_subscription_is_the_union_of_names_and_matches() -> None:
    subscriptions = Subscriptions(TOPICS, {"[tu]": ("t", "u")})
    assert subscriptions.topic_ids(member("a", "u", regex="[tu]")) == (T, U)
    assert subscriptions.topic_ids(member("a", "u", regex="other")) == (U,)
    assert subscriptions.topic_ids(member("a", "u", "unknown")) == (U,)


@given(seed=st.integers(0, 2**32))
def test_target_does_not_depend_on_the_order_of_joins(seed: int) -> None:
    rng = random.Random(seed)
    case = target_case(rng)
    mixed = list(case.members.items())
    rng.shuffle(mixed)
    results = [
        plan_target(
            members,
            case.present,
            assignor=ASSIGNORS[UNIFORM],
            topics=case.topics,
            resolved=case.resolved,
        )
        for members in (case.members, dict(mixed))
    ]
    assert results[0] == results[1]
    for assignment in results[0].assignments.values():
        assert list(assignment) == sorted(assignment, key=topic_order)
