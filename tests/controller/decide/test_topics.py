"""Creating topics and partitions: what is accepted, what is refused."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.controller.decide.partitions import CreatePartitionsSpec, decide_create_partitions
from odradek.controller.decide.topics import (
    CreateTopicSpec,
    KnownTopics,
    TopicCreationInputs,
    TopicToCreate,
    check_name,
    decide_create_topic,
    is_good_topic_id,
)
from odradek.controller.image.image import BrokerImage, PartitionImage, TopicImage
from odradek.protocol.errors import BrokerError, ErrorCode

ID = UUID(int=77)
INPUTS = TopicCreationInputs(
    ID, start=1, shift=0, default_partitions=2, default_replication_factor=1
)
BROKERS = [BrokerImage(broker_id, 1, ()) for broker_id in (1, 2, 3)]
UNKNOWN = KnownTopics(exists=False)


def decide(spec: CreateTopicSpec, topics: KnownTopics = UNKNOWN) -> TopicToCreate:
    return decide_create_topic(BROKERS, topics, spec, INPUTS)


def refusal(spec: CreateTopicSpec, topics: KnownTopics = UNKNOWN) -> tuple[ErrorCode, str | None]:
    with pytest.raises(BrokerError) as error:
        decide(spec, topics)
    return error.value.code, error.value.message


def test_counts_of_minus_one_use_the_settings_of_the_broker() -> None:
    topic = decide(CreateTopicSpec("t", config={"a": "b"}))
    assert topic == TopicToCreate("t", ID, {0: (2,), 1: (3,)}, {"a": "b"})


def test_given_counts_and_assignments_are_used() -> None:
    assert decide(CreateTopicSpec("t", 1, 3)).replicas == {0: (2, 3, 1)}
    given = {0: (9, 8), 1: (8, 9)}
    assert decide(CreateTopicSpec("t", assignments=given)).replicas == given


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, f"the length of '{'a' * 250}' is longer than the max allowed length 249"),
        (
            "a/b",
            "'a/b' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        (
            "é",
            "'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            "a\n",
            "'a\n' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
    ],
)
def test_illegal_topic_name_raises_invalid_topic_exception(name: str, reason: str) -> None:
    assert refusal(CreateTopicSpec(name)) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: {reason}",
    )


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "a" * 249])
def test_legal_topic_name_is_accepted(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("spec", "topics", "code", "message"),
    [
        (
            CreateTopicSpec("t"),
            KnownTopics(exists=True),
            ErrorCode.TOPIC_ALREADY_EXISTS,
            "Topic 't' already exists.",
        ),
        (
            CreateTopicSpec("t"),
            KnownTopics(exists=True, is_marked_for_deletion=True),
            ErrorCode.TOPIC_ALREADY_EXISTS,
            "Topic 't' is marked for deletion.",
        ),
        (
            CreateTopicSpec("a.b"),
            KnownTopics(exists=False, names=["x", "a_b"]),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'a.b' collides with existing topics: a_b",
        ),
        (
            CreateTopicSpec("t", config={"x": None, "y": "1", "z": None}),
            UNKNOWN,
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: x,z",
        ),
        (
            CreateTopicSpec("t", config_refusal="Unknown topic config name: x"),
            UNKNOWN,
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: x",
        ),
        (
            CreateTopicSpec("t", partitions=1, assignments={0: (1,)}),
            UNKNOWN,
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        ),
        (
            CreateTopicSpec("t", assignments={0: (1,), 1: (1, 2)}),
            UNKNOWN,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        ),
        (
            CreateTopicSpec("t", assignments={0: (1, 1)}),
            UNKNOWN,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate replica assignment found: 0 -> [1, 1]",
        ),
        (
            CreateTopicSpec("t", assignments={0: tuple(range(32_768))}),
            UNKNOWN,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "A partition may have 32767 replicas at most",
        ),
        (
            CreateTopicSpec("t", assignments={0: (1,), 2: (2,)}),
            UNKNOWN,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
    ],
)
def test_create_topic_that_is_refused_raises_its_error(
    spec: CreateTopicSpec, topics: KnownTopics, code: ErrorCode, message: str
) -> None:
    assert refusal(spec, topics) == (code, message)


def test_create_topic_checks_counts_before_the_name() -> None:
    assert refusal(CreateTopicSpec("a/b", partitions=0))[0] is ErrorCode.INVALID_PARTITIONS


def test_topic_ids_do_not_begin_with_a_dash() -> None:
    assert not is_good_topic_id(UUID(bytes=bytes([0xF8]) + bytes(15)))
    assert not is_good_topic_id(UUID(int=0))
    assert not is_good_topic_id(UUID(int=1))
    assert is_good_topic_id(ID)


TOPIC = TopicImage("t", ID, {0: PartitionImage(0, (2, 3)), 1: PartitionImage(1, (3, 1))})


def test_new_partitions_are_placed_from_the_first_replica_of_partition_0() -> None:
    assert decide_create_partitions(BROKERS, TOPIC, CreatePartitionsSpec("t", 4)) == {
        2: (1, 3),
        3: (2, 3),
    }


def test_given_assignments_of_new_partitions_are_used() -> None:
    spec = CreatePartitionsSpec("t", 3, [(1, 2)])
    assert decide_create_partitions(BROKERS, TOPIC, spec) == {2: (1, 2)}


BEING_MOVED = TOPIC._replace(partitions={0: PartitionImage(0, (1, 2), adding=(1,))})


@pytest.mark.parametrize(
    ("topic", "spec", "code", "message"),
    [
        (
            None,
            CreatePartitionsSpec("t", 3),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 't' does not exist.",
        ),
        (
            BEING_MOVED,
            CreatePartitionsSpec("t", 3),
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            "A partition reassignment is in progress for the topic 't'.",
        ),
        (
            TOPIC,
            CreatePartitionsSpec("t", 1),
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (
            TOPIC,
            CreatePartitionsSpec("t", 2),
            ErrorCode.INVALID_PARTITIONS,
            "Topic already has 2 partitions.",
        ),
        (
            TOPIC,
            CreatePartitionsSpec("t", 3, [(1, 7)]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Unknown broker(s) in replica assignment: 7.",
        ),
        (
            TOPIC,
            CreatePartitionsSpec("t", 3, [(1, 2), (2, 3)]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Increasing the number of partitions by 1 but 2 assignments provided.",
        ),
        (
            TOPIC,
            CreatePartitionsSpec("t", 3, [()]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Cannot have replication factor of 0 for partition id 2.",
        ),
        (
            TOPIC,
            CreatePartitionsSpec("t", 3, [(1, 1)]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2.",
        ),
        (
            TOPIC,
            CreatePartitionsSpec("t", 3, [(1,)]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Inconsistent replication factor between partitions, partition 0 has 2 while "
            "partitions [2] have replication factors [1], respectively.",
        ),
    ],
)
def test_create_partitions_that_is_refused_raises_its_error(
    topic: TopicImage | None, spec: CreatePartitionsSpec, code: ErrorCode, message: str
) -> None:
    with pytest.raises(BrokerError) as error:
        decide_create_partitions(BROKERS, topic, spec)
    assert (error.value.code, error.value.message) == (code, message)
