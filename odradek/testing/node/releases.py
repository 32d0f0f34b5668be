"""Which versions releases of Apache Kafka serve: a broker of tests may pass for one of them.

`odradek.api.versions=2.8` lets ApiVersions report the ranges of Kafka 2.8, as far as Odradek serves
them, and closes the connection for any other version, as that release does.  Without the setting
everything is served.

Source: the ApiVersions responses of 2.8.2 and 3.9.2 in ZooKeeper mode and of 4.3.0 in KRaft mode,
recorded by tests/scripts/release_versions.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from odradek.broker.settings.types import InvalidValueError

SETTING: Final = "odradek.api.versions"
RELEASES: Final = ("2.8", "3.9", "4.3")
FINALIZED: Final[Mapping[str, Mapping[str, int]]] = {"4.3": {"transaction.version": 2}}
"""Features of a new cluster, of those that Odradek supports; other releases report none."""
Range = tuple[int, int]
VERSIONS: Final[tuple[tuple[int, tuple[Range | None, ...]], ...]] = (
    # API key; lowest and highest version of each of RELEASES, None if it does not serve the API.
    (0, ((0, 9), (0, 11), (0, 13))),  # PRODUCE
    (1, ((0, 12), (0, 17), (4, 18))),  # FETCH
    (2, ((0, 6), (0, 9), (1, 11))),  # LIST_OFFSETS
    (3, ((0, 11), (0, 12), (0, 13))),  # METADATA
    (4, ((0, 5), (0, 7), None)),  # LEADER_AND_ISR
    (5, ((0, 3), (0, 4), None)),  # STOP_REPLICA
    (6, ((0, 7), (0, 8), None)),  # UPDATE_METADATA
    (7, ((0, 3), (0, 3), None)),  # CONTROLLED_SHUTDOWN
    (8, ((0, 8), (0, 9), (2, 10))),  # OFFSET_COMMIT
    (9, ((0, 7), (0, 9), (1, 10))),  # OFFSET_FETCH
    (10, ((0, 3), (0, 6), (0, 6))),  # FIND_COORDINATOR
    (11, ((0, 7), (0, 9), (0, 9))),  # JOIN_GROUP
    (12, ((0, 4), (0, 4), (0, 4))),  # HEARTBEAT
    (13, ((0, 4), (0, 5), (0, 5))),  # LEAVE_GROUP
    (14, ((0, 5), (0, 5), (0, 5))),  # SYNC_GROUP
    (15, ((0, 5), (0, 5), (0, 6))),  # DESCRIBE_GROUPS
    (16, ((0, 4), (0, 5), (0, 5))),  # LIST_GROUPS
    (17, ((0, 1), (0, 1), (0, 1))),  # SASL_HANDSHAKE
    (18, ((0, 3), (0, 4), (0, 4))),  # API_VERSIONS
    (19, ((0, 7), (0, 7), (2, 7))),  # CREATE_TOPICS
    (20, ((0, 6), (0, 6), (1, 6))),  # DELETE_TOPICS
    (21, ((0, 2), (0, 2), (0, 2))),  # DELETE_RECORDS
    (22, ((0, 4), (0, 5), (0, 5))),  # INIT_PRODUCER_ID
    (23, ((0, 4), (0, 4), (2, 4))),  # OFFSET_FOR_LEADER_EPOCH
    (24, ((0, 3), (0, 5), (0, 5))),  # ADD_PARTITIONS_TO_TXN
    (25, ((0, 3), (0, 4), (0, 4))),  # ADD_OFFSETS_TO_TXN
    (26, ((0, 3), (0, 4), (0, 5))),  # END_TXN
    (27, ((0, 1), (0, 1), (1, 2))),  # WRITE_TXN_MARKERS
    (28, ((0, 3), (0, 4), (0, 5))),  # TXN_OFFSET_COMMIT
    (29, ((0, 2), (0, 3), (1, 3))),  # DESCRIBE_ACLS
    (30, ((0, 2), (0, 3), (1, 3))),  # CREATE_ACLS
    (31, ((0, 2), (0, 3), (1, 3))),  # DELETE_ACLS
    (32, ((0, 4), (0, 4), (1, 4))),  # DESCRIBE_CONFIGS
    (33, ((0, 2), (0, 2), (0, 2))),  # ALTER_CONFIGS
    (34, ((0, 2), (0, 2), (1, 2))),  # ALTER_REPLICA_LOG_DIRS
    (35, ((0, 2), (0, 4), (1, 5))),  # DESCRIBE_LOG_DIRS
    (36, ((0, 2), (0, 2), (0, 2))),  # SASL_AUTHENTICATE
    (37, ((0, 3), (0, 3), (0, 3))),  # CREATE_PARTITIONS
    (38, ((0, 2), (0, 3), (1, 3))),  # CREATE_DELEGATION_TOKEN
    (39, ((0, 2), (0, 2), (1, 2))),  # RENEW_DELEGATION_TOKEN
    (40, ((0, 2), (0, 2), (1, 2))),  # EXPIRE_DELEGATION_TOKEN
    (41, ((0, 2), (0, 3), (1, 3))),  # DESCRIBE_DELEGATION_TOKEN
    (42, ((0, 2), (0, 2), (0, 2))),  # DELETE_GROUPS
    (43, ((0, 2), (0, 2), (0, 2))),  # ELECT_LEADERS
    (44, ((0, 1), (0, 1), (0, 1))),  # INCREMENTAL_ALTER_CONFIGS
    (45, ((0, 0), (0, 0), (0, 1))),  # ALTER_PARTITION_REASSIGNMENTS
    (46, ((0, 0), (0, 0), (0, 0))),  # LIST_PARTITION_REASSIGNMENTS
    (47, ((0, 0), (0, 0), (0, 0))),  # OFFSET_DELETE
    (48, ((0, 1), (0, 1), (0, 1))),  # DESCRIBE_CLIENT_QUOTAS
    (49, ((0, 1), (0, 1), (0, 1))),  # ALTER_CLIENT_QUOTAS
    (50, ((0, 0), (0, 0), (0, 0))),  # DESCRIBE_USER_SCRAM_CREDENTIALS
    (51, ((0, 0), (0, 0), (0, 0))),  # ALTER_USER_SCRAM_CREDENTIALS
    (56, ((0, 0), (0, 3), None)),  # ALTER_PARTITION
    (57, ((0, 0), (0, 1), (0, 2))),  # UPDATE_FEATURES
    (60, ((0, 0), (0, 1), (0, 2))),  # DESCRIBE_CLUSTER
    (61, ((0, 0), (0, 0), (0, 0))),  # DESCRIBE_PRODUCERS
    (65, (None, (0, 0), (0, 0))),  # DESCRIBE_TRANSACTIONS
    (66, (None, (0, 1), (0, 2))),  # LIST_TRANSACTIONS
    (67, (None, (0, 0), None)),  # ALLOCATE_PRODUCER_IDS
    (68, (None, (0, 0), (0, 1))),  # CONSUMER_GROUP_HEARTBEAT
    (69, (None, (0, 0), (0, 1))),  # CONSUMER_GROUP_DESCRIBE
    (75, (None, None, (0, 0))),  # DESCRIBE_TOPIC_PARTITIONS
)
PEER: Final = r"broker-\d+-.+|\d+"
"""Client ids of brokers, which use the versions of Odradek between them."""


class ServedRelease:
    """The versions of one release."""

    def __init__(self, name: str) -> None:
        """name  one of RELEASES"""
        self.name = name
        self.finalized: Mapping[str, int] = FINALIZED.get(name, {})
        column = RELEASES.index(name)
        self._ranges: dict[int, Range] = {
            api_key: versions for api_key, row in VERSIONS if (versions := row[column]) is not None
        }

    def range_of(self, api_key: int) -> tuple[int, int] | None:
        """Lowest and highest version of an API; None for one that it does not serve."""
        return self._ranges.get(api_key)

    def serves(self, api_key: int, version: int, client_id: str | None) -> bool:
        """Whether a request is served: of clients as in this release, of brokers always."""
        lowest, highest = self._ranges.get(api_key, (0, -1))
        return lowest <= version <= highest or is_peer(client_id or "")


def is_peer(client_id: str) -> bool:
    """Whether this is the client id of a broker."""
    return re.fullmatch(PEER, client_id) is not None


def release_of(written: Mapping[str, str]) -> ServedRelease | None:
    """The release of the setting, or None when it is not set.

    written  settings as text
    raises   InvalidValueError
    """
    name = written.get(SETTING, "").strip()
    if not name:
        return None
    if name not in RELEASES:
        raise InvalidValueError(SETTING, name, f"Expected one of {', '.join(RELEASES)}")
    return ServedRelease(name)
