"""The parts of a node, built bottom-up: each is given those that it uses.

The controller and `Leadership` need each other: the controller sends requests to it, and it reports
to fetchers and transactions, which use what the controller knows.  `Leadership` is built first.
Fetchers and transactions are given three functions, which reach the controller once the node is
started: the epoch of this broker's registration, the next producer id, the finalized
`transaction.version`.  The controller observes failed directories instead of being called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.auto_topic_creation import AutoTopicCreation
from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.interbroker.network_client import NetworkClient, NetworkClients
from odradek.broker.node.background import Background
from odradek.broker.node.coordination import Coordination
from odradek.broker.node.directory_failures import DirectoryFailures
from odradek.broker.node.disk_job_runner import DiskJobRunner
from odradek.broker.node.disk_space import DiskSpace
from odradek.broker.node.dynamic_configs import DynamicConfigs, with_warnings
from odradek.broker.node.following import fetch_limits, newest_in_sync_replicas
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
from odradek.broker.replication.follower.log_directory_moves import LogDirectoryMoves, MovesContext
from odradek.broker.replication.follower.replica_fetchers import ReplicaFetchers
from odradek.broker.replication.in_sync_replicas import InSyncReplicas
from odradek.broker.replication.leader import InSyncRules
from odradek.broker.replication.leadership import Leadership, LeadershipObserver
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.replication_throttle import RateWindow, ReplicationThrottle
from odradek.broker.replication.resting_replicas import RestingReplicas
from odradek.broker.replication.staged_appends import StagedAppends
from odradek.broker.replication.time_lookups import TimeLookups
from odradek.broker.security.sasl.scram_users import ScramUsers
from odradek.broker.server.socket_server import SocketServer
from odradek.broker.services import FetchParts, HandlerParts, Services
from odradek.broker.settings.broker_settings import BrokerSettings, CurrentSettings
from odradek.broker.settings.replication_rates import (
    ALTER_LOG_DIRS,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    rate_of,
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
    from odradek.broker.replication.follower.replica_fetcher import ReplicaFetcher
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
            peers.clients,
            (
                GroupLeadership(groups),
                CoordinatorLeadership(TRANSACTION_TOPIC, transactions.coordinator),
            ),
        )
        controller = self._build_controller(settings, peers)
        authorizer = self._build_authorizer(settings, controller)
        self.controller_channel = peers.controller_channel(controller, self.partitions)
        self.failures.observe(controller.report_log_directories)
        self.in_sync_replicas = InSyncReplicas(
            partitions=self.partitions,
            purgatory=platform.purgatory,
            sender=self.controller_channel,
            wheel=platform.wheel,
            clock=platform.clock,
            metrics=platform.metrics,
        )
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

    def _build_throttle(
        self, current: CurrentSettings, rate: str, replicas: str
    ) -> ReplicationThrottle:
        """The throttle of one direction; `rate` and `replicas` are the names of its settings."""
        settings = current.value
        return ReplicationThrottle(
            self._broker_id,
            RateWindow(
                settings.replication_quota_window_num,
                settings.replication_quota_window_size_seconds * 1_000,
            ),
            rate=lambda: rate_of(current.value, rate),
            throttled=lambda topic: self.metadata.image.topic_config(topic).get(replicas, ""),
            monotonic_ms=self._platform.clock.monotonic_ms,
        )

    def _build_fetchers(self, current: CurrentSettings, clients: NetworkClients) -> ReplicaFetchers:
        """The fetchers, which follow nothing yet.

        clients  of the listener over which brokers reach each other
        """
        platform, settings = self._platform, current.value
        throttle = self._build_throttle(current, FOLLOWER_RATE, FOLLOWER_REPLICAS)
        clients = clients._replace(request_timeout_ms=settings.replica_socket_timeout_ms)

        def connect(leader_id: int) -> NetworkClient | None:
            broker = self.metadata.image.brokers.get(leader_id)
            name = settings.inter_broker_listener_name
            endpoint = None if broker is None else broker.endpoint(name)
            if endpoint is None:
                return None
            return clients.client(endpoint.host, endpoint.port, f"broker-{self._broker_id}-fetcher")

        def make_fetcher(leader_id: int) -> ReplicaFetcher:
            # Imported for the first leader that is followed: a broker without others has none.
            from odradek.broker.replication.follower import replica_fetcher

            context = replica_fetcher.FetcherContext(
                replica_id=self._broker_id,
                limits=fetch_limits(settings),
                connect=connect,
                broker_epoch=lambda: self.services.controller.broker_epoch,
                in_sync_replicas=partial(newest_in_sync_replicas, self.metadata),
                throttle=throttle,
                clock=platform.peer_clock,
                wheel=platform.peer_wheel,
                defer=platform.defer,
                purgatory=platform.purgatory,
                metrics=platform.metrics,
                truncations=self.upkeep.truncations,
                run_jobs=self.jobs.run,
                on_storage_failure=self.failures.handle,
                on_fatal=platform.on_fatal,
            )
            return replica_fetcher.ReplicaFetcher(leader_id, context)

        fetchers = ReplicaFetchers(make_fetcher, settings.num_replica_fetchers)
        self.failures.observe(fetchers.drop_offline)
        self.configs.observe(lambda settings: fetchers.set_count(settings.num_replica_fetchers))
        return fetchers

    def _build_moves(self, current: CurrentSettings) -> LogDirectoryMoves:
        """The moves of the node; those that a stop has interrupted go on when their logs are
        opened."""
        platform = self._platform

        def on_moved(partition: Partition) -> None:
            self.replica_fetchers.on_leader_change(partition)
            self.replica_fetchers.on_request_applied()

        moves = LogDirectoryMoves(
            MovesContext(
                logs=self._logs,
                upkeep=self.upkeep,
                partitions=self.partitions,
                purgatory=platform.purgatory,
                clock=platform.clock,
                rng=platform.rng,
                wheel=platform.wheel,
                defer=platform.defer,
                rate=lambda: rate_of(current.value, ALTER_LOG_DIRS),
                run_jobs=self.jobs.run,
                on_moved=on_moved,
                on_storage_failure=self.failures.handle,
                on_fatal=platform.on_fatal,
            )
        )
        self.failures.observe(moves.drop_offline)
        return moves

    def _build_replication(
        self,
        current: CurrentSettings,
        clients: NetworkClients,
        coordinators: Sequence[LeadershipObserver],
    ) -> None:
        platform, settings = self._platform, current.value
        self.replica_fetchers = self._build_fetchers(current, clients)
        self.log_directory_moves = self._build_moves(current)
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
            in_sync_rules=InSyncRules(
                lag_time_max_ms=settings.replica_lag_time_max_ms,
                is_live=lambda broker_id: broker_id in self.metadata.image.brokers,
                monotonic_ms=platform.clock.monotonic_ms,
            ),
            resting=self.resting,
            observers=(*coordinators, self.replica_fetchers, self.log_directory_moves),
            clock=platform.clock,
            rng=platform.rng,
            on_fatal=platform.on_fatal,
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
