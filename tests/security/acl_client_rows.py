"""The requests of clients in the matrix of ACLs, and what a row of it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from odradek.protocol.acl import AclOperation, ResourceType
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.schema import ZERO_UUID
from tests.support.record_batches import plain_batch

Fields = Callable[[str, Any], Mapping[str, Any]]
"""(a row's name, the id of its topic) -> fields of the request; others are 0 or empty."""

Need = tuple[AclOperation, ResourceType]
"""What a request needs; a topic, group or transactional id of the row's own name."""

A, R = AclOperation, ResourceType
WRITE_TOPIC, READ_TOPIC, DESCRIBE_TOPIC = (
    (operation, R.TOPIC) for operation in (A.WRITE, A.READ, A.DESCRIBE)
)
READ_GROUP, DESCRIBE_GROUP, DELETE_GROUP = (
    (operation, R.GROUP) for operation in (A.READ, A.DESCRIBE, A.DELETE)
)
WRITE_ID, DESCRIBE_ID = ((operation, R.TRANSACTIONAL_ID) for operation in (A.WRITE, A.DESCRIBE))
CLUSTER_ACTION = (A.CLUSTER_ACTION, R.CLUSTER)
DESCRIBE_CLUSTER = (A.DESCRIBE, R.CLUSTER)
ALTER_CLUSTER = (A.ALTER, R.CLUSTER)


class Row(NamedTuple):
    """A request, and what it needs."""

    name: str
    api: ApiKey
    version: int
    needs: tuple[Need, ...]
    fields: Fields
    has_topic: bool = False
    is_changed: bool = False
    """Every cell has names of its own, since the request changes or removes what it names."""
    of: str | None = None
    """The row whose names it uses."""


def produce(transactional: bool) -> Fields:
    def fields(name: str, topic_id: Any) -> Mapping[str, Any]:
        data = {"index": 0, "records": memoryview(bytes(plain_batch()))}
        return {
            "transactional_id": name if transactional else None,
            "acks": 1,
            "timeout_ms": 5000,
            "topic_data": [{"name": name, "partition_data": [data]}],
        }

    return fields


def fetch(replica_id: int, by_id: bool) -> Fields:
    def fields(name: str, topic_id: Any) -> Mapping[str, Any]:
        partition = {"partition": 0, "current_leader_epoch": -1, "partition_max_bytes": 1000}
        return {
            "replica_id": replica_id,
            "min_bytes": 0,
            "max_bytes": 1000,
            "session_epoch": -1,
            "topics": [
                {"topic": "" if by_id else name, "topic_id": topic_id, "partitions": [partition]}
            ],
        }

    return fields


def offsets(name: str) -> list[Mapping[str, Any]]:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    return [{"name": name, "partitions": [partition]}]


def offset_fetch(version: int, is_all: bool) -> Fields:
    def fields(name: str, topic_id: Any) -> Mapping[str, Any]:
        named = None if is_all else [{"name": name, "partition_indexes": [0]}]
        groups = [{"group_id": name, "topics": named}] if version >= 8 else []
        return {"group_id": name, "topics": named, "groups": groups}

    return fields


def find_coordinator(version: int, key_type: int) -> Fields:
    def fields(name: str, topic_id: Any) -> Mapping[str, Any]:
        keys = [name] if version >= 4 else []
        return {"key": name, "key_type": key_type, "coordinator_keys": keys}

    return fields


def metadata(**more: Any) -> Fields:
    def fields(name: str, topic_id: Any) -> Mapping[str, Any]:
        by_id = more.get("by_id")
        named = [{"name": None if by_id else name, "topic_id": topic_id if by_id else ZERO_UUID}]
        return {
            "topics": None if more.get("all") else named,
            "allow_auto_topic_creation": bool(more.get("create")),
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": bool(more.get("cluster")),
        }

    return fields


K = ApiKey
CLIENT_ROWS: Final = (
    Row("produce", K.PRODUCE, 9, (WRITE_TOPIC,), produce(False), has_topic=True),
    Row("fetch", K.FETCH, 12, (READ_TOPIC,), fetch(-1, False), has_topic=True),
    Row("fetch by id", K.FETCH, 13, (READ_TOPIC,), fetch(-1, True), has_topic=True),
    Row("fetch of an absent topic", K.FETCH, 12, (READ_TOPIC,), fetch(-1, False)),
    Row("fetch of a follower", K.FETCH, 12, (CLUSTER_ACTION,), fetch(7, False), has_topic=True),
    *(
        Row(
            f"list offsets {version}",
            K.LIST_OFFSETS,
            version,
            (DESCRIBE_TOPIC,),
            lambda name, _: {
                "replica_id": -1,
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {"timestamp_ms": -2, "max_num_offsets": 1, "current_leader_epoch": -1}
                        ],
                    }
                ],
            },
            has_topic=True,
        )
        for version in (0, 7)
    ),
    Row("metadata", K.METADATA, 9, (DESCRIBE_TOPIC,), metadata(), has_topic=True),
    Row("metadata of an absent topic", K.METADATA, 9, (DESCRIBE_TOPIC,), metadata()),
    Row("metadata of all", K.METADATA, 9, (DESCRIBE_TOPIC,), metadata(all=True), has_topic=True),
    Row("metadata by id", K.METADATA, 12, (DESCRIBE_TOPIC,), metadata(by_id=True), has_topic=True),
    Row("metadata with the cluster", K.METADATA, 9, (DESCRIBE_CLUSTER,), metadata(cluster=True)),
    Row(
        "metadata that creates",
        K.METADATA,
        9,
        (DESCRIBE_TOPIC, (A.CREATE, R.TOPIC)),
        metadata(create=True),
        is_changed=True,
    ),
    Row(
        "leader and isr",
        K.LEADER_AND_ISR,
        4,
        (CLUSTER_ACTION,),
        lambda *_: {"controller_id": 9, "broker_epoch": -1},
    ),
    Row(
        "stop replica",
        K.STOP_REPLICA,
        3,
        (CLUSTER_ACTION,),
        lambda *_: {"controller_id": 9, "broker_epoch": -1},
    ),
    Row(
        "update metadata",
        K.UPDATE_METADATA,
        6,
        (CLUSTER_ACTION,),
        lambda *_: {"controller_id": 9, "broker_epoch": -1},
    ),
    Row(
        "controlled shutdown",
        K.CONTROLLED_SHUTDOWN,
        3,
        (CLUSTER_ACTION,),
        lambda *_: {"broker_id": 99, "broker_epoch": -1},
    ),
    Row(
        "offset commit",
        K.OFFSET_COMMIT,
        8,
        (READ_GROUP, READ_TOPIC),
        lambda name, _: {
            "group_id": name,
            "generation_id_or_member_epoch": -1,
            "topics": offsets(name),
        },
        has_topic=True,
    ),
    Row(
        "offset commit of a topic",
        K.OFFSET_COMMIT,
        8,
        (READ_GROUP,),
        lambda name, _: {
            "group_id": name,
            "generation_id_or_member_epoch": -1,
            "topics": offsets(name),
        },
        has_topic=True,
    ),
    *(
        Row(
            f"offset fetch {version}{' of all' if is_all else ''}",
            K.OFFSET_FETCH,
            version,
            (DESCRIBE_GROUP, DESCRIBE_TOPIC) if has_both else (DESCRIBE_GROUP,),
            offset_fetch(version, is_all),
            has_topic=True,
            of="offset commit" if is_all else None,
        )
        for version, is_all, has_both in (
            (1, False, True),
            (7, False, False),
            (8, False, True),
            (8, True, True),
        )
    ),
    *(
        Row(
            f"find coordinator {version} of {kind}",
            K.FIND_COORDINATOR,
            version,
            ((A.DESCRIBE, R.TRANSACTIONAL_ID if kind else R.GROUP),),
            find_coordinator(version, kind),
        )
        for version, kind in ((3, 0), (3, 1), (4, 0), (4, 1))
    ),
    Row(
        "join group",
        K.JOIN_GROUP,
        5,
        (READ_GROUP,),
        lambda name, _: {
            "group_id": name,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    ),
    Row(
        "heartbeat",
        K.HEARTBEAT,
        4,
        (READ_GROUP,),
        lambda name, _: {"group_id": name, "member_id": "m"},
    ),
    Row(
        "leave group",
        K.LEAVE_GROUP,
        4,
        (READ_GROUP,),
        lambda name, _: {"group_id": name, "members": [{"member_id": "m"}]},
    ),
    Row(
        "sync group",
        K.SYNC_GROUP,
        5,
        (READ_GROUP,),
        lambda name, _: {
            "group_id": name,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
    ),
    Row(
        "describe groups",
        K.DESCRIBE_GROUPS,
        5,
        (DESCRIBE_GROUP,),
        lambda name, _: {"groups": [name], "include_authorized_operations": True},
        of="offset commit",
    ),
    Row("list groups", K.LIST_GROUPS, 4, (DESCRIBE_GROUP,), lambda *_: {}, of="offset commit"),
    Row("list groups of the cluster", K.LIST_GROUPS, 4, (DESCRIBE_CLUSTER,), lambda *_: {}),
    Row(
        "sasl handshake",
        K.SASL_HANDSHAKE,
        1,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"mechanism": "PLAIN"},
    ),
    Row(
        "sasl authenticate",
        K.SASL_AUTHENTICATE,
        2,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"auth_bytes": b"x"},
    ),
)
