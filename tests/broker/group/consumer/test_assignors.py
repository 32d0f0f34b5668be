"""What assignors promise: one owner for each partition, even loads, few moves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from time import process_time
from uuid import UUID as Uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.group.consumer.assignors import ASSIGNORS, RANGE, UNIFORM
from odradek.broker.group.consumer.model import Assignment, MemberSubscription, SubscriptionType
from tests.broker.group.consumer.cases import AssignCase, assign_case, random_ids

HOMOGENEOUS, HETEROGENEOUS = SubscriptionType.HOMOGENEOUS, SubscriptionType.HETEROGENEOUS
T, U = Uuid(int=1), Uuid(int=2)


def seeded(seed: int, kind: SubscriptionType, *, members_max: int = 20) -> AssignCase:
    return assign_case(
        random.Random(seed), kind=kind, has_ordered_ids=False, members_max=members_max
    )


def assign(name: str, case: AssignCase) -> dict[str, Assignment]:
    return ASSIGNORS[name](case.members, case.kind, case.partition_counts)


def sizes(assignments: Mapping[str, Assignment]) -> dict[str, int]:
    return {
        member_id: sum(len(numbers) for numbers in assignment.values())
        for member_id, assignment in assignments.items()
    }


def owners(assignments: Mapping[str, Assignment]) -> list[tuple[Uuid, int, str]]:
    return [
        (topic_id, number, member_id)
        for member_id, assignment in assignments.items()
        for topic_id, numbers in assignment.items()
        for number in numbers
    ]


seeds = st.integers(0, 2**32)


@pytest.mark.parametrize("name", [UNIFORM, RANGE])
@pytest.mark.parametrize("kind", SubscriptionType)
@given(seed=seeds)
def test_each_subscribed_partition_has_one_owner_that_is_subscribed(
    name: str, kind: SubscriptionType, seed: int
) -> None:
    case = seeded(seed, kind)
    result = assign(name, case)
    assert result.keys() == case.members.keys()
    owned = owners(result)
    assert all(topic_id in case.members[owner].topic_ids for topic_id, _, owner in owned)
    expected = {
        (topic_id, number)
        for member in case.members.values()
        for topic_id in member.topic_ids
        for number in range(case.partition_counts[topic_id])
    }
    assert sorted((topic_id, number) for topic_id, number, _ in owned) == sorted(expected)
    for assignment in result.values():
        assert all(numbers == tuple(sorted(numbers)) and numbers for numbers in assignment.values())


@given(seed=seeds)
def test_equal_subscriptions_get_loads_that_differ_by_one_at_most_and_partitions_stay(
    seed: int,
) -> None:
    case = seeded(seed, HOMOGENEOUS)
    result = assign(UNIFORM, case)
    loads = sizes(result)
    assert max(loads.values()) - min(loads.values()) <= 1
    subscribed = next(iter(case.members.values())).topic_ids
    total = sum(case.partition_counts[topic_id] for topic_id in subscribed)
    quota, extras = divmod(total, len(case.members))
    had = {
        member_id: {
            (topic_id, number)
            for topic_id, numbers in member.assignment.items()
            if topic_id in subscribed
            for number in numbers
        }
        for member_id, member in case.members.items()
    }
    kept = sum((topic_id, number) in had[owner] for topic_id, number, owner in owners(result))
    # No member keeps more than its share, and only so many get one more.
    can_be_kept = sum(min(len(partitions), quota) for partitions in had.values())
    can_be_kept += min(extras, sum(len(partitions) > quota for partitions in had.values()))
    assert kept == can_be_kept


@pytest.mark.parametrize("kind", SubscriptionType)
@given(seed=seeds)
def test_repeated_assignment_changes_nothing(kind: SubscriptionType, seed: int) -> None:
    case = seeded(seed, kind)
    first = assign(UNIFORM, case)
    settled = {
        member_id: member._replace(assignment=first[member_id])
        for member_id, member in case.members.items()
    }
    again = ASSIGNORS[UNIFORM](settled, kind, case.partition_counts)
    assert all(again[member_id] is member for member_id, member in first.items())


@given(seed=seeds)
def test_owner_has_at_most_one_partition_more_than_any_other_subscriber(seed: int) -> None:
    case = seeded(seed, HETEROGENEOUS)
    result = assign(UNIFORM, case)
    loads = sizes(result)
    for topic_id, _, owner in owners(result):
        for other, member in case.members.items():
            if topic_id in member.topic_ids:
                assert loads[owner] - loads[other] <= 1


@given(seed=seeds, leaves=st.booleans())
def test_join_or_leave_moves_only_the_partitions_of_that_member(seed: int, leaves: bool) -> None:
    rng = random.Random(seed)
    ids = random_ids(rng, rng.randint(1, 4))
    counts = {topic_id: rng.randint(1, 20) for topic_id in ids}
    names = [f"member-{rng.getrandbits(32):08x}" for _ in range(rng.randint(2, 12))]
    everybody = {name: MemberSubscription(tuple(ids)) for name in sorted(names)}
    few = {name: member for name, member in everybody.items() if name != names[0]}
    before, after = (everybody, few) if leaves else (few, everybody)
    old = ASSIGNORS[UNIFORM](before, HOMOGENEOUS, counts)
    new = ASSIGNORS[UNIFORM](
        {name: member._replace(assignment=old.get(name, {})) for name, member in after.items()},
        HOMOGENEOUS,
        counts,
    )
    moved = len({*owners(new)} - {*owners(old)})
    assert moved == sizes(old if leaves else new)[names[0]]


@given(seed=seeds)
def test_ranges_follow_each_other_in_the_order_of_the_members(seed: int) -> None:
    case = seeded(seed, HOMOGENEOUS)
    result = assign(RANGE, case)
    ranked = sorted(
        case.members,
        key=lambda name: (
            case.members[name].instance_id is None,
            case.members[name].instance_id or name,
        ),
    )
    for topic_id in next(iter(case.members.values())).topic_ids:
        ranges = [result[name].get(topic_id, ()) for name in ranked]
        numbers = [number for numbers_of_member in ranges for number in numbers_of_member]
        assert numbers == list(range(case.partition_counts[topic_id]))
        lengths = [len(numbers_of_member) for numbers_of_member in ranges]
        assert all(a >= b for a, b in pairwise(lengths))
        assert lengths[0] - lengths[-1] <= 1


def test_topics_with_equally_many_partitions_are_joined() -> None:
    members = {f"m{number}": MemberSubscription((T, U)) for number in range(3)}
    result = ASSIGNORS[RANGE](members, HOMOGENEOUS, {T: 7, U: 7})
    assert [assignment[T] for assignment in result.values()] == [(0, 1, 2), (3, 4), (5, 6)]
    assert all(assignment[T] == assignment[U] for assignment in result.values())


def test_static_member_finds_its_ranges_under_another_id() -> None:
    def members(ids: tuple[str, ...]) -> dict[str, MemberSubscription]:
        return {
            member_id: MemberSubscription((T,), instance_id=f"i{number}")
            for number, member_id in enumerate(ids)
        }

    before = ASSIGNORS[RANGE](members(("a", "b", "c")), HOMOGENEOUS, {T: 5})
    after = ASSIGNORS[RANGE](members(("z", "y", "x")), HOMOGENEOUS, {T: 5})
    assert [before[member_id] for member_id in "abc"] == [after[member_id] for member_id in "zyx"]


def test_static_members_stand_before_dynamic_ones() -> None:
    members = {"a": MemberSubscription((T,)), "b": MemberSubscription((T,), instance_id="z")}
    assert ASSIGNORS[RANGE](members, HOMOGENEOUS, {T: 3}) == {"b": {T: (0, 1)}, "a": {T: (2,)}}


@pytest.mark.parametrize("name", [UNIFORM, RANGE])
@pytest.mark.parametrize("kind", SubscriptionType)
def test_ten_thousand_partitions_are_assigned_to_a_thousand_members_in_bounded_time(
    name: str, kind: SubscriptionType
) -> None:
    rng = random.Random(6)
    ids = random_ids(rng, 100)
    few = tuple(ids[:50])
    members = {
        f"member-{number:04}": MemberSubscription(
            few if kind is HETEROGENEOUS and number % 2 else tuple(ids)
        )
        for number in range(1_000)
    }
    started = process_time()
    result = ASSIGNORS[name](members, kind, dict.fromkeys(ids, 100))
    assert sum(sizes(result).values()) == 10_000
    # Takes some 10 ms; the event loop waits for it.
    assert process_time() - started < 1


@pytest.mark.parametrize("name", [UNIFORM, RANGE])
@pytest.mark.parametrize("kind", SubscriptionType)
def test_no_members_get_no_partitions(name: str, kind: SubscriptionType) -> None:
    assert ASSIGNORS[name]({}, kind, {}) == {}
    members = {"a": MemberSubscription(()), "b": MemberSubscription((), {T: (0,)})}
    assert ASSIGNORS[name](members, kind, {}) == {"a": {}, "b": {}}
