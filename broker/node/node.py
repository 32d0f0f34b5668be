"""One broker: its parts put together, started, and stopped.

Order of a start (Kafka: KafkaServer.startup): lock the directories; coordination, cluster id,
configs; check that the directories belong to this broker; bind; load the logs; register, elect,
lead; accept.
Order of a stop: stop accepting; end the connections; leave the cluster; flush and close the logs.
A start that fails or is interrupted ends with a stop, so that the next one finds the directories
unchanged.

The parts are built bottom-up: each is given those that it uses.  The controller sends requests to
`Leadership` and is built after it, so it observes failed directories instead of being called.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from socket import gethostname
from time import monotonic_ns, strftime
from typing import TYPE_CHECKING, Final

from odradek.broker.auto_topic_creation import AutoTopicCreation
from odradek.broker.node.background import LONG_MS, Background
from odradek.broker.node.directory_failures import DirectoryFailures
from odradek.broker.node.disk_job_runner import DiskJobRunner
from odradek.broker.node.disk_reserve import DiskReserve
from odradek.broker.node.dynamic_configs import DynamicConfigs
from odradek.broker.node.group_coordination import GroupLeadership, build_group_coordinator
from odradek.broker.node.lazy_compaction import LazyCompaction
from odradek.broker.node.local_alter_partition import LocalAlterPartition
from odradek.broker.node.orphaned_logs import OrphanedLogs
from odradek.broker.node.retention import Retention
from odradek.broker.node.storage_log import StorageLog
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.purgatory import Purgatory
from odradek.broker.refused_transactions import RefusedTransactions
from odradek.broker.replication.fetch_session import FetchSessions
from odradek.broker.replication.in_sync_replicas import InSyncReplicas
from odradek.broker.replication.leader import InSyncRules
from odradek.broker.replication.leadership import Leadership
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.staged_appends import StagedAppends
from odradek.broker.replication.time_lookups import TimeLookups
from odradek.broker.server.bound_listener import BoundListener, bind
from odradek.broker.server.socket_server import SocketServer
from odradek.broker.services import Services
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.current import CurrentSettings
from odradek.broker.topics import Topics
from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.controller import Controller, Identity
from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.state_files import find_files
from odradek.controller.image import Endpoint
from odradek.controller.metadata_cache import MetadataCache
from odradek.runtime.clock import Clock, SystemClock
from odradek.runtime.descriptor_limit import open_descriptors, raise_descriptor_limit, share_out
from odradek.runtime.files import FileSystem
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.randomness import SystemRandomness
from odradek.runtime.system_files import SystemFileSystem
from odradek.runtime.tasks import Supervisor
from odradek.runtime.thread_work import ThreadWork
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.storage.checkpoints.meta_properties import stored_broker_id, stored_cluster_id
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.files.descriptors import Descriptors

if TYPE_CHECKING:
    from odradek.broker.compaction.compaction import Compaction

WORKERS: Final = 4
COORDINATION_WORKERS: Final = 2
"""One syncs the journal while the other writes a snapshot; neither waits for logs to be flushed."""
DESCRIPTORS_ADVISED: Final = 4_096
"""A start with a lower limit logs a warning; Kafka's documentation recommends 100,000."""
RESERVE_CHECK_MS: Final = 60_000
FIRST_GENERATED_ID: Final = 1001
"""The id that Kafka gives the first broker without one (reserved.broker.max.id + 1)."""

logger = logging.getLogger("odradek")


class StartError(Exception):
    """The broker cannot start; one line says why."""


class StartInterrupted(Exception):
    """A signal came before the broker was ready."""


