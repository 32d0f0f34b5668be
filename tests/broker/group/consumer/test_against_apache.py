"""The pure algorithms of the new group protocol, beside those of Apache Kafka 4.3.0."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID as Uuid

import pytest

from odradek.broker.group.consumer.assignors import ASSIGNORS, RANGE, UNIFORM
from odradek.broker.group.consumer.model import (
    Assignment,
    ConsumerMember,
    SubscriptionType,
    TopicFacts,
)
from odradek.broker.group.consumer.reconcile import reconcile
from odradek.broker.group.consumer.subscription_regex import TopicRegex
from odradek.broker.group.consumer.target import plan_target, subscription_type
from odradek.protocol.errors import BrokerError
from tests.broker.group.consumer.cases import (
    AssignCase,
    ReconcileCase,
    TargetCase,
    assign_case,
    chain_case,
    reconcile_case,
    target_case,
)
from tests.broker.group.consumer.expressions import EXPRESSIONS, TOPIC_NAMES
from tests.broker.group.consumer.oracle import (
    Apache,
    Json,
    assign_question,
    reconcile_question,
    regex_question,
    target_question,
    written_assignment,
    written_epochs,
)

pytestmark = pytest.mark.judge

HOMOGENEOUS, HETEROGENEOUS = SubscriptionType.HOMOGENEOUS, SubscriptionType.HETEROGENEOUS


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    oracle = Apache(tmp_path_factory.mktemp("oracle"))
    yield oracle
    oracle.close()


def written(assignments: dict[str, Assignment]) -> Json:
    return {
        member_id: written_assignment(assignment) for member_id, assignment in assignments.items()
    }


def with_nothing(response: Json, case: AssignCase | TargetCase) -> Json:
    """Apache tells nothing of anybody when there is no topic to assign."""
    return {**{member_id: {} for member_id in case.members}, **response}


def questions_of(assignor: str, cases: list[AssignCase], *, is_hashed: bool = False) -> list[Json]:
    return [
        assign_question(
            assignor, case.kind, case.members, case.partition_counts, is_hashed=is_hashed
        )
        for case in cases
    ]


def test_assignments_equal_those_of_apache_kafka(apache: Apache) -> None:
    rng = random.Random(848)
    asked: list[tuple[str, AssignCase]] = []
    for number in range(2_400):
        kind = (HOMOGENEOUS, HETEROGENEOUS)[number % 2]
        case = assign_case(
            rng,
            kind=kind,
            # Only the homogeneous builder lets the order of a hash set of topics decide.
            has_ordered_ids=kind is HOMOGENEOUS,
            members_max=rng.choice((3, 12, 40)),
            is_settled=rng.random() < 0.5,
        )
        asked.append(((UNIFORM, UNIFORM, RANGE)[number % 3], case))
    asked += [(UNIFORM, chain_case(rng)) for _ in range(200)]
    responses = apache.ask(
        [question for name, case in asked for question in questions_of(name, [case])]
    )
    for (name, case), response in zip(asked, responses, strict=True):
        ours = ASSIGNORS[name](case.members, case.kind, case.partition_counts)
        assert written(ours) == with_nothing(response, case), (name, case)


def kept_count(case: AssignCase, assignments: Json) -> int:
    """How many partitions stay with their owners."""
    return sum(
        len(set(numbers) & set(assignments.get(member_id, {}).get(topic_id.hex, ())))
        for member_id, member in case.members.items()
        for topic_id, numbers in member.assignment.items()
    )


def sizes(assignments: Json) -> list[int]:
    return sorted(
        sum(len(numbers) for numbers in assignment.values()) for assignment in assignments.values()
    )


def test_in_the_order_of_a_java_hash_set_loads_and_kept_partitions_are_as_many(
    apache: Apache,
) -> None:
    rng = random.Random(1)
    cases = [
        assign_case(rng, kind=HOMOGENEOUS, has_ordered_ids=False, members_max=30)
        for _ in range(400)
    ]
    responses = apache.ask(questions_of(UNIFORM, cases, is_hashed=True))
    for case, response in zip(cases, responses, strict=True):
        theirs = with_nothing(response, case)
        ours = written(ASSIGNORS[UNIFORM](case.members, case.kind, case.partition_counts))
        assert sizes(ours) == sizes(theirs), case
        assert kept_count(case, ours) == kept_count(case, theirs), case


def test_target_assignments_equal_those_of_apache_kafka(apache: Apache) -> None:
    rng = random.Random(2)
    cases = [(rng.choice((UNIFORM, RANGE)), target_case(rng)) for _ in range(600)]
    responses = apache.ask(
        [
            target_question(
                name,
                case.topics.values(),
                case.resolved,
                case.written.values(),
                case.present,
                updated=[] if case.updated is None else [case.updated],
                removed=[] if case.removed is None else [case.removed],
                static_members=instances(case),
            )
            for name, case in cases
        ]
    )
    for (name, case), response in zip(cases, responses, strict=True):
        inherits = {}
        if case.updated is not None and case.removed is not None:
            inherits[case.updated.member_id] = case.removed
        ours = plan_target(
            case.members,
            case.present,
            assignor=ASSIGNORS[name],
            topics=case.topics,
            resolved=case.resolved,
            inherits=inherits,
        )
        assert subscription_type(case.members.values()).name == response["type"], case
        assert written(ours.assignments) == with_nothing(response["assignments"], case), case
        assert written(ours.changed) == response["changed"], case


def instances(case: TargetCase) -> dict[str, str]:
    return {
        member.instance_id: member.member_id
        for member in case.written.values()
        if member.instance_id is not None
    }


def next_member(case: ReconcileCase) -> Json:
    try:
        after: ConsumerMember = reconcile(case.member, case.goal)
    except BrokerError as refused:
        return {"code": int(refused.code), "message": refused.message}
    return {
        "epoch": after.member_epoch,
        "previous": after.previous_member_epoch,
        "state": after.state.value,
        "same": after == case.member,
        "assigned": written_epochs(after.assigned_partitions),
        "pending": written_epochs(after.partitions_pending_revocation),
    }


def test_reconciliation_steps_equal_those_of_apache_kafka(apache: Apache) -> None:
    rng = random.Random(3)
    cases = [reconcile_case(rng) for _ in range(2_000)]
    responses = apache.ask(
        [
            reconcile_question(
                case.member,
                case.topics.values(),
                case.resolved,
                target_epoch=case.goal.target_epoch,
                target=case.goal.target,
                epochs=case.goal.partition_epochs,
                reported=case.goal.reported,
                has_subscription_changed=case.goal.has_subscription_changed,
            )
            for case in cases
        ]
    )
    seen: dict[Any, int] = {}
    for case, response in zip(cases, responses, strict=True):
        ours = next_member(case)
        assert ours == response, case
        seen[case.member.state, ours.get("state")] = 1
    # Every state was left for every state that it can be left for.
    assert len(seen) == 12, seen


def test_expressions_match_the_same_topics_as_in_apache_kafka(apache: Apache) -> None:
    topics = [
        TopicFacts(Uuid(int=number), name, 1) for number, name in enumerate(TOPIC_NAMES, start=1)
    ]
    responses = apache.ask([regex_question(regex, topics) for regex in EXPRESSIONS])
    for regex, response in zip(EXPRESSIONS, responses, strict=True):
        assert matched(regex) == response, regex


def matched(regex: str) -> Json:
    try:
        compiled = TopicRegex(regex)
    except BrokerError as refused:
        return {"code": int(refused.code), "message": refused.message}
    return {"names": sorted(name for name in TOPIC_NAMES if compiled.matches(name))}
