"""Topic creation: validation, and the replicas of the partitions.  Pure.

Source: Kafka's ZkAdminManager.createTopics, AdminZkClient.validateTopicCreate, Topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from odradek.controller.decide.placement import Placement, place
from odradek.controller.image.image import BrokerImage
from odradek.protocol.errors import BrokerError, ErrorCode

_DEFAULT: Final = -1
NAME_LENGTH_MAX: Final = 249
REPLICATION_FACTOR_MAX: Final = 2**15 - 1
"""The response has 16 bits for it."""
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of a KRaft quorum, which no broker may have as a topic."""
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


class CreateTopicSpec(NamedTuple):
    """One topic of a CreateTopics request."""

    name: str
    partitions: int = _DEFAULT
    """-1: the broker's num.partitions."""
    replication_factor: int = _DEFAULT
    """-1: the broker's default.replication.factor."""
    assignments: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    """Partition -> replicas; unless it is empty the two fields above must be -1."""
    config: Mapping[str, str | None] = MappingProxyType({})
    config_refusal: str | None = None
    """The error message of the broker's config validation; None when the config is valid."""


class TopicCreationInputs(NamedTuple):
    """Random values and broker settings that the decision uses."""

    topic_id: UUID
    start: int
    shift: int
    default_partitions: int
    default_replication_factor: int


class KnownTopics(NamedTuple):
    """The topics of one name in the coordination service."""

    exists: bool
    is_marked_for_deletion: bool = False
    names: Sequence[str] = ()
    """The names of all topics; not needed when the name contains neither '.' nor '_'."""


class TopicToCreate(NamedTuple):
    name: str
    topic_id: UUID
    replicas: Placement
    config: Mapping[str, str]


def decide_create_topic(
    brokers: Sequence[BrokerImage],
    known_topics: KnownTopics,
    spec: CreateTopicSpec,
    inputs: TopicCreationInputs,
) -> TopicToCreate:
    """The topic to write; of several errors the one that Kafka finds first is raised.

    raises  BrokerError TOPIC_ALREADY_EXISTS, INVALID_CONFIG, INVALID_REQUEST, INVALID_PARTITIONS,
            INVALID_REPLICATION_FACTOR, INVALID_TOPIC_EXCEPTION, INVALID_REPLICA_ASSIGNMENT,
            UNKNOWN_SERVER_ERROR (some of the brokers without a rack)
    """
    if spec.name == CLUSTER_METADATA_TOPIC:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {spec.name} is prohibited."
        )
    if known_topics.exists and not known_topics.is_marked_for_deletion:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{spec.name}' already exists.")
    nulls = [name for name, value in spec.config.items() if value is None]
    if nulls:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    has_counts = spec.partitions != _DEFAULT or spec.replication_factor != _DEFAULT
    if has_counts and spec.assignments:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    replicas = dict(spec.assignments) or place(
        brokers,
        partitions=inputs.default_partitions if spec.partitions == _DEFAULT else spec.partitions,
        replication_factor=(
            inputs.default_replication_factor
            if spec.replication_factor == _DEFAULT
            else spec.replication_factor
        ),
        start=inputs.start,
        shift=inputs.shift,
    )
    check_name(spec.name)
    _check_unused(spec.name, known_topics)
    _check_assignment(replicas)
    if spec.config_refusal is not None:
        raise BrokerError(ErrorCode.INVALID_CONFIG, spec.config_refusal)
    config = {name: value for name, value in spec.config.items() if value is not None}
    return TopicToCreate(spec.name, inputs.topic_id, replicas, config)


def check_name(name: str) -> None:
    """Raise when the name is not a legal topic name.

    raises  BrokerError INVALID_TOPIC_EXCEPTION
    """
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL_NAME.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    else:
        return
    raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def has_collision_characters(name: str) -> bool:
    """Whether a metric name may stand for this topic and for another one."""
    return "." in name or "_" in name


def is_good_topic_id(topic_id: UUID) -> bool:
    """Whether a random id may be used: it is not reserved, and its text does not begin with '-'."""
    # The first base64 character shows the first six bits; 62 is '-'.
    return topic_id.int > 1 and topic_id.bytes[0] >> 2 != 62


def _check_unused(name: str, known_topics: KnownTopics) -> None:
    if known_topics.is_marked_for_deletion:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if not has_collision_characters(name):
        return
    plain = name.replace(".", "_")
    colliding = [other for other in known_topics.names if other.replace(".", "_") == plain]
    if name in colliding:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if colliding:
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
        )


def _check_assignment(replicas: Placement) -> None:
    # Of thousands of partitions many have equal replicas.
    distinct = dict.fromkeys(replicas.values())
    if len({len(brokers) for brokers in distinct}) != 1:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        )
    if len(next(iter(distinct))) > REPLICATION_FACTOR_MAX:
        # Differs from Kafka: it creates the topic, and fails to respond.
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"A partition may have {REPLICATION_FACTOR_MAX} replicas at most",
        )
    if any(len(set(brokers)) != len(brokers) for brokers in distinct):
        shown = ", ".join(
            f"{partition} -> {list(replicas[partition])}" for partition in sorted(replicas)
        )
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Duplicate replica assignment found: {shown}"
        )
    if sorted(replicas) != list(range(len(replicas))):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
