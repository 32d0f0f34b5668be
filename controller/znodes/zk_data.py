"""Paths and JSON of Kafka's ZooKeeper mode: the controller, topics, states, producer ids, features.

Encoders write what Apache Kafka 3.9 writes, byte for byte, key order included.  Decoders also read
older versions, ignore unknown fields, and raise BadZnode for what Kafka could not read either.
Source: Kafka's ZkData, ReplicaAssignment; KIP-497, KIP-516, KIP-584, KIP-704.
"""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.bounded_parsing import UnreadableText, parse_integer, parse_json
from odradek.controller.coordination.errors import CoordinationError

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
BROKER_TOPICS: Final = "/brokers/topics"
BROKER_SEQUENCE: Final = "/brokers/seqid"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIRECTORY_EVENTS: Final = "/log_dir_event_notification"
LOG_DIRECTORY_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
CLUSTER_ID: Final = "/cluster/id"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
COORDINATOR: Final = "/odradek/coordinator"
"""The id of the node that serves an embedded tree as the quorum; Kafka has no such node."""

PERSISTENT_ROOTS: Final = (
    "/consumers",
    BROKER_IDS,
    BROKER_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIRECTORY_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Every broker creates them at its start, with their parents."""

DEFAULT_ENTITY: Final = "<default>"
INITIAL_CONTROLLER_EPOCH: Final = 0
PRODUCER_ID_BLOCK_SIZE: Final = 1_000
PRODUCER_ID_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
SHOWN_MAX: Final = 200
"""Characters of a znode's content in a message."""
LOG_DIRECTORY_FAILED: Final = 1
FEATURES_ENABLED: Final = 1


class BadZnode(CoordinationError):
    """The content of a znode cannot be decoded."""


def shown(value: object) -> str:
    """The beginning of a value, for a message."""
    text = repr(value[:SHOWN_MAX] if isinstance(value, bytes | str) else value)
    return text if len(text) <= SHOWN_MAX + 4 else f"{text[:SHOWN_MAX]}..."


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{BROKER_TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{BROKER_TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{BROKER_TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{BROKER_TOPICS}/{topic}/partitions/{partition}/state"


def config_path(entity_type: str, entity: str) -> str:
    """The config of an entity.

    entity  sanitized, or `<default>`; of users also `user/clients/client`
    """
    return f"/config/{entity_type}/{entity}"


def delete_topic_path(topic: str) -> str:
    """The pending deletion of a topic."""
    return f"{DELETE_TOPICS}/{topic}"


def sequence_number(name: str) -> int:
    """The number at the end of a sequential node's name.

    raises  BadZnode
    """
    digits = name[-10:]
    if len(digits) < 10 or not digits.isdecimal():
        raise BadZnode(f"{name!r} has no number")
    return int(digits)


def encode_topic_id(topic_id: uuid.UUID) -> str:
    """22 characters of base64url without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def decode_topic_id(text: str) -> uuid.UUID:
    """Decode 22 characters of base64url.

    raises  BadZnode
    """
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (ValueError, TypeError) as error:
        raise BadZnode(f"{shown(text)} is not an id") from error


def encode_json(value: object) -> bytes:
    """Encode JSON as Kafka does: without spaces, UTF-8 unescaped."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes | None) -> dict[str, Any]:
    """A JSON object.

    raises  BadZnode
    """
    try:
        value = parse_json(data or b"")
    except UnreadableText as error:
        raise BadZnode(f"not JSON: {shown(data)} ({error})") from error
    if not isinstance(value, dict):
        raise BadZnode(f"not a JSON object: {shown(data)}")
    return value


def field(value: object, name: str, kind: type | tuple[type, ...]) -> Any:
    """A required field of an object; an integer has 32 bits.

    raises  BadZnode
    """
    content = value.get(name) if isinstance(value, dict) else None
    if not isinstance(content, kind) or not _is_plain(content):
        raise BadZnode(f"{name} is {shown(content)}")
    return content


def _is_plain(value: object) -> bool:
    """Whether it is not an integer, or is one that Kafka's decoders take."""
    if isinstance(value, bool):
        return False
    return not isinstance(value, int) or -INT32_MAX - 1 <= value <= INT32_MAX


def broker_list(value: object) -> tuple[int, ...]:
    """A list of broker ids.

    raises  BadZnode
    """
    if not isinstance(value, list):
        raise BadZnode(f"not a list of brokers: {shown(value)}")
    for item in value:
        # No calls: a topic may have thousands of lists.  A bool is not of type int.
        if type(item) is not int or not -INT32_MAX - 1 <= item <= INT32_MAX:
            raise BadZnode(f"not a list of brokers: {shown(value)}")
    return tuple(value)


class ControllerZnode(NamedTuple):
    """/controller: the active controller."""

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1
    """Above zero once a KRaft quorum took over; ZooKeeper must not be written any more then."""

    def encode(self) -> bytes:
        """Version 2."""
        return encode_json(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> ControllerZnode:
        """Versions 1 and 2.

        raises  BadZnode
        """
        value = decode_json(data)
        timestamp_ms = int64(value.get("timestamp", 0))
        epoch = value.get("kraftControllerEpoch", -1)
        return cls(
            field(value, "brokerid", int), timestamp_ms, epoch if isinstance(epoch, int) else -1
        )


def encode_number(number: int) -> bytes:
    """/controller_epoch: decimal text."""
    return str(number).encode()


def decode_number(data: bytes | None) -> int:
    """Decimal text.

    raises  BadZnode
    """
    try:
        return parse_integer(data or b"", -INT32_MAX - 1, INT32_MAX)
    except UnreadableText as error:
        raise BadZnode(f"not a number: {shown(data)}") from error


def int64(value: object) -> int:
    """A number, or its decimal text.

    raises  BadZnode
    """
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return parse_integer(str(value), -INT64_MAX - 1, INT64_MAX)
    except UnreadableText:
        pass
    raise BadZnode(f"not a number: {shown(value)}")


def broker_ids(names: Sequence[str]) -> list[int]:
    """The ids among the names of the children of /brokers/ids, ascending."""
    ids: list[int] = []
    for name in names:
        with contextlib.suppress(UnreadableText):
            ids.append(parse_integer(name, 0, INT32_MAX))
    return sorted(ids)


class TopicAssignmentZnode(NamedTuple):
    """/brokers/topics/T: the assigned replicas of each partition."""

    topic_id: uuid.UUID | None
    """None in versions 1 and 2, which Kafka before 2.8 wrote."""
    partitions: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]

    def encode(self) -> bytes:
        """Version 3, or 2 without a topic id."""
        value: dict[str, Any] = {"partitions": _by_partition(self.partitions)}
        if self.topic_id is not None:
            value["topic_id"] = encode_topic_id(self.topic_id)
        value["adding_replicas"] = _by_partition(self.adding)
        value["removing_replicas"] = _by_partition(self.removing)
        value["version"] = 2 if self.topic_id is None else 3
        return encode_json(value)

    @classmethod
    def decode(cls, data: bytes | None) -> TopicAssignmentZnode:
        """Versions 1 to 3.

        raises  BadZnode
        """
        value = decode_json(data)
        topic_id = value.get("topic_id")
        return cls(
            decode_topic_id(topic_id) if isinstance(topic_id, str) else None,
            _partition_map(field(value, "partitions", dict)),
            _partition_map(value.get("adding_replicas") or {}),
            _partition_map(value.get("removing_replicas") or {}),
        )


def _by_partition(brokers: Mapping[int, Sequence[int]]) -> dict[str, Sequence[int]]:
    return {str(partition): brokers[partition] for partition in sorted(brokers)}


def _partition_map(value: object) -> dict[int, tuple[int, ...]]:
    if not isinstance(value, dict):
        raise BadZnode(f"not a map of partitions: {shown(value)}")
    try:
        return {parse_integer(key, 0, INT32_MAX): broker_list(value[key]) for key in value}
    except UnreadableText as error:
        raise BadZnode(f"not a map of partitions: {shown(value)}") from error


class PartitionStateZnode(NamedTuple):
    """/brokers/topics/T/partitions/N/state; its data version is the partition epoch."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = 0

    def encode(self) -> bytes:
        """Version 1."""
        value: dict[str, Any] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
        }
        if self.leader_recovery_state:
            value["leader_recovery_state"] = self.leader_recovery_state
        value["leader_epoch"] = self.leader_epoch
        value["isr"] = list(self.isr)
        return encode_json(value)

    @classmethod
    def decode(cls, data: bytes | None) -> PartitionStateZnode:
        """Version 1.

        raises  BadZnode
        """
        value = decode_json(data)
        return cls(
            field(value, "controller_epoch", int),
            field(value, "leader", int),
            field(value, "leader_epoch", int),
            broker_list(value.get("isr")),
            field({"leader_recovery_state": 0, **value}, "leader_recovery_state", int),
        )


def encode_cluster_id(cluster_id: str) -> bytes:
    """/cluster/id; the version is a string."""
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    """The id.

    raises  BadZnode
    """
    return str(field(decode_json(data), "id", str))


class ProducerIdBlockZnode(NamedTuple):
    """/latest_producer_id_block: the last allocated block, `start` and `end` included."""

    broker_id: int
    start: int
    end: int

    def encode(self) -> bytes:
        """Version 1; `block_start` and `block_end` are strings."""
        return encode_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.start),
                "block_end": str(self.end),
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> ProducerIdBlockZnode:
        """Version 1.

        raises  BadZnode
        """
        value = decode_json(data)
        return cls(
            field(value, "broker", int),
            int64(value.get("block_start")),
            int64(value.get("block_end")),
        )


def encode_feature(features: Mapping[str, int], status: int) -> bytes:
    """/feature, version 2: finalized feature levels."""
    levels = {name: {"max_version_level": features[name]} for name in sorted(features)}
    return encode_json({"features": levels, "version": 2, "status": status})


def decode_feature(data: bytes | None) -> tuple[dict[str, int], int]:
    """(feature -> level, status) of versions 1 and 2.

    raises  BadZnode
    """
    value = decode_json(data)
    levels = field(value, "features", dict)
    return (
        {name: field(levels[name], "max_version_level", int) for name in levels},
        field(value, "status", int),
    )
