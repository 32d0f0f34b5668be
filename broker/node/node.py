"""One broker: its parts put together, started, and stopped.

Order of a start (Kafka: KafkaServer.startup): lock the directories; coordination, cluster id,
configs; check whose the directories are; bind; load the logs; register, elect, lead; accept.
Order of a stop: stop accepting; end the connections; leave the cluster; flush and close the logs.
A start that fails or is interrupted ends with a stop, so that the next one finds the directories
as this one did.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from socket import gethostname
from time import monotonic_ns, strftime
from typing import TYPE_CHECKING, Final

from odradek.broker.group.context import Doors
from odradek.broker.group.coordinator import OFFSETS_TOPIC, GroupCoordinator
from odradek.broker.group.limits import Limits
from odradek.broker.group.unreadable import refuse_setting
from odradek.broker.internal_topics import first_use_topic
from odradek.broker.node.background import LONG_MS, Background
from odradek.broker.node.disk_reserve import DiskReserve
from odradek.broker.node.orphaned_logs import OrphanedLogs
from odradek.broker.node.storage_log import StorageLog
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.purgatory import Purgatory
from odradek.broker.refused_transactions import RefusedTransactions
from odradek.broker.replication.fetch_session import FetchSessions
from odradek.broker.replication.leadership import Leadership
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.staged_appends import Appends
from odradek.broker.replication.time_lookups import TimeLookups
from odradek.broker.server.bound_listener import BoundListener, bind
from odradek.broker.server.socket_server import SocketServer
from odradek.broker.services import Services
from odradek.broker.settings.alter import DEFAULT_ENTITY
from odradek.broker.settings.broker_settings import BrokerSettings, with_dynamic
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.groups import (
    CONSUMER,
    ConsumerSettings,
    MigrationPolicy,
    assignment_interval_ms,
    assignor_names,
)
from odradek.broker.settings.topic_config import topic_log_config
from odradek.broker.topics import Topics
from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.active.topic_admin import TopicResult
from odradek.controller.controller import Controller, Identity
from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.state_files import find_files
from odradek.controller.image import Endpoint
from odradek.controller.znodes.dynamic_configs import BROKERS, TOPICS
from odradek.runtime.clock import Clock, SystemClock
from odradek.runtime.descriptor_limit import open_descriptors, raise_descriptor_limit, share_out
from odradek.runtime.files import FileSystem
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.randomness import SystemRandomness
from odradek.runtime.system_files import SystemFileSystem
from odradek.runtime.tasks import Supervisor
from odradek.runtime.thread_work import ThreadWork
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.storage.checkpoints.meta_properties import stored_broker_id, stored_cluster_id
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log_config import LogConfig

if TYPE_CHECKING:
    from odradek.broker.compaction.compaction import Compaction

WORKERS: Final = 4
COORDINATION_WORKERS: Final = 2
"""One syncs the journal while the other writes a snapshot; neither waits for logs to be flushed."""
DESCRIPTORS_ADVISED: Final = 4_096
"""A lower limit is named at the start; Kafka's documentation asks for 100,000."""
RESERVE_CHECK_MS: Final = 60_000
FIRST_GENERATED_ID: Final = 1001
"""What Kafka gives the first broker without an id (reserved.broker.max.id + 1)."""

logger = logging.getLogger("odradek")


class StartError(Exception):
    """The broker cannot start; one line says why."""


class StartInterrupted(Exception):
    """A signal came before the broker was up."""