class Node:
    """A broker on an event loop.  Making one locks its directories and opens its coordination."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """should_stop  called between the steps of a start; True ends it"""
        self._loop = loop
        self._should_stop = should_stop
        self._files = SystemFileSystem()
        self._clock: Clock = SystemClock()
        self._rng = SystemRandomness()
        self._executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="disk")
        self._coordination_executor = ThreadPoolExecutor(
            COORDINATION_WORKERS, thread_name_prefix="coordination"
        )
        self._supervisor = Supervisor(loop, self._on_task_failure)
        self._metrics = BrokerMetrics()
        self._loop_watch = LoopWatch(self._metrics)
        self._wheel = WheelDriver(
            loop, self._clock, TimingWheel(self._clock.monotonic_ms()), self._loop_watch
        )
        self._stopping = asyncio.Event()
        self._fatal: str | None = None
        self._shares = share_out(raise_descriptor_limit())
        self._own_descriptors = 0
        self._descriptors = Descriptors(
            self._files,
            open_max=self._shares.files,
            report=StorageLog(self._clock.monotonic_ms),
        )
        self._logs = LogManager(
            self._files,
            settings.log_dirs,
            self._descriptors,
            file_delete_delay_ms=settings.log_segment_delete_delay_ms,
        )
        self.listeners: list[BoundListener] = []
        try:
            # First of all: a port that is taken leaves no new directory.
            self._bind(settings)
            self._open_directories(settings)
        except BaseException:
            self._close_listeners()
            raise

    def _open_directories(self, settings: BrokerSettings) -> None:
        identities = self._logs.open_directories()
        self._stored_cluster_id = stored_cluster_id(identities)
        stored_id = stored_broker_id(identities)
        self._broker_id = settings.broker_id
        if self._broker_id < 0:
            self._broker_id = FIRST_GENERATED_ID if stored_id is None else stored_id
        try:
            self._open_coordination(settings)
            self._build(settings)
        except BaseException:
            self._logs.shutdown(now_ms=self._clock.now_ms())
            raise

    def _open_coordination(self, settings: BrokerSettings) -> None:
        check_first_directory(self._files, settings.log_dirs)
        self._reserve = DiskReserve(self._files, settings.log_dirs[0])
        try:
            self._tree = EmbeddedTree(
                self._files, settings.log_dirs[0], self._clock, free_space=self._release_reserve
            )
        except OSError as error:
            raise StartError(
                f"the first of log.dirs, with the coordination files, cannot be used: {error}"
            ) from error
        for failure in self._logs.take_failures():
            logger.error("log directory %s cannot be used: %s", failure.path, failure.reason)
        for warning in self._tree.warnings:
            logger.warning("%s", warning)

    def _build(self, settings: BrokerSettings) -> None:
        current = CurrentSettings(settings)
        self._metadata = MetadataCache()
        self._partitions = Partitions()
        self._purgatory = Purgatory(self._wheel, self._metrics)
        self._wheel.after_each_turn(self._purgatory.run_notified)
        self._coordination_work = ThreadWork(
            self._loop,
            self._coordination_executor,
            after=self._purgatory.run_notified,
            on_broken=lambda error: self._on_task_failure("coordination", error),
        )
        self._build_upkeep(current)
        self._configs = DynamicConfigs(
            broker_id=self._broker_id,
            settings=current,
            metadata=self._metadata,
            partitions=self._partitions,
            compaction=self._lazy_compaction,
        )
        self.services = self._build_services(current)
        self.server = SocketServer(
            self._loop, self.services, self._executor, self._supervisor, self._connections_max
        )
        self._background = Background(
            clock=self._clock,
            settings=current,
            wheel=self._wheel,
            upkeep=self._upkeep,
            jobs=self._jobs,
            failures=self._failures,
            retention=self._retention,
            compaction=self._lazy_compaction,
            leadership=self._leadership,
            controller=self.services.controller,
            server=self.server,
            on_fatal=self._on_fatal,
        )

    def _build_upkeep(self, current: CurrentSettings) -> None:
        self._upkeep = Upkeep(self._logs)
        self._failures = DirectoryFailures(
            self._logs, self._partitions, self._purgatory, self._metrics
        )
        self._jobs = DiskJobRunner(
            self._loop,
            executor=self._executor,
            supervisor=self._supervisor,
            files=self._files,
            clock=self._clock,
            loop_watch=self._loop_watch,
            upkeep=self._upkeep,
            partitions=self._partitions,
            purgatory=self._purgatory,
            failures=self._failures,
            on_fatal=self._on_fatal,
        )
        self._retention = Retention(
            self._loop,
            clock=self._clock,
            logs=self._logs,
            upkeep=self._upkeep,
            loop_watch=self._loop_watch,
            on_fatal=self._on_fatal,
        )
        self._lazy_compaction = LazyCompaction(
            clock=self._clock,
            settings=current,
            logs=self._logs,
            metrics=self._metrics,
            loop_watch=self._loop_watch,
            files=self._files,
            executor=self._executor,
            supervisor=self._supervisor,
            wheel=self._wheel,
            upkeep=self._upkeep,
            jobs=self._jobs,
            retention=self._retention,
            on_fatal=self._on_fatal,
        )

    def _build_services(self, current: CurrentSettings) -> Services:
        settings = current.value
        topics = Topics(self._metadata)
        groups = build_group_coordinator(
            settings,
            topics=topics,
            purgatory=self._purgatory,
            wheel=self._wheel,
            clock=self._clock,
            rng=self._rng,
        )
        self._leadership = Leadership(
            broker_id=self._broker_id,
            logs=self._logs,
            partitions=self._partitions,
            purgatory=self._purgatory,
            config_of=self._configs.log_config,
            run_jobs=self._jobs.run,
            on_flush_awaited=self._jobs.flush_soon,
            in_sync_rules=self._in_sync_rules(settings),
            observers=(GroupLeadership(groups),),
            clock=self._clock,
            rng=self._rng,
            on_fatal=self._on_fatal,
        )
        controller = self._build_controller(settings)
        self._failures.observe(controller.report_log_directories)
        self._in_sync_replicas = InSyncReplicas(
            partitions=self._partitions,
            purgatory=self._purgatory,
            sender=LocalAlterPartition(controller),
            wheel=self._wheel,
            clock=self._clock,
            metrics=self._metrics,
        )
        return Services(
            current_settings=current,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics,
            loop_watch=self._loop_watch,
            purgatory=self._purgatory,
            partitions=self._partitions,
            appends=StagedAppends(self._purgatory, self._metrics),
            fetch_sessions=FetchSessions(
                settings.max_incremental_fetch_session_cache_slots, self._rng.below
            ),
            in_sync_replicas=self._in_sync_replicas,
            time_lookups=TimeLookups(self._files, self._jobs.search, self._purgatory),
            producer_ids=ProducerIds(controller.allocate_producer_ids),
            topics=topics,
            auto_topic_creation=AutoTopicCreation(controller, current),
            controller=controller,
            logs=self._logs,
            files=self._files,
            groups=groups,
            refused_transactions=RefusedTransactions(),
        )

    def _in_sync_rules(self, settings: BrokerSettings) -> InSyncRules:
        return InSyncRules(
            lag_time_max_ms=settings.replica_lag_time_max_ms,
            is_live=lambda broker_id: broker_id in self._metadata.image.brokers,
            monotonic_ms=self._clock.monotonic_ms,
        )

    def _build_controller(self, settings: BrokerSettings) -> Controller:
        self._orphaned = OrphanedLogs()
        return Controller(
            self._tree.connect,
            ControllerSettings(
                partitions=settings.num_partitions,
                replication_factor=settings.default_replication_factor,
                is_deletion_enabled=settings.delete_topic_enable,
                is_unclean_election_enabled=settings.unclean_leader_election_enable,
                is_rebalance_enabled=settings.auto_leader_rebalance_enable,
                rebalance_interval_s=settings.leader_imbalance_check_interval_seconds,
                imbalance_percentage=settings.leader_imbalance_per_broker_percentage,
            ),
            handler=self._leadership,
            listener=self._configs,
            clock=self._clock,
            randomness=self._rng,
            metadata=self._metadata,
            check_new_topic=self._orphaned.check_new_topic,
        )

    def start(self) -> None:
        """Bring the broker up; when this returns, clients are served.

        raises  StartError, StartInterrupted and the errors of the parts; call `stop` then: it
                leaves the directories unchanged
        """
        controller, logs = self.services.controller, self._logs
        self._check_interrupted()
        cluster_id = controller.prepare(self._stored_cluster_id).result()
        logs.claim(
            broker_id=self._broker_id,
            cluster_id=cluster_id,
            date=strftime("%a %b %d %H:%M:%S %Z %Y"),
        )
        logs.load(
            self._configs.log_config,
            now_ms=self._clock.now_ms(),
            monotonic_ms=self._clock.monotonic_ms,
            check_interrupted=self._check_interrupted,
        )
        controller.start(self._identity()).result()
        self._check_interrupted()
        self._orphaned.find(controller.image, logs)
        warning = self._orphaned.warning()
        if warning is not None:
            logger.warning("%s", warning)
        self._begin_background_work()
        self._accept()

    def _begin_background_work(self) -> None:
        """From now on syncs, index rebuilds and long requests no longer hold up the loop."""
        self._tree.serve(
            self._coordination_work,
            on_failure=self._on_fatal,
            on_warning=self._configs.on_warning,
        )
        self._leadership.serve(self._defer)
        self._descriptors.rebuild_later = self._jobs.rebuild_index
        self._background.start()
        settings = self.services.settings
        self._wheel.every(
            min(settings.offsets_retention_check_interval_ms, LONG_MS),
            self.services.groups.expire_offsets,
        )
        lag_max_ms = settings.replica_lag_time_max_ms
        self._wheel.every(min(max(1, lag_max_ms // 2), LONG_MS), self._in_sync_replicas.check)
        self._reserve.restore()
        self._wheel.every(RESERVE_CHECK_MS, self._reserve.restore)

    def _accept(self) -> None:
        self._own_descriptors = open_descriptors() - self._descriptors.open_count
        if self._shares.limit < DESCRIPTORS_ADVISED:
            logger.warning(
                "this process may open %d files only: %d for logs, %d connections",
                self._shares.limit,
                self._shares.files,
                self._connections_max(),
            )
        for listener in self.listeners:
            try:
                self.server.listen(listener)
            except OSError as error:
                raise StartError(f"cannot listen on {listener.address}: {error}") from error

    def _release_reserve(self) -> bool:
        if not self._reserve.release_step():
            return False
        logger.warning("%s is full: coordination uses its reserve", self._reserve.folder)
        return True

    def _check_interrupted(self) -> None:
        if self._should_stop():
            raise StartInterrupted

    def _connections_max(self) -> int:
        """The connections that there are descriptors for; less while clients hold many files."""
        held_count = max(0, self._descriptors.open_count - self._shares.files)
        return max(1, self._shares.connections(self._own_descriptors) - held_count)

    @property
    def compaction(self) -> Compaction:
        """The cleaner of compacted logs; the node is started."""
        return self._lazy_compaction.get()

    def _defer(self, work: Callable[[], None]) -> None:
        def run() -> None:
            began_ns = monotonic_ns()
            work()
            self._purgatory.run_notified()
            self._loop_watch.ran(began_ns, work)

        self._loop.call_soon(run)

    def _bind(self, settings: BrokerSettings) -> None:
        for listener in settings.listeners:
            if listener.protocol != "PLAINTEXT":
                raise StartError(
                    f"Invalid value {listener} for configuration listeners: only PLAINTEXT is "
                    "served so far"
                )
            try:
                bound = bind(listener.name, listener.host, listener.port)
            except OSError as error:
                raise StartError(f"cannot listen on {listener}: {error}") from error
            self.listeners.append(bound)

    def _close_listeners(self) -> None:
        for listener in self.listeners:
            listener.socket.close()

    def _identity(self) -> Identity:
        settings = self.services.settings
        ports = {listener.name: listener.port for listener in self.listeners}
        return Identity(
            broker_id=self._broker_id,
            endpoints=tuple(
                Endpoint(
                    listener.name,
                    listener.host or gethostname(),
                    listener.port or ports[listener.name],
                    listener.protocol,
                )
                for listener in settings.advertised_listeners
            ),
            rack=settings.broker_rack,
        )

    def _on_task_failure(self, name: str, error: BaseException) -> None:
        self._on_fatal(f"task {name} died: {error!r}")

    def _on_fatal(self, reason: str) -> None:
        if self._fatal is None:
            self._fatal = reason
            logger.critical("stopping: %s", reason)
            self._stopping.set()

    def request_stop(self) -> None:
        """Begin to stop, from a signal."""
        self._stopping.set()

    async def run_until_stopped(self) -> None:
        """Serve until a signal or a fatal failure, then stop cleanly.

        raises  StartError when the broker stopped because it could not go on
        """
        await self._stopping.wait()
        await self.stop()
        if self._fatal is not None:
            raise StartError(self._fatal)

    async def stop(self) -> None:
        """Stop, with every acknowledged record on disk; the next start need not check the logs.

        Also after a start that has failed.
        """
        self._background.stop()
        self.server.close()
        self._close_listeners()
        self._wheel.close()
        await self._jobs.finish()
        await self._supervisor.close()
        try:
            self.services.controller.shutdown()
            while self._coordination_work.is_running:
                await self._coordination_work.finish()
            self._tree.close()
        except (CoordinationError, OSError) as error:
            logger.warning("the end of coordination is not stored: %s", error)
        self._logs.shutdown(now_ms=self._clock.now_ms())
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._coordination_executor.shutdown(wait=False)


def check_first_directory(files: FileSystem, log_dirs: Sequence[str]) -> None:
    """Refuse a start when a later directory has the coordination files, but not the first one.

    The broker would start without any topic.
    raises  StartError
    """
    first = log_dirs[0]
    found = []
    for folder in log_dirs:
        with contextlib.suppress(OSError):
            if any(find_files(files, folder)):
                found.append(folder)
    if found and first not in found:
        raise StartError(
            f"the coordination files are in {found[0]}, not in the first of log.dirs, {first}: "
            f"put it first"
        )
