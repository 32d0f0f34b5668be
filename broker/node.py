"""One broker: its parts put together, started, and stopped.

Order of a start (Kafka: KafkaServer.startup): lock the directories; coordination, cluster id,
configs; check whose the directories are; load the logs; bind; register, elect, lead; accept.
Order of a stop: stop accepting; end the connections; leave the cluster; flush and close the logs.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from socket import gethostname
from time import strftime
from typing import TYPE_CHECKING, Final

import uvloop

from broker.background import LONG_MS, Background
from broker.delayed import Purgatory
from broker.group.consumer.settings import (
    CONSUMER,
    ConsumerSettings,
    MigrationPolicy,
    assignment_interval_ms,
    assignor_names,
)
from broker.group.coordinator import OFFSETS_TOPIC, GroupCoordinator
from broker.group.doors import Doors
from broker.group.limits import Limits
from broker.producer_ids import ProducerIds
from broker.replication.appends import Appends
from broker.replication.fetch_session import FetchSessions
from broker.replication.leadership import Leadership
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from broker.server.listener import Listener, SocketServer, bind
from broker.services import Services
from broker.settings.alter import DEFAULT_ENTITY
from broker.settings.broker_settings import BrokerSettings, with_dynamic
from broker.settings.dynamic import DynamicSettings
from broker.settings.topic_config import topic_log_config
from broker.topics import INTERNAL_TOPICS, Topics
from controller.configs import BROKERS, TOPICS
from controller.coordination.embedded import EmbeddedTree
from controller.coordination.errors import CoordinationError
from controller.coordination.journal import SnapshotDamaged
from controller.decide.topics import CreateTopic
from controller.driver import Controller, Identity
from controller.image import Endpoint
from controller.leadership import ControllerSettings
from runtime.clock import Clock, SystemClock
from runtime.metrics import BrokerMetrics
from runtime.rng import SystemRng
from runtime.system_files import SystemFileSystem
from runtime.tasks import Supervisor
from runtime.timers import TimingWheel
from runtime.wheel_driver import WheelDriver
from storage.descriptors import Descriptors
from storage.log_config import LogConfig
from storage.log_directory import DirectoryInUse
from storage.manager import DuplicateLog, LogManager, NoDirectoryLeft
from storage.meta_properties import MetaPropertiesError, stored_broker_id

if TYPE_CHECKING:
    from broker.compaction.compaction import Compaction

WORKERS: Final = 4
GC_THRESHOLD: Final = 20_000
"""Requests leave no cycles behind; looking for them every 700 objects costs 2 % of a small one."""
FIRST_GENERATED_ID: Final = 1001
"""What Kafka gives the first broker without an id (reserved.broker.max.id + 1)."""

logger = logging.getLogger("odradek")


class StartError(Exception):
    """The broker cannot start; one line says why."""


class Node:
    """A broker on an event loop.  Making one locks its directories and opens its coordination."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: BrokerSettings) -> None:
        self._loop = loop
        self._files = SystemFileSystem()
        self._clock: Clock = SystemClock()
        self._rng = SystemRng()
        self._executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="disk")
        self._supervisor = Supervisor(loop, self._on_task_failure)
        self._wheel = WheelDriver(loop, self._clock, TimingWheel(self._clock.monotonic_ms()))
        self._stopping = asyncio.Event()
        self._fatal: str | None = None
        self._descriptors = Descriptors(self._files)
        logs = LogManager(
            self._files,
            settings.log_dirs,
            self._descriptors,
            file_delete_delay_ms=settings.log_segment_delete_delay_ms,
        )
        stored_id = stored_broker_id(logs.open_directories())
        self._broker_id = settings.broker_id
        if self._broker_id < 0:
            self._broker_id = FIRST_GENERATED_ID if stored_id is None else stored_id
        try:
            self._tree = EmbeddedTree(self._files, settings.log_dirs[0], self._clock)
        except OSError as error:
            raise StartError(
                f"the first of log.dirs, with the coordination files, cannot be used: {error}"
            ) from error
        for failure in logs.take_failures():
            logger.error("log directory %s cannot be used: %s", failure.path, failure.reason)
        if self._tree.torn_bytes:
            logger.warning("%d torn bytes of coordination are cut off", self._tree.torn_bytes)
        self.services = self._build_services(settings, logs)
        self.server = SocketServer(loop, self.services, self._executor, self._supervisor)
        self._background = Background(
            self.services,
            loop=loop,
            files=self._files,
            executor=self._executor,
            supervisor=self._supervisor,
            wheel=self._wheel,
            server=self.server,
            on_fatal=self._on_fatal,
        )
        self.listeners: list[Listener] = []

    def _build_services(self, settings: BrokerSettings, logs: LogManager) -> Services:
        metrics = BrokerMetrics()
        purgatory = Purgatory(self._wheel, metrics)
        self._wheel.after_turn = purgatory.run_notified
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
        controller = Controller(
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
        )
        topics = Topics(lambda: controller.image, self._auto_create)
        groups = self._build_groups(settings, topics, purgatory)
        leadership.on_leader_change = self._on_leader_change
        leadership.on_deleted = groups.on_partition_deleted
        return Services(
            settings=settings,
            clock=self._clock,
            rng=self._rng,
            metrics=metrics,
            purgatory=purgatory,
            partitions=partitions,
            appends=Appends(purgatory, metrics),
            fetch_sessions=FetchSessions(
                settings.max_incremental_fetch_session_cache_slots, self._rng.below
            ),
            producer_ids=ProducerIds(controller.allocate_producer_ids),
            topics=topics,
            controller=controller,
            logs=logs,
            files=self._files,
            groups=groups,
        )

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

        raises  StartError and what the parts refuse to start with
        """
        services = self.services
        settings = services.settings
        cluster_id = services.controller.prepare().result()
        services.logs.claim(
            broker_id=self._broker_id,
            cluster_id=cluster_id,
            date=strftime("%a %b %d %H:%M:%S %Z %Y"),
        )
        for found in services.logs.load(self._config_of, now_ms=self._clock.now_ms()):
            for name in found.unknown:
                logger.warning("%s holds no log and is left alone", name)
        self._bind()
        services.controller.start(self._identity()).result()
        self._leadership.run_later = self._run_later
        self._background.on_tick = self._leadership.retry
        self._background.start()
        self._wheel.every(
            min(settings.offsets_retention_check_interval_ms, LONG_MS), services.groups.expire
        )
        for listener in self.listeners:
            self.server.listen(listener)

    @property
    def compaction(self) -> Compaction:
        """The cleaner of compacted logs; the node is started."""
        return self._background.compaction

    def _run_later(self, work: Callable[[], None]) -> None:
        def run() -> None:
            work()
            self.services.purgatory.run_notified()

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
                bound = bind(
                    listener.name,
                    listener.host,
                    listener.port,
                    settings.socket_listen_backlog_size,
                )
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

    def _auto_create(self, topic: str) -> None:
        self.services.controller.auto_create_topic(internal_wish(topic, self.services.settings))

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
        """Stop; what was answered is on disk afterwards, and the next start need not check it."""
        self._background.stop()
        self.server.close()
        self._wheel.close()
        await self._background.finish()
        await self._supervisor.close()
        services = self.services
        services.controller.shutdown()
        self._tree.close()
        high_watermarks = {
            (partition.topic, partition.index): partition.high_watermark
            for partition in services.partitions.all()
        }
        services.logs.shutdown(high_watermarks, now_ms=self._clock.now_ms())
        self._executor.shutdown(wait=False, cancel_futures=True)


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


def internal_wish(topic: str, settings: BrokerSettings) -> CreateTopic:
    """What a topic is made as when it is made because somebody asked for it.

    Internal topics bring their own settings (Kafka: AutoTopicCreationManager.creatableTopic).
    """
    if topic not in INTERNAL_TOPICS:
        return CreateTopic(topic)
    if topic == OFFSETS_TOPIC:
        return CreateTopic(
            topic,
            partitions=settings.offsets_topic_num_partitions,
            replication_factor=1,
            config={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    return CreateTopic(
        topic,
        partitions=settings.transaction_state_log_num_partitions,
        replication_factor=1,
        config={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


def ready_line(node: Node) -> str:
    """What a person reads when the broker is ready."""
    settings = node.services.settings
    listener = node.listeners[0]
    host = settings.listeners[0].host or "127.0.0.1"
    address = f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"
    return (
        f"odradek is ready on {address} -- try: "
        f"echo hello | kcat -P -b {address} -t greetings && kcat -C -b {address} -t greetings -e"
    )


def run(settings: BrokerSettings) -> None:
    """Start a broker, print one line, serve until SIGTERM or SIGINT.

    raises  StartError
    """
    for warning in settings.warnings:
        logger.warning("%s", warning)
    if settings.zookeeper_connect is not None:
        logger.warning(
            "zookeeper.connect=%s has no effect: coordination is embedded in this broker, for one "
            "machine, development and tests",
            settings.zookeeper_connect,
        )
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        node = Node(loop, settings)
        node.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, node.request_stop)
        # What exists by now stays; walking over it again and again would only cost time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        sys.stdout.write(ready_line(node) + "\n")
        sys.stdout.flush()
        loop.run_until_complete(node.run_until_stopped())
    except (
        CoordinationError,
        DirectoryInUse,
        DuplicateLog,
        MetaPropertiesError,
        NoDirectoryLeft,
        OSError,
        SnapshotDamaged,
    ) as error:
        raise StartError(str(error) or type(error).__name__) from error
    finally:
        loop.close()
