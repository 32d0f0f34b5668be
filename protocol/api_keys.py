"""The API keys of Apache Kafka, and where their messages are declared.

Importing all declarations takes longer than the broker has to start, so `messages_of` imports one
module at its first call for a key.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any, Final


class ApiKey(IntEnum):
    """The number that begins every request.

    The name in lower case is the module under `protocol/messages`, and in camel case the beginning
    of the two class names.
    """

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92

    @property
    def camel_name(self) -> str:
        """The name as Kafka writes it: Produce, ListOffsets."""
        return self.name.title().replace("_", "")


def api_named(name: str) -> ApiKey | None:
    """The API of a name in any case, with or without underscores; None when there is none."""
    plain = name.replace("_", "").upper()
    return next((api for api in ApiKey if api.name.replace("_", "") == plain), None)


UNDECLARED: Final = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
    }
)
"""KRaft clusters and streams groups: no broker in ZooKeeper mode serves them.  Their names and
header versions are known, so that a request can be named in a log; their messages are not."""

NEVER_FLEXIBLE: Final = 32767

FIRST_FLEXIBLE_VERSION: Final[tuple[int, ...]] = (
    9,  # PRODUCE
    12,  # FETCH
    6,  # LIST_OFFSETS
    9,  # METADATA
    4,  # LEADER_AND_ISR
    2,  # STOP_REPLICA
    6,  # UPDATE_METADATA
    3,  # CONTROLLED_SHUTDOWN
    8,  # OFFSET_COMMIT
    6,  # OFFSET_FETCH
    3,  # FIND_COORDINATOR
    6,  # JOIN_GROUP
    4,  # HEARTBEAT
    4,  # LEAVE_GROUP
    4,  # SYNC_GROUP
    5,  # DESCRIBE_GROUPS
    3,  # LIST_GROUPS
    NEVER_FLEXIBLE,  # SASL_HANDSHAKE
    3,  # API_VERSIONS
    5,  # CREATE_TOPICS
    4,  # DELETE_TOPICS
    2,  # DELETE_RECORDS
    2,  # INIT_PRODUCER_ID
    4,  # OFFSET_FOR_LEADER_EPOCH
    3,  # ADD_PARTITIONS_TO_TXN
    3,  # ADD_OFFSETS_TO_TXN
    3,  # END_TXN
    1,  # WRITE_TXN_MARKERS
    3,  # TXN_OFFSET_COMMIT
    2,  # DESCRIBE_ACLS
    2,  # CREATE_ACLS
    2,  # DELETE_ACLS
    4,  # DESCRIBE_CONFIGS
    2,  # ALTER_CONFIGS
    2,  # ALTER_REPLICA_LOG_DIRS
    2,  # DESCRIBE_LOG_DIRS
    2,  # SASL_AUTHENTICATE
    2,  # CREATE_PARTITIONS
    2,  # CREATE_DELEGATION_TOKEN
    2,  # RENEW_DELEGATION_TOKEN
    2,  # EXPIRE_DELEGATION_TOKEN
    2,  # DESCRIBE_DELEGATION_TOKEN
    2,  # DELETE_GROUPS
    2,  # ELECT_LEADERS
    1,  # INCREMENTAL_ALTER_CONFIGS
    0,  # ALTER_PARTITION_REASSIGNMENTS
    0,  # LIST_PARTITION_REASSIGNMENTS
    NEVER_FLEXIBLE,  # OFFSET_DELETE
    1,  # DESCRIBE_CLIENT_QUOTAS
    1,  # ALTER_CLIENT_QUOTAS
    0,  # DESCRIBE_USER_SCRAM_CREDENTIALS
    0,  # ALTER_USER_SCRAM_CREDENTIALS
    0,  # VOTE
    1,  # BEGIN_QUORUM_EPOCH
    1,  # END_QUORUM_EPOCH
    0,  # DESCRIBE_QUORUM
    0,  # ALTER_PARTITION
    0,  # UPDATE_FEATURES
    0,  # ENVELOPE
    0,  # FETCH_SNAPSHOT
    0,  # DESCRIBE_CLUSTER
    0,  # DESCRIBE_PRODUCERS
    0,  # BROKER_REGISTRATION
    0,  # BROKER_HEARTBEAT
    0,  # UNREGISTER_BROKER
    0,  # DESCRIBE_TRANSACTIONS
    0,  # LIST_TRANSACTIONS
    0,  # ALLOCATE_PRODUCER_IDS
    0,  # CONSUMER_GROUP_HEARTBEAT
    0,  # CONSUMER_GROUP_DESCRIBE
    0,  # CONTROLLER_REGISTRATION
    0,  # GET_TELEMETRY_SUBSCRIPTIONS
    0,  # PUSH_TELEMETRY
    0,  # ASSIGN_REPLICAS_TO_DIRS
    0,  # LIST_CONFIG_RESOURCES
    0,  # DESCRIBE_TOPIC_PARTITIONS
    0,  # SHARE_GROUP_HEARTBEAT
    0,  # SHARE_GROUP_DESCRIBE
    0,  # SHARE_FETCH
    0,  # SHARE_ACKNOWLEDGE
    0,  # ADD_RAFT_VOTER
    0,  # REMOVE_RAFT_VOTER
    0,  # UPDATE_RAFT_VOTER
    0,  # INITIALIZE_SHARE_GROUP_STATE
    0,  # READ_SHARE_GROUP_STATE
    0,  # WRITE_SHARE_GROUP_STATE
    0,  # DELETE_SHARE_GROUP_STATE
    0,  # READ_SHARE_GROUP_STATE_SUMMARY
    0,  # STREAMS_GROUP_HEARTBEAT
    0,  # STREAMS_GROUP_DESCRIBE
    0,  # DESCRIBE_SHARE_GROUP_OFFSETS
    0,  # ALTER_SHARE_GROUP_OFFSETS
    0,  # DELETE_SHARE_GROUP_OFFSETS
)
"""By api key, known without the declarations because the header of a request depends on it."""


def is_flexible(api_key: int, version: int) -> bool:
    """Whether a version has compact lengths and tagged fields; False for an unknown key."""
    if not 0 <= api_key < len(FIRST_FLEXIBLE_VERSION):
        return False
    return version >= FIRST_FLEXIBLE_VERSION[api_key]


@cache
def messages_of(api_key: int) -> tuple[type[Any], type[Any]]:
    """The request class and the response class.

    raises  ValueError for an unknown key and for one of `UNDECLARED`
    """
    key = ApiKey(api_key)
    if key in UNDECLARED:
        raise ValueError(f"the messages of {key.name} are not declared")
    name = key.name
    module = import_module(f"odradek.protocol.messages.{name.lower()}")
    camel = key.camel_name
    return getattr(module, f"{camel}Request"), getattr(module, f"{camel}Response")
