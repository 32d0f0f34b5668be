"""Whether a topic may be created, and as what.  Pure.

Source: Kafka's ZkAdminManager.createTopics, AdminZkClient.validateTopicCreate, Topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from odradek.controller.decide.placement import Placement, place
from odradek.controller.image import BrokerImage
from odradek.protocol.errors import BrokerError, ErrorCode

DEFAULT: Final = -1
NAME_LENGTH_MAX: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """The wish for a topic, as a client sent it."""

    name: str
    partitions: int = DEFAULT
    """-1: the broker's num.partitions."""
    replication_factor: int = DEFAULT
    """-1: the broker's default.replication.factor."""
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Partition -> replicas; when given, the two fields above must be -1."""
    config: Mapping[str, str | None] = field(default_factory=dict)
    config_refusal: str | None = None
    """Why the config cannot be taken, as the broker's validation found; None: it is good."""


@dataclass(frozen=True, slots=True)
class TopicDraw:
    """Chance and settings that come in with the wish."""

    topic_id: UUID
    start: int
    shift: int
    default_partitions: int
    default_replication_factor: int


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """What the coordination service says about topics of that name."""

    exists: bool
    is_marked_for_deletion: bool = False
    names: Sequence[str] = ()
    """All topics; may be left out when the name has neither '.' nor '_'."""


@dataclass(frozen=True, slots=True)
class TopicToCreate:
    """What is to be written."""

    name: str
    topic_id: UUID
    replicas: Placement
    config: Mapping[str, str]


def decide_create_topic(
    brokers: Sequence[BrokerImage], known: KnownTopics, wish: CreateTopic, draw: TopicDraw
) -> TopicToCreate:
    """The topic to write; refusals come in the order in which Kafka finds them.

    raises  BrokerError TOPIC_ALREADY_EXISTS, INVALID_CONFIG, INVALID_REQUEST, INVALID_PARTITIONS,
            INVALID_REPLICATION_FACTOR, INVALID_TOPIC_EXCEPTION, INVALID_REPLICA_ASSIGNMENT,
            UNKNOWN_SERVER_ERROR (some of the brokers without a rack)
    """
    if known.exists and not known.is_marked_for_deletion:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wish.name}' already exists.")
    nulls = [name for name, value in wish.config.items() if value is None]
    if nulls:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    has_counts = wish.partitions != DEFAULT or wish.replication_factor != DEFAULT
    if has_counts and wish.assignments:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    replicas = dict(wish.assignments) or place(
        brokers,
        partitions=draw.default_partitions if wish.partitions == DEFAULT else wish.partitions,
        replication_factor=(
            draw.default_replication_factor
            if wish.replication_factor == DEFAULT
            else wish.replication_factor
        ),
        start=draw.start,
        shift=draw.shift,
    )
    check_name(wish.name)
    _check_unused(wish.name, known)
    _check_assignment(replicas)
    if wish.config_refusal is not None:
        raise BrokerError(ErrorCode.INVALID_CONFIG, wish.config_refusal)
    config = {name: value for name, value in wish.config.items() if value is not None}
    return TopicToCreate(wish.name, draw.topic_id, replicas, config)


def check_name(name: str) -> None:
    """Whether a topic may be called so.

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
    """Whether another topic's metrics could be taken for this one's."""
    return "." in name or "_" in name


def is_good_topic_id(topic_id: UUID) -> bool:
    """Whether an id drawn at random may be used: not reserved, its text not beginning with '-'."""
    # The first base64 character shows the first six bits; 62 is '-'.
    return topic_id.int > 1 and topic_id.bytes[0] >> 2 != 62


def _check_unused(name: str, known: KnownTopics) -> None:
    if known.is_marked_for_deletion:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if not has_collision_characters(name):
        return
    plain = name.replace(".", "_")
    colliding = [other for other in known.names if other.replace(".", "_") == plain]
    if name in colliding:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if colliding:
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
        )


def _check_assignment(replicas: Placement) -> None:
    if len({len(found) for found in replicas.values()}) != 1:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        )
    if any(len(set(found)) != len(found) for found in replicas.values()):
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