class Node:
    """A broker on an event loop.  Making one locks its directories and opens its coordination."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """should_stop  asked between the steps of a start, which ends then"""
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
        self._descriptors = Descriptors(
            self._files,
            open_max=self._shares.files,
            report=StorageLog(self._clock.monotonic_ms),
        )
        logs = LogManager(
            self._files,
            settings.log_dirs,
            self._descriptors,
            file_delete_delay_ms=settings.log_segment_delete_delay_ms,
        )
        identities = logs.open_directories()
        self._stored_cluster_id = stored_cluster_id(identities)
        stored_id = stored_broker_id(identities)
        self._broker_id = settings.broker_id
        if self._broker_id < 0:
            self._broker_id = FIRST_GENERATED_ID if stored_id is None else stored_id
        self.listeners: list[BoundListener] = []
        try:
            self._build(settings, logs)
        except BaseException:
            logs.shutdown(now_ms=self._clock.now_ms())
            raise

    def _build(self, settings: BrokerSettings, logs: LogManager) -> None:
        check_first_directory(self._files, settings.log_dirs)
        self._reserve = DiskReserve(self._files, settings.log_dirs[0])
        try:
            self._tree = EmbeddedTree(
                self._files, settings.log_dirs[0], self._clock, make_room=self._release_reserve
            )
        except OSError as error:
            raise StartError(
                f"the first of log.dirs, with the coordination files, cannot be used: {error}"
            ) from error
        for failure in logs.take_failures():
            logger.error("log directory %s cannot be used: %s", failure.path, failure.reason)
        for warning in self._tree.warnings:
            logger.warning("%s", warning)
        self._orphaned = OrphanedLogs()
        self.services = self._build_services(settings, logs)
        self._own_descriptors = 0
        self.server = SocketServer(
            self._loop, self.services, self._executor, self._supervisor, self._connections_max
        )
        self._background = Background(
            self.services,
            loop=self._loop,
            files=self._files,
            executor=self._executor,
            supervisor=self._supervisor,
            wheel=self._wheel,
            server=self.server,
            on_fatal=self._on_fatal,
        )

    def _build_services(self, settings: BrokerSettings, logs: LogManager) -> Services:
        purgatory = Purgatory(self._wheel, self._metrics)
        self._wheel.after_turn = purgatory.run_notified
        self._coordination_work = ThreadWork(
            self._loop,
            self._coordination_executor,
            after=purgatory.run_notified,
            on_broken=lambda error: self._on_task_failure("coordination", error),
        )
        partitions = Partitions()
        leadership = Leadership(
            broker_id=lambda: self._broker_id,
            logs=logs,
            partitions=partitions,
            purgatory=purgatory,
            config_of=self._config_of,
            run_jobs=lambda jobs: self._background.run_jobs(jobs),
            clock=self._clock,
            rng=self._rng,
            on_fatal=self._on_fatal,
        )
        self._leadership = leadership
        controller = self._build_controller(settings, leadership)
        topics = Topics(lambda: controller.image, self._auto_create)
        groups = self._build_groups(settings, topics, purgatory)
        leadership.on_leader_change = self._on_leader_change
        leadership.on_deleted = groups.on_partition_deleted
        return Services(
            settings=settings,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics,
            loop_watch=self._loop_watch,
            purgatory=purgatory,
            partitions=partitions,
            appends=Appends(purgatory, self._metrics),
            fetch_sessions=FetchSessions(
                settings.max_incremental_fetch_session_cache_slots, self._rng.below
            ),
            time_lookups=TimeLookups(self._files, self._search_in_thread, purgatory),
            producer_ids=ProducerIds(controller.allocate_producer_ids),
            topics=topics,
            controller=controller,
            logs=logs,
            files=self._files,
            groups=groups,
            refused_transactions=RefusedTransactions(),
        )

    def _build_controller(self, settings: BrokerSettings, leadership: Leadership) -> Controller:
        return Controller(
            self._tree.connect,
            ControllerSettings(
                partitions=settings.num_partitions,
                replication_factor=settings.default_replication_factor,
                is_deletion_enabled=settings.delete_topic_enable,
                is_unclean_election_enabled=settings.unclean_leader_election_enable,
            ),
            door=leadership,
            listener=self,
            clock=self._clock,
            rng=self._rng,
            check_new_topic=self._orphaned.check_new_topic,
        )

    def _search_in_thread(self, search: Callable[[], None], done: Callable[[], None]) -> None:
        self._background.in_thread("a search by time", search, done)

    def _build_groups(
        self, settings: BrokerSettings, topics: Topics, purgatory: Purgatory
    ) -> GroupCoordinator:
        doors = Doors(
            purgatory,
            self._wheel,
            self._clock,
            Limits(
                initial_delay_ms=settings.group_initial_rebalance_delay_ms,
                session_min_ms=settings.group_min_session_timeout_ms,
                session_max_ms=settings.group_max_session_timeout_ms,
                members_max=settings.group_max_size,
                metadata_bytes_max=settings.offset_metadata_max_bytes,
            ),
            codec=settings.offsets_topic_compression_codec,
            commit_timeout_ms=settings.offsets_commit_timeout_ms,
            consumer=consumer_settings(settings),
            refuse=refuse_setting(settings.written),
        )
        return GroupCoordinator(
            doors,
            topics,
            self._rng,
            partition_count=settings.offsets_topic_num_partitions,
            retention_ms=settings.offsets_retention_minutes * 60_000,
        )

    def _on_leader_change(self, partition: Partition) -> None:
        if partition.topic != OFFSETS_TOPIC:
            return
        groups = self.services.groups
        if partition.leader is None:
            groups.resign(partition.index)
        else:
            groups.lead(partition)

    def start(self) -> None:
        """Bring the broker up; when this returns, clients are served.

        raises  StartError, StartInterrupted and what the parts refuse to start with; `stop` then
                leaves the directories as they were
        """
        services = self.services
        settings = services.settings
        self._check_interrupted()
        cluster_id = services.controller.prepare(self._stored_cluster_id).result()
        services.logs.claim(
            broker_id=self._broker_id,
            cluster_id=cluster_id,
            date=strftime("%a %b %d %H:%M:%S %Z %Y"),
        )
        self._bind()
        services.logs.load(
            self._config_of,
            now_ms=self._clock.now_ms(),
            monotonic_ms=self._clock.monotonic_ms,
            check_interrupted=self._check_interrupted,
        )
        services.controller.start(self._identity()).result()
        self._check_interrupted()
        self._orphaned.find(services.controller.image, services.logs)
        complaint = self._orphaned.complaint()
        if complaint is not None:
            logger.warning("%s", complaint)
        self._tree.serve(
            self._coordination_work, on_failure=self._on_fatal, on_problem=self.on_problem
        )
        self._leadership.run_later = self._run_later
        self._leadership.on_space = services.controller.report_log_directories
        self._leadership.on_flush_awaited = self._background.flush_soon
        self._background.on_tick = self._leadership.retry
        self._background.start()
        self._wheel.every(
            min(settings.offsets_retention_check_interval_ms, LONG_MS), services.groups.expire
        )
        self._reserve.restore()
        self._wheel.every(RESERVE_CHECK_MS, self._reserve.restore)
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
        """For how many connections there are descriptors; less while clients hold many files."""
        held_count = max(0, self._descriptors.open_count - self._shares.files)
        return max(1, self._shares.connections(self._own_descriptors) - held_count)

    @property
    def compaction(self) -> Compaction:
        """The cleaner of compacted logs; the node is started."""
        return self._background.compaction

    def _run_later(self, work: Callable[[], None]) -> None:
        def run() -> None:
            began_ns = monotonic_ns()
            work()
            self.services.purgatory.run_notified()
            self._loop_watch.ran(began_ns, work)

        self._loop.call_soon(run)

    def _bind(self) -> None:
        settings = self.services.settings
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

    def _config_of(self, topic: str) -> LogConfig:
        services = self.services
        overrides = services.controller.image.topic_config(topic)
        return topic_log_config(services.settings, None, overrides)

    def _auto_create(self, topic: str, requester: str) -> Pending[TopicResult]:
        services = self.services
        alive = len(services.controller.image.live_brokers())
        return services.controller.auto_create_topic(
            first_use_topic(topic, services.settings, broker_count=alive), requested_by=requester
        )

    def on_config_changed(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        """Overrides changed in the coordination service: take effect while running."""
        services = self.services
        if entity_type == TOPICS:
            for partition in services.partitions.topic(entity).values():
                partition.log.config = self._config_of(entity)
        elif entity_type == BROKERS:
            stored = services.controller.image.broker_configs
            dynamic = DynamicSettings(
                stored.get(DEFAULT_ENTITY, {}), stored.get(str(self._broker_id), {})
            )
            services.settings = with_dynamic(services.settings, dynamic)
            for warning in services.settings.warnings:
                logger.warning("%s", warning)
            for partition in services.partitions.all():
                partition.log.config = self._config_of(partition.topic)
            self._background.on_settings_changed()

    def on_problem(self, text: str) -> None:
        """Something that an operator should read."""
        logger.warning("%s", text)

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
        """Stop; what was answered is on disk afterwards, and the next start need not check it.

        Also after a start that did not get to its end.
        """
        self._background.stop()
        self.server.close()
        for listener in self.listeners:
            listener.socket.close()
        self._wheel.close()
        await self._background.finish()
        await self._supervisor.close()
        services = self.services
        try:
            services.controller.shutdown()
            while self._coordination_work.is_running:
                await self._coordination_work.finish()
            self._tree.close()
        except (CoordinationError, OSError) as error:
            logger.warning("the end of coordination is not stored: %s", error)
        services.logs.shutdown(now_ms=self._clock.now_ms())
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._coordination_executor.shutdown(wait=False)


def check_first_directory(files: FileSystem, log_dirs: Sequence[str]) -> None:
    """Refuse a start without the coordination files of a later directory: it would know no topic.

    raises  StartError
    """
    first = log_dirs[0]
    holders = []
    for folder in log_dirs:
        with contextlib.suppress(OSError):
            if any(find_files(files, folder)):
                holders.append(folder)
    if holders and first not in holders:
        raise StartError(
            f"the coordination files are in {holders[0]}, not in the first of log.dirs, {first}: "
            f"put it first"
        )


def consumer_settings(settings: BrokerSettings) -> ConsumerSettings:
    """What bounds groups of the new protocol."""
    return ConsumerSettings(
        is_served=CONSUMER in settings.group_coordinator_rebalance_protocols,
        session_timeout_ms=settings.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        assignment_interval_ms=assignment_interval_ms(settings.written),
        members_max=settings.group_consumer_max_size,
        classic_members_max=settings.group_max_size,
        assignors=assignor_names(settings.group_consumer_assignors),
        migration=MigrationPolicy(settings.group_consumer_migration_policy.lower()),
    )
