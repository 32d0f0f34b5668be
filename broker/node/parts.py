"""The parts of a node, built bottom-up: each is given those that it uses.

The controller and `Leadership` need each other: the controller sends requests to it, and it reports
to fetchers and transactions, which use what the controller knows.  `Leadership` is built first.
Fetchers and transactions are given three functions, which reach the controller once the node is
started: the epoch of this broker's registration, the next producer id, the finalized
`transaction.version`.  The controller observes failed directories instead of being called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.broker.auto_topic_creation import AutoTopicCreation
from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.node.background import Background
from odradek.broker.node.coordination import Coordination
from odradek.broker.node.directory_failures import DirectoryFailures
from odradek.broker.node.disk_job_runner import DiskJobRunner
from odradek.broker.node.disk_space import DiskSpace
from odradek.broker.node.dynamic_configs import DynamicConfigs, with_warnings
from odradek.broker.node.following import (
    build_log_directory_moves,
    build_replica_fetchers,
    build_throttle,
)
from odradek.broker.node.group_coordination import (
    CoordinatorLeadership,
    GroupLeadership,
    build_group_coordinator,
)
from odradek.broker.node.lazy_compaction import LazyCompaction
from odradek.broker.node.orphaned_logs import OrphanedLogs
from odradek.broker.node.peers import Peers
from odradek.broker.node.platform import Platform
from odradek.broker.node.retention import Retention
from odradek.broker.node.sasl import build_sasl_listeners
from odradek.broker.node.tls import NodeTls
from odradek.broker.node.transaction_coordination import TransactionParts, build_transactions
from odradek.broker.node.tree_listener import tree_listener_address
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.quota.client_quotas import ClientQuotas
from odradek.broker.replication.fetch_session import FetchSessions
from odradek.broker.replication.in_sync_replicas import InSyncReplicas
from odradek.broker.replication.leader import InSyncRules
from odradek.broker.replication.leadership import Leadership, LeadershipObserver
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.replication_throttle import ReplicationThrottle
from odradek.broker.replication.resting_replicas import RestingReplicas
from odradek.broker.replication.staged_appends import StagedAppends
from odradek.broker.replication.time_lookups import TimeLookups
from odradek.broker.security.sasl.scram_users import ScramUsers
from odradek.broker.server.socket_server import SocketServer
from odradek.broker.services import FetchParts, HandlerParts, Services
from odradek.broker.settings.broker_settings import BrokerSettings, CurrentSettings
from odradek.broker.settings.replication_rates import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from odradek.broker.topics import TRANSACTION_TOPIC, Topics
from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.controller import Controller
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.controller.znodes.dynamic_configs import CLIENTS, IPS, USERS
from odradek.controller.znodes.finalized_features import TRANSACTION_VERSION
from odradek.runtime.thread_work import ThreadWork
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.directories.upkeep import Upkeep

if TYPE_CHECKING:
    from odradek.broker.security.acl.authorizer import Authorizer
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens


class NodeParts:
    """What serves clients and the cluster, from the coordination session to the socket server."""

    def __init__(
        self,
        platform: Platform,
        settings: BrokerSettings,
        coordination: Coordination,
        *,
        broker_id: int,
        logs: LogManager,
        connections_max: Callable[[], int],
        tls: NodeTls,
    ) -> None:
        """connections_max  how many connections there may be now"""
        self._tls = tls
        self._platform = platform
        self._coordination = coordination
        self._broker_id = broker_id
        self._logs = logs
        current = CurrentSettings(settings)
        self.metadata = MetadataCache()
        self.partitions = Partitions()
        self.coordination_work = ThreadWork(
            platform.loop,
            platform.coordination_executor,
            after=platform.purgatory.run_notified,
            on_broken=lambda error: platform.on_task_failure("coordination", error),
        )
        self._build_upkeep(current)
        self.configs = DynamicConfigs(
            broker_id=self._broker_id,
            settings=current,
            metadata=self.metadata,
            partitions=self.partitions,
            compaction=self.lazy_compaction,
        )
        self.scram_users = ScramUsers()
        self.configs.observe_entities(USERS, self.scram_users.on_user_config)
        self.services = self._build_services(current)
        self.server = self._build_server(connections_max)
        self.background = Background(
            platform,
            current,
            upkeep=self.upkeep,
            jobs=self.jobs,
            failures=self.failures,
            retention=self.retention,
            compaction=self.lazy_compaction,
            leadership=self.leadership,
            disk_space=DiskSpace(platform, self.resting, self.partitions, self.jobs),
            controller=self.services.controller,
            server=self.server,
            tokens=self.services.handler_parts.delegation_tokens,
        )

    def _build_server(self, connections_max: Callable[[], int]) -> SocketServer:
        platform = self._platform
        server = SocketServer(
            platform.loop,
            self.services,
            platform.executor,
            platform.supervisor,
            platform.scheduler,
            connections_max,
            loop_watch=platform.loop_watch,
            sasl_listeners=build_sasl_listeners(
                self.services.settings,
                self.scram_users,
                self.services.handler_parts.delegation_tokens,
                platform.rng,
            ),
            wheel=platform.wheel,
            make_dispatcher=platform.make_dispatcher,
            make_connection=platform.make_connection,
            make_tls_connection=platform.make_tls_connection,
        )
        self.configs.observe_entities(IPS, with_warnings(IPS, server.rates.on_ips))
        return server

    def _build_upkeep(self, current: CurrentSettings) -> None:
        platform = self._platform
        self.upkeep = Upkeep(self._logs)
        self.failures = DirectoryFailures(platform, self._logs, self.partitions)
        self.jobs = DiskJobRunner(platform, self.upkeep, self.partitions, self.failures)
        self.retention = Retention(platform, self._logs, self.upkeep)
        self.lazy_compaction = LazyCompaction(
            platform,
            current,
            logs=self._logs,
            upkeep=self.upkeep,
            jobs=self.jobs,
            retention=self.retention,
        )

    def _build_services(self, current: CurrentSettings) -> Services:
        platform = self._platform
        settings = current.value
        topics = Topics(self.metadata)
        groups = build_group_coordinator(platform, settings, topics)
        peers = Peers(platform, settings, broker_id=self._broker_id, tls=self._tls)
        transactions = self.transactions = self._build_transactions(settings, topics, groups, peers)
        self._build_replication(
            current,
            (
                GroupLeadership(groups),
                CoordinatorLeadership(TRANSACTION_TOPIC, transactions.coordinator),
            ),
        )
        controller = self._build_controller(settings, peers)
        authorizer = self._build_authorizer(settings, controller)
        self.controller_channel = peers.controller_channel(controller, self.partitions)
        self.failures.observe(controller.report_log_directories)
        self.in_sync_replicas = self._build_in_sync_replicas()
        return Services(
            current_settings=current,
            clock=platform.clock,
            metrics=platform.metrics,
            purgatory=platform.purgatory,
            partitions=self.partitions,
            appends=StagedAppends(platform.purgatory, platform.metrics),
            fetching=FetchParts(
                FetchSessions(
                    settings.max_incremental_fetch_session_cache_slots, platform.rng.below
                ),
                self.in_sync_replicas,
                self._build_throttle(current, LEADER_RATE, LEADER_REPLICAS),
            ),
            topics=topics,
            auto_topic_creation=AutoTopicCreation(controller, current),
            controller=controller,
            logs=self._logs,
            groups=groups,
            transactions=transactions.coordinator,
            transaction_verifier=transactions.verifier,
            client_quotas=self._build_client_quotas(settings),
            handler_parts=self._build_handler_parts(settings, controller),
            authorizer=authorizer,
            has_peers=not self._coordination.is_embedded
            or tree_listener_address(settings) is not None,
        )

    def _build_handler_parts(
        self, settings: BrokerSettings, controller: Controller
    ) -> HandlerParts:
        platform = self._platform
        return HandlerParts(
            log_directory_moves=self.log_directory_moves,
            time_lookups=TimeLookups(platform.files, self.jobs.search, platform.purgatory),
            producer_ids=ProducerIds(self.controller_channel.allocate_producer_ids),
            files=platform.files,
            rng=platform.rng,
            transaction_markers=self.transactions.markers,
            scram_users=self.scram_users,
            check_stores=self._tls.check_stores,
            delegation_tokens=self._build_delegation_tokens(settings, controller),
        )

    def _build_authorizer(
        self, settings: BrokerSettings, controller: Controller
    ) -> Authorizer | None:
        if not settings.authorizer_class_name:
            return None
        # Imported where a setting asks for it: most starts need none of it.
        from odradek.broker.security.acl.authorizer import Authorizer
        from odradek.broker.settings.authorizer import authorizer_settings

        authorizer = Authorizer(authorizer_settings(settings.written))
        authorizer.begin(controller)
        return authorizer

    def _build_delegation_tokens(
        self, settings: BrokerSettings, controller: Controller
    ) -> DelegationTokens | None:
        secret = settings.delegation_token_secret_key or settings.delegation_token_master_key
        if not secret:
            return None
        # Imported where a setting asks for it: most starts need none of it.
        from odradek.broker.security.tokens.delegation_tokens import DelegationTokens
        from odradek.broker.security.tokens.token_rules import TokenRules

        rules = TokenRules(
            settings.delegation_token_max_lifetime_ms, settings.delegation_token_expiry_time_ms
        )
        tokens = DelegationTokens(secret, rules, self._platform.clock, self._platform.rng)
        tokens.begin(controller)
        return tokens

    def _build_client_quotas(self, settings: BrokerSettings) -> ClientQuotas:
        quotas = ClientQuotas(
            settings.quota_window_num,
            settings.quota_window_size_seconds * 1_000,
            settings.controller_quota_window_num,
            settings.controller_quota_window_size_seconds * 1_000,
        )
        for entity_type, apply in ((CLIENTS, quotas.on_clients), (USERS, quotas.on_users)):
            self.configs.observe_entities(entity_type, with_warnings(entity_type, apply))
        return quotas

    def _build_transactions(
        self, settings: BrokerSettings, topics: Topics, groups: GroupCoordinator, peers: Peers
    ) -> TransactionParts:
        return build_transactions(
            self._platform,
            settings,
            broker_id=self._broker_id,
            topics=topics,
            partitions=self.partitions,
            groups=groups,
            clients=peers.clients,
            new_producer_id=lambda: self.services.handler_parts.producer_ids.take(),
            transaction_version=lambda: self.services.controller.features.level(
                TRANSACTION_VERSION
            ),
        )

    def _build_in_sync_replicas(self) -> InSyncReplicas:
        platform = self._platform
        return InSyncReplicas(
            partitions=self.partitions,
            purgatory=platform.purgatory,
            sender=self.controller_channel,
            wheel=platform.wheel,
            clock=platform.clock,
            metrics=platform.metrics,
        )

    def _build_throttle(
        self, current: CurrentSettings, rate: str, replicas: str
    ) -> ReplicationThrottle:
        return build_throttle(
            self._platform,
            current,
            self.metadata,
            broker_id=self._broker_id,
            rate=rate,
            replicas=replicas,
        )

    def _build_replication(
        self, current: CurrentSettings, coordinators: Sequence[LeadershipObserver]
    ) -> None:
        platform, settings = self._platform, current.value
        self.replica_fetchers = build_replica_fetchers(
            platform,
            settings,
            broker_id=self._broker_id,
            broker_epoch=lambda: self.services.controller.broker_epoch,
            throttle=self._build_throttle(current, FOLLOWER_RATE, FOLLOWER_REPLICAS),
            metadata=self.metadata,
            upkeep=self.upkeep,
            jobs=self.jobs,
            failures=self.failures,
            open_connection=self._tls.open_connection(
                platform, settings.inter_broker_listener_name
            ),
        )
        self.log_directory_moves = build_log_directory_moves(
            platform,
            current,
            logs=self._logs,
            partitions=self.partitions,
            fetchers=self.replica_fetchers,
            upkeep=self.upkeep,
            jobs=self.jobs,
            failures=self.failures,
        )
        self.configs.observe(
            lambda settings: self.replica_fetchers.set_count(settings.num_replica_fetchers)
        )
        self.resting = RestingReplicas(
            self._broker_id, platform.full_directories, self._logs, lambda: self.metadata.image
        )
        self.leadership = Leadership(
            broker_id=self._broker_id,
            logs=self._logs,
            partitions=self.partitions,
            purgatory=platform.purgatory,
            config_of=self.configs.log_config,
            run_jobs=self.jobs.run,
            on_flush_awaited=self.jobs.flush_soon,
            in_sync_rules=self._in_sync_rules(settings),
            resting=self.resting,
            observers=(*coordinators, self.replica_fetchers, self.log_directory_moves),
            clock=platform.clock,
            rng=platform.rng,
            on_fatal=platform.on_fatal,
        )

    def _in_sync_rules(self, settings: BrokerSettings) -> InSyncRules:
        return InSyncRules(
            lag_time_max_ms=settings.replica_lag_time_max_ms,
            is_live=lambda broker_id: broker_id in self.metadata.image.brokers,
            monotonic_ms=self._platform.clock.monotonic_ms,
        )

    def _build_controller(self, settings: BrokerSettings, peers: Peers) -> Controller:
        platform = self._platform
        self.orphaned = OrphanedLogs()
        return Controller(
            self._coordination.connect,
            ControllerSettings(
                partitions=settings.num_partitions,
                replication_factor=settings.default_replication_factor,
                is_deletion_enabled=settings.delete_topic_enable,
                is_unclean_election_enabled=settings.unclean_leader_election_enable,
                is_rebalance_enabled=settings.auto_leader_rebalance_enable,
                rebalance_interval_s=settings.leader_imbalance_check_interval_seconds,
                imbalance_percentage=settings.leader_imbalance_per_broker_percentage,
                min_insync_replicas=settings.min_insync_replicas,
            ),
            handler=self.leadership,
            sender=peers.control_channels,
            listener=self.configs,
            clock=platform.clock,
            randomness=platform.rng,
            metadata=self.metadata,
            check_new_topic=self.orphaned.check_new_topic,
            on_features_read=platform.purgatory.notify,
        )
