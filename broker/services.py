"""The parts of one node that handlers use, put together by `broker/node/node.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.auto_topic_creation import AutoTopicCreation
from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.purgatory import Purgatory
from odradek.broker.quota.client_quotas import ClientQuotas
from odradek.broker.replication.fetch_session import FetchSessions
from odradek.broker.replication.follower.log_directory_moves import LogDirectoryMoves
from odradek.broker.replication.in_sync_replicas import InSyncReplicas
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.replication_throttle import ReplicationThrottle
from odradek.broker.replication.staged_appends import StagedAppends
from odradek.broker.replication.time_lookups import TimeLookups
from odradek.broker.security.sasl.scram_users import ScramUsers
from odradek.broker.settings.broker_settings import BrokerSettings, CurrentSettings
from odradek.broker.topics import Topics
from odradek.broker.transaction.coordinator import TransactionCoordinator
from odradek.broker.transaction_markers import TransactionMarkers
from odradek.broker.transaction_verifier import TransactionVerifier
from odradek.controller.controller import Controller
from odradek.runtime.clock import Clock
from odradek.runtime.files import FileSystem
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.randomness import Randomness
from odradek.storage.directories.log_manager import LogManager

if TYPE_CHECKING:
    from odradek.broker.security.acl.authorizer import Authorizer
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens


CheckStores = Callable[[BrokerSettings], str | None]
"""Why stores of keys and trust that settings name cannot be used, if they cannot: reads files."""


def no_stores(settings: BrokerSettings) -> None:
    """No listener has TLS."""


class FetchParts(NamedTuple):
    """What Fetch works on besides partitions; not of `HandlerParts`, since a Fetch is frequent."""

    sessions: FetchSessions
    in_sync_replicas: InSyncReplicas
    leader_throttle: ReplicationThrottle


class HandlerParts(NamedTuple):
    """The parts that one API or a few take: its row in the table of handlers names them."""

    log_directory_moves: LogDirectoryMoves
    time_lookups: TimeLookups
    producer_ids: ProducerIds
    files: FileSystem
    rng: Randomness
    transaction_markers: TransactionMarkers
    scram_users: ScramUsers
    check_stores: CheckStores = no_stores
    delegation_tokens: DelegationTokens | None = None
    """None without delegation.token.secret.key."""


class Services(NamedTuple):
    """The parts of a node that many handlers use."""

    current_settings: CurrentSettings
    clock: Clock
    metrics: BrokerMetrics
    purgatory: Purgatory
    partitions: Partitions
    appends: StagedAppends
    fetching: FetchParts
    topics: Topics
    auto_topic_creation: AutoTopicCreation
    controller: Controller
    logs: LogManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    transaction_verifier: TransactionVerifier
    client_quotas: ClientQuotas
    handler_parts: HandlerParts
    authorizer: Authorizer | None = None
    """None permits every request."""
    has_peers: bool = True
    """Whether other brokers can be in the cluster."""

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force; keep `current_settings` instead where a change must be seen."""
        return self.current_settings.value
