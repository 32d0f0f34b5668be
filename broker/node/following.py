"""Makes what follows logs on a node: fetchers from other brokers, moves between directories."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.interbroker.network_client import NetworkClient, OpenConnection
from odradek.broker.node.directory_failures import DirectoryFailures
from odradek.broker.node.disk_job_runner import DiskJobRunner
from odradek.broker.node.platform import Platform
from odradek.broker.node.sasl import build_login
from odradek.broker.replication.follower.log_directory_moves import LogDirectoryMoves, MovesContext
from odradek.broker.replication.follower.replica_fetchers import ReplicaFetchers
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.replication_throttle import RateWindow, ReplicationThrottle
from odradek.broker.settings.broker_settings import BrokerSettings, CurrentSettings
from odradek.broker.settings.replication_rates import ALTER_LOG_DIRS, rate_of
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.directories.upkeep import Upkeep

if TYPE_CHECKING:
    from odradek.broker.replication.follower.fetcher_state import FetchLimits
    from odradek.broker.replication.follower.replica_fetcher import ReplicaFetcher


def fetch_limits(settings: BrokerSettings) -> FetchLimits:
    """The limits that the settings `replica.fetch.*` give."""
    from odradek.broker.replication.follower.fetcher_state import FetchLimits

    return FetchLimits(
        max_bytes=settings.replica_fetch_response_max_bytes,
        partition_max_bytes=settings.replica_fetch_max_bytes,
        min_bytes=settings.replica_fetch_min_bytes,
        max_wait_ms=settings.replica_fetch_wait_max_ms,
        backoff_ms=settings.replica_fetch_backoff_ms,
    )


def build_replica_fetchers(  # noqa: PLR0913 - connections on one side, logs on the other
    platform: Platform,
    settings: BrokerSettings,
    *,
    broker_id: int,
    broker_epoch: Callable[[], int],
    throttle: ReplicationThrottle,
    metadata: MetadataCache,
    upkeep: Upkeep,
    jobs: DiskJobRunner,
    failures: DirectoryFailures,
    open_connection: OpenConnection | None,
) -> ReplicaFetchers:
    """The fetchers, which follow nothing yet."""
    connect = _connections(platform, settings, broker_id, metadata, open_connection)

    def make_fetcher(leader_id: int) -> ReplicaFetcher:
        # Imported for the first leader that is followed: a broker without others has none.
        from odradek.broker.replication.follower import replica_fetcher

        context = replica_fetcher.FetcherContext(
            replica_id=broker_id,
            limits=fetch_limits(settings),
            connect=connect,
            broker_epoch=broker_epoch,
            in_sync_replicas=partial(newest_in_sync_replicas, metadata),
            throttle=throttle,
            clock=platform.peer_clock,
            wheel=platform.peer_wheel,
            defer=platform.defer,
            purgatory=platform.purgatory,
            metrics=platform.metrics,
            truncations=upkeep.truncations,
            run_jobs=jobs.run,
            on_storage_failure=failures.handle,
            on_fatal=platform.on_fatal,
        )
        return replica_fetcher.ReplicaFetcher(leader_id, context)

    fetchers = ReplicaFetchers(make_fetcher, settings.num_replica_fetchers)
    failures.observe(fetchers.drop_offline)
    return fetchers


def newest_in_sync_replicas(metadata: MetadataCache, partition: Partition) -> tuple[int, ...]:
    """The in-sync replicas by the newest state that this broker has heard of.

    The controller sends a change to followers by UpdateMetadata only.
    """
    cached = metadata.image.partition(partition.topic, partition.index)
    state = None if cached is None else cached.state
    if (
        state is None
        or state.leader_epoch < partition.leader_epoch
        or state.partition_epoch <= partition.partition_epoch
    ):
        return partition.in_sync
    return state.isr


def _connections(
    platform: Platform,
    settings: BrokerSettings,
    broker_id: int,
    metadata: MetadataCache,
    open_connection: OpenConnection | None,
) -> Callable[[int], NetworkClient | None]:
    """What makes a connection to a leader, by its id; None while its address is unknown."""

    login = build_login(settings, settings.inter_broker_listener_name, platform.rng)

    def connect(leader_id: int) -> NetworkClient | None:
        broker = metadata.image.brokers.get(leader_id)
        for endpoint in broker.endpoints if broker is not None else ():
            if endpoint.listener_name == settings.inter_broker_listener_name:
                return NetworkClient(
                    platform.loop,
                    endpoint.host,
                    endpoint.port,
                    client_id=f"broker-{broker_id}-fetcher",
                    connect_timeout_ms=settings.socket_connection_setup_timeout_ms,
                    request_timeout_ms=settings.replica_socket_timeout_ms,
                    wheel=platform.peer_wheel,
                    after=platform.purgatory.run_notified,
                    loop_watch=platform.loop_watch,
                    open_connection=open_connection,
                    login=login,
                )
        return None

    return connect


def build_throttle(
    platform: Platform,
    current: CurrentSettings,
    metadata: MetadataCache,
    *,
    broker_id: int,
    rate: str,
    replicas: str,
) -> ReplicationThrottle:
    """The throttle of one direction; `rate` and `replicas` are the names of its settings."""
    settings = current.value
    return ReplicationThrottle(
        broker_id,
        RateWindow(
            settings.replication_quota_window_num,
            settings.replication_quota_window_size_seconds * 1_000,
        ),
        rate=lambda: rate_of(current.value, rate),
        throttled=lambda topic: metadata.image.topic_config(topic).get(replicas, ""),
        monotonic_ms=platform.clock.monotonic_ms,
    )


def build_log_directory_moves(
    platform: Platform,
    current: CurrentSettings,
    *,
    logs: LogManager,
    partitions: Partitions,
    fetchers: ReplicaFetchers,
    upkeep: Upkeep,
    jobs: DiskJobRunner,
    failures: DirectoryFailures,
) -> LogDirectoryMoves:
    """The moves of the node; those that a stop has interrupted go on when their logs are opened."""

    def on_moved(partition: Partition) -> None:
        fetchers.on_leader_change(partition)
        fetchers.on_request_applied()

    moves = LogDirectoryMoves(
        MovesContext(
            logs=logs,
            upkeep=upkeep,
            partitions=partitions,
            purgatory=platform.purgatory,
            clock=platform.clock,
            rng=platform.rng,
            wheel=platform.wheel,
            defer=platform.defer,
            rate=lambda: rate_of(current.value, ALTER_LOG_DIRS),
            run_jobs=jobs.run,
            on_moved=on_moved,
            on_storage_failure=failures.handle,
            on_fatal=platform.on_fatal,
        )
    )
    failures.observe(moves.drop_offline)
    return moves
