"""Which APIs are served, in which versions, and by which module.

A module of broker/handlers is imported at the first request for it: a node is ready before it has
read code that it may never need.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.broker.security.acl.permission import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    CREATE_USER_TOKENS,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    DESCRIBE_TRANSACTIONAL_ID,
    DESCRIBE_USER_TOKENS,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Permission,
)

WHOLE_ELEMENTS_MAX: Final = 20_000
"""Elements of all arrays of a request that is decided or written as a whole: 2 to 4 us each."""


class Api(NamedTuple):
    """A row: `module` is the file in broker/handlers."""

    key: int
    min_version: int
    max_version: int
    module: str
    authorizes: tuple[Permission, ...]
    """What it asks the authorizer for, one or the other of it depending on the request."""
    is_staged: bool = False
    """Its handler stages appends, which are written at the end of the turn."""
    is_control: bool = False
    """It may name every partition of the cluster."""
    advertised_min_version: int | None = None
    """What ApiVersions says instead of `min_version`."""
    is_whole: bool = False
    """All that it names goes into one decision or write, so it may name `WHOLE_ELEMENTS_MAX`."""
    needs_quorum: bool = False
    """Served with process.roles only."""
    takes: tuple[str, ...] = ()
    """Fields of `HandlerParts` that its handler gets as keyword arguments."""
    has_slices: bool = False
    """Its responses may hold slices of files; its module has a function `release` for them."""

    @property
    def is_followed(self) -> bool:
        """Whether the next requests of its connection wait until one that is parked has its
        response, as all do in Kafka: they find the topic that it creates."""
        return self.key in ADMINISTRATIVE


HANDLERS: Final = (
    # librdkafka up to 2.x compresses only if version 0 of Produce is listed (KAFKA-18659).
    Api(
        0,
        3,
        13,
        "produce",
        (WRITE_TOPIC, WRITE_TRANSACTIONAL_ID),
        is_staged=True,
        is_whole=True,
        advertised_min_version=0,
    ),
    Api(1, 4, 18, "fetch", (READ_TOPIC, CLUSTER_ACTION), has_slices=True),
    Api(2, 0, 10, "list_offsets", (DESCRIBE_TOPIC,), takes=("time_lookups",)),
    Api(3, 0, 13, "metadata", (DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER, DESCRIBE_CLUSTER)),
    Api(4, 0, 7, "leader_and_isr", (CLUSTER_ACTION,), is_control=True),
    Api(5, 0, 4, "stop_replica", (CLUSTER_ACTION,), is_control=True),
    Api(6, 0, 8, "update_metadata", (CLUSTER_ACTION,), is_control=True),
    Api(7, 0, 3, "controlled_shutdown", (CLUSTER_ACTION,)),
    Api(8, 2, 9, "offset_commit", (READ_GROUP, READ_TOPIC)),
    Api(9, 1, 9, "offset_fetch", (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Api(10, 0, 6, "find_coordinator", (DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, CLUSTER_ACTION)),
    Api(11, 0, 9, "join_group", (READ_GROUP,), is_whole=True),
    Api(12, 0, 4, "heartbeat", (READ_GROUP,)),
    Api(13, 0, 5, "leave_group", (READ_GROUP,), is_whole=True),
    Api(14, 0, 5, "sync_group", (READ_GROUP,), is_whole=True),
    Api(15, 0, 6, "describe_groups", (DESCRIBE_GROUP,)),
    Api(16, 0, 5, "list_groups", (DESCRIBE_GROUP, DESCRIBE_CLUSTER)),
    Api(17, 0, 1, "sasl_handshake", ()),
    Api(18, 0, 4, "api_versions", ()),
    Api(19, 2, 7, "create_topics", (CREATE_TOPIC, CREATE_CLUSTER, DESCRIBE_TOPIC_CONFIGS)),
    Api(20, 1, 6, "delete_topics", (DELETE_TOPIC, DESCRIBE_TOPIC)),
    Api(21, 0, 2, "delete_records", (DELETE_TOPIC,)),
    Api(
        22,
        0,
        5,
        "init_producer_id",
        (WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE, WRITE_TOPIC),
        takes=("producer_ids",),
    ),
    Api(23, 2, 4, "offset_for_leader_epoch", (DESCRIBE_TOPIC, CLUSTER_ACTION)),
    Api(24, 0, 5, "add_partitions_to_txn", (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION)),
    Api(25, 0, 4, "add_offsets_to_txn", (WRITE_TRANSACTIONAL_ID, READ_GROUP)),
    Api(26, 0, 5, "end_txn", (WRITE_TRANSACTIONAL_ID,)),
    Api(
        27,
        0,
        2,
        "write_txn_markers",
        (ALTER_CLUSTER, CLUSTER_ACTION),
        takes=("transaction_markers",),
    ),
    Api(28, 0, 5, "txn_offset_commit", (WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC)),
    Api(29, 0, 3, "describe_acls", (DESCRIBE_CLUSTER,)),
    Api(30, 0, 3, "create_acls", (ALTER_CLUSTER,)),
    Api(31, 0, 3, "delete_acls", (ALTER_CLUSTER,)),
    Api(32, 0, 4, "describe_configs", (DESCRIBE_TOPIC_CONFIGS, DESCRIBE_CLUSTER_CONFIGS)),
    Api(
        33,
        0,
        2,
        "alter_configs",
        (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS),
        takes=("check_stores", "rng"),
    ),
    Api(34, 1, 2, "alter_replica_log_dirs", (ALTER_CLUSTER,), takes=("log_directory_moves",)),
    Api(35, 1, 4, "describe_log_dirs", (DESCRIBE_CLUSTER,), takes=("files",)),
    Api(36, 0, 2, "sasl_authenticate", ()),
    Api(37, 0, 3, "create_partitions", (ALTER_TOPIC,)),
    Api(38, 0, 3, "create_delegation_token", (CREATE_USER_TOKENS,), takes=("delegation_tokens",)),
    Api(39, 0, 2, "renew_delegation_token", (), takes=("delegation_tokens",)),
    Api(40, 0, 2, "expire_delegation_token", (), takes=("delegation_tokens",)),
    Api(
        41,
        0,
        3,
        "describe_delegation_token",
        (DESCRIBE_DELEGATION_TOKEN, DESCRIBE_USER_TOKENS),
        takes=("delegation_tokens",),
    ),
    Api(42, 0, 2, "delete_groups", (DELETE_GROUP,)),
    Api(43, 0, 2, "elect_leaders", (ALTER_CLUSTER,), is_whole=True),
    Api(
        44,
        0,
        1,
        "incremental_alter_configs",
        (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS),
        takes=("check_stores", "rng"),
    ),
    Api(45, 0, 0, "alter_partition_reassignments", (ALTER_CLUSTER,), is_whole=True),
    Api(46, 0, 0, "list_partition_reassignments", (DESCRIBE_CLUSTER,), is_whole=True),
    Api(47, 0, 0, "offset_delete", (DELETE_GROUP, READ_TOPIC)),
    Api(48, 0, 1, "describe_client_quotas", (DESCRIBE_CLUSTER_CONFIGS,)),
    Api(49, 0, 1, "alter_client_quotas", (ALTER_CLUSTER_CONFIGS,)),
    Api(50, 0, 0, "describe_user_scram_credentials", (DESCRIBE_CLUSTER,), takes=("scram_users",)),
    Api(51, 0, 0, "alter_user_scram_credentials", (ALTER_CLUSTER,), takes=("scram_users",)),
    Api(55, 0, 2, "describe_quorum", (DESCRIBE_CLUSTER,), needs_quorum=True),
    Api(56, 0, 3, "alter_partition", (CLUSTER_ACTION,), is_control=True),
    Api(57, 0, 1, "update_features", (ALTER_CLUSTER,), is_whole=True),
    Api(60, 0, 2, "describe_cluster", (DESCRIBE_CLUSTER,)),
    Api(61, 0, 0, "describe_producers", (READ_TOPIC,)),
    Api(65, 0, 0, "describe_transactions", (DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC)),
    Api(66, 0, 2, "list_transactions", (DESCRIBE_TRANSACTIONAL_ID,)),
    Api(67, 0, 0, "allocate_producer_ids", (CLUSTER_ACTION,)),
    Api(68, 0, 1, "consumer_group_heartbeat", (READ_GROUP,), is_whole=True),
    Api(69, 0, 1, "consumer_group_describe", (DESCRIBE_GROUP,)),
    Api(75, 0, 0, "describe_topic_partitions", (DESCRIBE_TOPIC,)),
)

ADMINISTRATIVE: Final = frozenset(
    (8, 19, 20, 21, 30, 31, 33, 34, 37, 38, 39, 40, 42, 43, 44, 45, 47, 49, 51, 57)
)
"""The APIs whose requests are in the audit log (`broker/server/audit.py`)."""

FIRST_REQUESTS: Final = (
    (1, (17, 16)),
    (0, (11, 10)),
    (3, (13, 12)),
    (6, (8,)),
    (4, (7,)),
    (18, (4, 3)),
    (22, (5, 4)),
    (56, (3,)),
)
"""(API key, versions) of what every broker of a cluster is soon asked for: by brokers of 3.9, by
clients of Java of 3.9 and by librdkafka 2."""
