"""The requests of administrators, producers and brokers in the matrix of ACLs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.security.acl_client_rows import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    DELETE_GROUP,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_ID,
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    WRITE_ID,
    WRITE_TOPIC,
    A,
    K,
    R,
    Row,
    offsets,
)


def acl_filter(name: str) -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": name,
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


def configs(resource_type: int, name: str | None, key: str, value: str | None = None) -> Any:
    """A description, or a validated change, of one setting of a broker or of the row's topic."""

    def fields(row: str, topic_id: Any) -> Mapping[str, Any]:
        resource: dict[str, Any] = {
            "resource_type": resource_type,
            "resource_name": row if name is None else name,
        }
        if value is None:
            return {"resources": [resource | {"configuration_keys": [key]}]}
        change = {"name": key, "value": value}
        return {"resources": [resource | {"configs": [change]}], "validate_only": True}

    return fields


def new_topic(name: str) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1}


ADMIN_ROWS: Final = (
    Row(
        "create topics",
        K.CREATE_TOPICS,
        5,
        ((A.CREATE, R.TOPIC),),
        lambda name, _: {"topics": [new_topic(name)], "timeout_ms": 15_000},
        is_changed=True,
    ),
    Row(
        "create topics on the cluster",
        K.CREATE_TOPICS,
        7,
        ((A.CREATE, R.CLUSTER),),
        lambda name, _: {"topics": [new_topic(name)], "timeout_ms": 15_000, "validate_only": True},
    ),
    Row(
        "delete topics",
        K.DELETE_TOPICS,
        5,
        ((A.DELETE, R.TOPIC),),
        lambda name, _: {"topic_names": [name], "timeout_ms": 15_000},
        has_topic=True,
        is_changed=True,
    ),
    Row(
        "delete topics by id",
        K.DELETE_TOPICS,
        6,
        ((A.DELETE, R.TOPIC),),
        lambda _, topic_id: {
            "topics": [{"name": None, "topic_id": topic_id}],
            "timeout_ms": 15_000,
        },
        has_topic=True,
        is_changed=True,
    ),
    Row(
        "delete an absent topic",
        K.DELETE_TOPICS,
        5,
        ((A.DELETE, R.TOPIC),),
        lambda name, _: {"topic_names": [name], "timeout_ms": 15_000},
    ),
    Row(
        "delete records",
        K.DELETE_RECORDS,
        2,
        ((A.DELETE, R.TOPIC),),
        lambda name, _: {
            "topics": [{"name": name, "partitions": [{"offset": 0}]}],
            "timeout_ms": 5_000,
        },
        has_topic=True,
    ),
    Row(
        "init producer id",
        K.INIT_PRODUCER_ID,
        4,
        (WRITE_TOPIC,),
        lambda *_: {"transaction_timeout_ms": 1_000, "producer_id": -1, "producer_epoch": -1},
    ),
    Row(
        "init producer id on the cluster",
        K.INIT_PRODUCER_ID,
        4,
        ((A.IDEMPOTENT_WRITE, R.CLUSTER),),
        lambda *_: {"transaction_timeout_ms": 1_000, "producer_id": -1, "producer_epoch": -1},
    ),
    Row(
        "init producer id with a transactional id",
        K.INIT_PRODUCER_ID,
        4,
        (WRITE_ID,),
        lambda name, _: {
            "transactional_id": name,
            "transaction_timeout_ms": 1_000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    ),
    Row(
        "offset for leader epoch",
        K.OFFSET_FOR_LEADER_EPOCH,
        4,
        (DESCRIBE_TOPIC,),
        lambda name, _: {
            "replica_id": -1,
            "topics": [
                {"topic": name, "partitions": [{"current_leader_epoch": -1, "leader_epoch": 0}]}
            ],
        },
        has_topic=True,
    ),
    Row(
        "add partitions to txn",
        K.ADD_PARTITIONS_TO_TXN,
        3,
        (WRITE_ID, WRITE_TOPIC),
        lambda name, _: {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": 99,
            "v3_and_below_topics": [{"name": name, "partitions": [0]}],
        },
        has_topic=True,
    ),
    Row(
        "add partitions to txn of an absent topic",
        K.ADD_PARTITIONS_TO_TXN,
        3,
        (WRITE_ID,),
        lambda name, _: {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": 99,
            "v3_and_below_topics": [{"name": name, "partitions": [0]}],
        },
    ),
    Row(
        "add partitions to txn of a broker",
        K.ADD_PARTITIONS_TO_TXN,
        4,
        (CLUSTER_ACTION,),
        lambda name, _: {
            "transactions": [
                {
                    "transactional_id": name,
                    "producer_id": 99,
                    "verify_only": True,
                    "topics": [{"name": name, "partitions": [0]}],
                }
            ]
        },
        has_topic=True,
    ),
    Row(
        "add offsets to txn",
        K.ADD_OFFSETS_TO_TXN,
        3,
        (WRITE_ID, READ_GROUP),
        lambda name, _: {"transactional_id": name, "producer_id": 99, "group_id": name},
    ),
    Row(
        "add offsets to txn of a group",
        K.ADD_OFFSETS_TO_TXN,
        3,
        (WRITE_ID,),
        lambda name, _: {"transactional_id": name, "producer_id": 99, "group_id": name},
    ),
    Row(
        "end txn",
        K.END_TXN,
        3,
        (WRITE_ID,),
        lambda name, _: {"transactional_id": name, "producer_id": 99},
    ),
    *(
        Row(
            f"write txn markers with {need[0].name.lower()}",
            K.WRITE_TXN_MARKERS,
            1,
            (need,),
            lambda name, _: {
                "markers": [
                    {"producer_id": 99, "topics": [{"name": name, "partition_indexes": [0]}]}
                ]
            },
        )
        for need in (CLUSTER_ACTION, ALTER_CLUSTER)
    ),
    *(
        Row(
            f"txn offset commit {number}",
            K.TXN_OFFSET_COMMIT,
            3,
            needs,
            lambda name, _: {
                "transactional_id": name,
                "group_id": name,
                "producer_id": 99,
                "generation_id": -1,
                "topics": offsets(name),
            },
        )
        for number, needs in enumerate(
            ((WRITE_ID, READ_GROUP, READ_TOPIC), (WRITE_ID, READ_GROUP), (WRITE_ID,))
        )
    ),
    Row(
        "describe acls",
        K.DESCRIBE_ACLS,
        3,
        (DESCRIBE_CLUSTER,),
        lambda *_: acl_filter("no-such-name"),
    ),
    Row(
        "create acls",
        K.CREATE_ACLS,
        3,
        (ALTER_CLUSTER,),
        lambda *_: {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "created",
                    "resource_pattern_type": 3,
                    "principal": "User:created",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    ),
    Row(
        "delete acls",
        K.DELETE_ACLS,
        3,
        (ALTER_CLUSTER,),
        lambda *_: {"filters": [acl_filter("no-such-name")]},
    ),
    Row(
        "describe configs",
        K.DESCRIBE_CONFIGS,
        4,
        ((A.DESCRIBE_CONFIGS, R.TOPIC),),
        configs(2, None, "retention.ms"),
        has_topic=True,
    ),
    Row(
        "describe configs of an absent topic",
        K.DESCRIBE_CONFIGS,
        4,
        ((A.ALTER_CONFIGS, R.TOPIC),),
        configs(2, None, "retention.ms"),
    ),
    Row(
        "describe configs of a broker",
        K.DESCRIBE_CONFIGS,
        4,
        ((A.DESCRIBE_CONFIGS, R.CLUSTER),),
        configs(4, "0", "num.partitions"),
    ),
    *(
        Row(
            f"{name}{label}",
            key,
            1,
            ((A.ALTER_CONFIGS, kind),),
            configs(resource_type, resource, setting, value),
            has_topic=kind is R.TOPIC,
        )
        for name, key in (
            ("alter configs", K.ALTER_CONFIGS),
            ("incremental alter configs", K.INCREMENTAL_ALTER_CONFIGS),
        )
        for label, kind, resource_type, resource, setting, value in (
            ("", R.TOPIC, 2, None, "retention.ms", "1000"),
            (" of a broker", R.CLUSTER, 4, "0", "log.cleaner.threads", "1"),
            (" of a broker that cannot be", R.CLUSTER, 4, "0", "num.partitions", "1"),
        )
    ),
    Row(
        "incremental alter configs of a logger",
        K.INCREMENTAL_ALTER_CONFIGS,
        1,
        ((A.ALTER_CONFIGS, R.CLUSTER),),
        configs(8, "0", "kafka.server.KafkaServer", "INFO"),
    ),
    Row(
        "alter replica log dirs",
        K.ALTER_REPLICA_LOG_DIRS,
        2,
        (ALTER_CLUSTER,),
        lambda name, _: {
            "dirs": [{"path": "/no/such", "topics": [{"name": name, "partitions": [0]}]}]
        },
    ),
    Row(
        "describe log dirs",
        K.DESCRIBE_LOG_DIRS,
        4,
        (DESCRIBE_CLUSTER,),
        lambda name, _: {"topics": [{"topic": name, "partitions": [0]}]},
    ),
    Row(
        "create partitions",
        K.CREATE_PARTITIONS,
        3,
        ((A.ALTER, R.TOPIC),),
        lambda name, _: {
            "topics": [{"name": name, "count": 2, "assignments": None}],
            "timeout_ms": 15_000,
            "validate_only": True,
        },
        has_topic=True,
    ),
    Row(
        "create delegation token",
        K.CREATE_DELEGATION_TOKEN,
        3,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"max_lifetime_ms": -1},
    ),
    Row(
        "renew delegation token",
        K.RENEW_DELEGATION_TOKEN,
        2,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"hmac": b"x"},
    ),
    Row(
        "expire delegation token",
        K.EXPIRE_DELEGATION_TOKEN,
        2,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"hmac": b"x"},
    ),
    Row(
        "describe delegation token",
        K.DESCRIBE_DELEGATION_TOKEN,
        3,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"owners": None},
    ),
    Row(
        "delete groups",
        K.DELETE_GROUPS,
        2,
        (DELETE_GROUP,),
        lambda name, _: {"groups_names": [name]},
    ),
    Row(
        "elect leaders",
        K.ELECT_LEADERS,
        2,
        (ALTER_CLUSTER,),
        lambda name, _: {
            "topic_partitions": [{"topic": name, "partitions": [0]}],
            "timeout_ms": 5_000,
        },
        has_topic=True,
    ),
    Row(
        "alter partition reassignments",
        K.ALTER_PARTITION_REASSIGNMENTS,
        0,
        (ALTER_CLUSTER,),
        lambda name, _: {
            "timeout_ms": 5_000,
            "topics": [{"name": name, "partitions": [{"replicas": None}]}],
        },
        has_topic=True,
    ),
    Row(
        "list partition reassignments",
        K.LIST_PARTITION_REASSIGNMENTS,
        0,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"timeout_ms": 5_000, "topics": None},
    ),
    *(
        Row(
            f"offset delete {number}",
            K.OFFSET_DELETE,
            0,
            needs,
            lambda name, _: {
                "group_id": name,
                "topics": [{"name": name, "partitions": [{"partition_index": 0}]}],
            },
            has_topic=True,
            of="offset commit" if number else None,
        )
        for number, needs in enumerate(
            ((DELETE_GROUP, READ_TOPIC), (DELETE_GROUP,), (DELETE_GROUP, READ_TOPIC))
        )
    ),
    Row(
        "describe client quotas",
        K.DESCRIBE_CLIENT_QUOTAS,
        1,
        ((A.DESCRIBE_CONFIGS, R.CLUSTER),),
        lambda *_: {"components": [{"entity_type": "user", "match_type": 2}]},
    ),
    Row(
        "alter client quotas",
        K.ALTER_CLIENT_QUOTAS,
        1,
        ((A.ALTER_CONFIGS, R.CLUSTER),),
        lambda *_: {
            "entries": [{"entity": [{"entity_type": "planet", "entity_name": "x"}], "ops": []}],
            "validate_only": True,
        },
    ),
    Row(
        "describe user scram credentials",
        K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"users": [{"name": "absent-user"}]},
    ),
    Row(
        "alter user scram credentials",
        K.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        (ALTER_CLUSTER,),
        lambda *_: {"deletions": [{"name": "absent-user", "mechanism": 1}]},
    ),
    Row(
        "alter partition",
        K.ALTER_PARTITION,
        3,
        (CLUSTER_ACTION,),
        lambda *_: {"broker_id": 99, "broker_epoch": 5},
    ),
    Row(
        "update features",
        K.UPDATE_FEATURES,
        1,
        (ALTER_CLUSTER,),
        lambda *_: {
            "timeout_ms": 5_000,
            "feature_updates": [
                {"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1}
            ],
        },
    ),
    Row(
        "describe cluster",
        K.DESCRIBE_CLUSTER,
        1,
        (DESCRIBE_CLUSTER,),
        lambda *_: {"include_cluster_authorized_operations": True, "endpoint_type": 1},
    ),
    *(
        Row(
            f"describe producers{label}",
            K.DESCRIBE_PRODUCERS,
            0,
            (READ_TOPIC,),
            lambda name, _: {"topics": [{"name": name, "partition_indexes": [0]}]},
            has_topic=not label,
        )
        for label in ("", " of an absent topic")
    ),
    Row(
        "describe transactions",
        K.DESCRIBE_TRANSACTIONS,
        0,
        (DESCRIBE_ID,),
        lambda name, _: {"transactional_ids": [name]},
    ),
    Row(
        "list transactions",
        K.LIST_TRANSACTIONS,
        0,
        (DESCRIBE_ID,),
        lambda *_: {},
        of="init producer id with a transactional id",
    ),
    Row(
        "allocate producer ids",
        K.ALLOCATE_PRODUCER_IDS,
        0,
        (CLUSTER_ACTION,),
        lambda *_: {"broker_id": 99, "broker_epoch": 5},
    ),
    Row(
        "consumer group heartbeat",
        K.CONSUMER_GROUP_HEARTBEAT,
        0,
        (READ_GROUP,),
        lambda name, _: {"group_id": name, "subscribed_topic_names": [name]},
    ),
    Row(
        "consumer group describe",
        K.CONSUMER_GROUP_DESCRIBE,
        0,
        (DESCRIBE_GROUP,),
        lambda name, _: {"group_ids": [name], "include_authorized_operations": True},
    ),
)
