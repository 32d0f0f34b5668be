"""CreateTopics, CreatePartitions and DeleteTopics."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.talk import Talk, versions_of

UNKNOWN_ID = UUID(int=0x1234567890)


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assigned: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    """A topic to create."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assigned or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


BAD_TOPICS: tuple[tuple[str, CreatableTopic], ...] = (
    ("an existing name", topic("topics")),
    ("an empty name", topic("")),
    ("a dot", topic(".")),
    ("two dots", topic("..")),
    ("a slash", topic("a/b")),
    ("an umlaut", topic("tür")),
    ("a name of 250 letters", topic("n" * 250)),
    ("no partitions", topic("bad-1", 0)),
    ("partitions below -1", topic("bad-2", -2)),
    ("no replicas", topic("bad-3", 1, 0)),
    ("replicas below -1", topic("bad-4", 1, -2)),
    ("more replicas than brokers", topic("bad-5", 1, 3)),
    ("counts and an assignment", topic("bad-6", 1, 1, assigned={0: [0]})),
    ("a broker that is not there", topic("bad-7", -1, -1, assigned={0: [7]})),
    ("an assignment with a hole", topic("bad-8", -1, -1, assigned={0: [0], 2: [0]})),
    ("an assignment that starts at 1", topic("bad-9", -1, -1, assigned={1: [0]})),
    ("a broker twice in an assignment", topic("bad-10", -1, -1, assigned={0: [0, 0]})),
    ("no broker in an assignment", topic("bad-11", -1, -1, assigned={0: []})),
    ("an unknown setting", topic("bad-12", configs={"no.such.key": "1"})),
    ("a setting that is no number", topic("bad-13", configs={"retention.ms": "soon"})),
    ("a setting out of its range", topic("bad-14", configs={"segment.bytes": "1"})),
    ("a setting without a value", topic("bad-15", configs={"retention.ms": None})),
    ("a policy that is not there", topic("bad-16", configs={"cleanup.policy": "burn"})),
    ("a name that clashes", topic("topics.a_b")),
    ("the metadata topic of a KRaft cluster", topic("__cluster_metadata")),
)


def play(talk: Talk) -> None:
    """Make, widen, delete."""
    create(talk)
    create_partitions(talk)
    delete(talk)


def create(talk: Talk) -> None:
    """Valid requests in each version, then invalid ones."""
    talk.make_topic("topics")
    talk.make_topic("topics_a.b")
    configs: dict[str, str | None] = {"cleanup.policy": "compact", "retention.ms": "5000"}
    for version in versions_of(CreateTopicsRequest):
        plain = CreateTopicsRequest(topics=[topic(f"created-{version}", 3, configs=configs)])
        talk.ask("a topic with settings", plain, version)
        assigned = topic(f"assigned-{version}", -1, -1, assigned={1: [0], 0: [0]})
        talk.ask("a topic with an assignment", CreateTopicsRequest(topics=[assigned]), version)
        if version >= 1:
            dry = CreateTopicsRequest(
                topics=[topic(f"dry-{version}"), topic("topics")], validate_only=True
            )
            talk.ask("a dry run", dry, version)
        if version >= 4:
            defaults = CreateTopicsRequest(topics=[topic(f"defaults-{version}", -1, -1)])
            talk.ask("a topic of defaults", defaults, version)
        twice = CreateTopicsRequest(topics=[topic("twice"), topic("twice", 2), topic("a/b")])
        talk.ask("the same name twice", twice, version)
    for label, creatable in BAD_TOPICS:
        talk.ask(label, CreateTopicsRequest(topics=[creatable], timeout_ms=1_000), 7)
    talk.ask("nothing", CreateTopicsRequest(topics=[]), 7)


def create_partitions(talk: Talk) -> None:
    """More partitions, and everything that is not more."""
    for version in versions_of(CreatePartitionsRequest):
        talk.make_topic(f"widened-{version}", 2)
        talk.ask("more partitions", widen([(f"widened-{version}", 4, None)]), version)
        talk.wait_for_topic(f"widened-{version}", 4)
        talk.ask("a dry run", widen([(f"widened-{version}", 9, None)], dry=True), version)
    name = "widened-0"
    for label, count, brokers in (
        ("as many as there are", 4, None),
        ("fewer", 2, None),
        ("none", 0, None),
        ("with an assignment", 5, [[0]]),
        ("with an assignment for too few", 9, [[0]]),
        ("with an assignment for too many", 6, [[0], [0]]),
        ("with a broker that is not there", 6, [[9]]),
        ("with two replicas where there was one", 6, [[0, 1]]),
    ):
        talk.ask(f"partitions {label}", widen([(name, count, brokers)]), 3)
        if label == "with an assignment":
            talk.wait_for_topic(name, 5)
    talk.ask("an unknown topic", widen([("never-made", 4, None)]), 3)
    talk.ask("a topic twice", widen([("topics", 4, None), ("topics", 5, None)]), 3)


def widen(
    requested: list[tuple[str, int, list[list[int]] | None]], *, dry: bool = False
) -> CreatePartitionsRequest:
    """A request for several topics."""
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if brokers is None
                else [CreatePartitionsAssignment(broker_ids=broker_ids) for broker_ids in brokers],
            )
            for name, count, brokers in requested
        ],
        timeout_ms=10_000,
        validate_only=dry,
    )


def delete(talk: Talk) -> None:
    """By name in each version, by id from 6 on."""
    for version in versions_of(DeleteTopicsRequest):
        doomed = f"deleted-{version}"
        talk.make_topic(doomed, 2)
        request = delete_request([doomed, "never-made"], version)
        response = talk.ask("a topic and an unknown one", request, version)
        if response.responses[0].error_code == 0:
            if version > 0:
                again = delete_request([doomed], version)
                talk.ask("the same topic at once again", again, version)
            talk.wait_for_absence(doomed)
    topic_id = talk.make_topic("deleted-by-id")
    for label, name, id_of_topic in (
        ("by id", None, topic_id),
        ("by an unknown id", None, UNKNOWN_ID),
        ("by name and id", "topics", topic_id),
        ("by neither", None, ZERO_UUID),
    ):
        states: list[Any] = [DeleteTopicState(name=name, topic_id=id_of_topic)]
        talk.ask(label, DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6)
    talk.ask("a topic twice", delete_request(["topics", "topics"], 5), 5)


def delete_request(names: list[str], version: int) -> DeleteTopicsRequest:
    """By name, in the form of the version."""
    if version < 6:
        return DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
    states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
    return DeleteTopicsRequest(topics=states, timeout_ms=10_000)
