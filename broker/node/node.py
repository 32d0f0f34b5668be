"""One broker: its parts, started and stopped.

Order of a start (Kafka: KafkaServer.startup): lock the directories; coordination, broker id,
cluster id, configs; check that the directories belong to this broker; bind; load the logs;
register, elect, lead; accept.
Order of a stop: have the leaderships moved; end the connections and stop fetching; leave the
cluster; flush and close the logs.
A start that fails or is interrupted ends with a stop, so that the next one finds the directories
unchanged.

With embedded coordination every step of a start is done when its call returns.  With an ensemble
the loop runs while a step waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from socket import gethostname
from time import strftime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from odradek.broker.fsync import is_fsync_enabled
from odradek.broker.node.audit_log import AuditLog, open_audit_log
from odradek.broker.node.background import LONG_MS
from odradek.broker.node.controlled_shutdown import ControlledShutdown, until_done
from odradek.broker.node.coordination import (
    Coordination,
    EmbeddedCoordination,
    ZooKeeperCoordination,
    zookeeper_options,
)
from odradek.broker.node.formatted_directories import check_directories
from odradek.broker.node.metadata_directory import MetadataDirectory
from odradek.broker.node.monitoring import Monitoring, bind_monitoring
from odradek.broker.node.parts import NodeParts
from odradek.broker.node.password_rotation import replace_old_secret
from odradek.broker.node.platform import Platform
from odradek.broker.node.standby_listener import StandbyListener
from odradek.broker.node.start_error import StartError, StartInterrupted
from odradek.broker.node.tls import NodeTls
from odradek.broker.node.tree_listener import TreeListener, bind_tree_listener
from odradek.broker.server.bound_listener import BoundListener, bind, cannot_listen
from odradek.broker.server.socket_server import SocketServer
from odradek.broker.services import Services
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.controller.controller import Identity
from odradek.controller.coordination.errors import (
    PROCEDURE_ERRORS,
    ConnectionLoss,
    CoordinationError,
    SessionExpired,
)
from odradek.controller.image.image import Endpoint
from odradek.controller.membership.registration import (
    RegistrationRefused,
    next_broker_id,
    store_coordinator,
)
from odradek.runtime.descriptor_limit import open_descriptors
from odradek.runtime.logging import error_text
from odradek.runtime.pending import Pending
from odradek.runtime.scheduler import scheduler_of
from odradek.runtime.work import SerialQueue, in_units
from odradek.storage.checkpoints.meta_properties import (
    KRAFT_VERSION,
    ZOOKEEPER_VERSION,
    stored_broker_id,
    stored_cluster_id,
)
from odradek.storage.directories.log_manager import LogManager

if TYPE_CHECKING:
    from odradek.broker.compaction.compaction import Compaction
    from odradek.controller.coordination.zookeeper_connection import ZooKeeperOptions

T = TypeVar("T")

DESCRIPTORS_ADVISED: Final = 4_096
"""A start with a lower limit logs a warning; Kafka's documentation recommends 100,000."""
INTERRUPT_CHECK_S: Final = 0.1
REGISTRATION_RETRY_S: Final = 0.5
SESSIONS_WAITED: Final = 3
"""Session timeouts until a registration must have ended."""
EXPIRY_RETRY_MS: Final = 60_000
"""How long a start goes on in new sessions: each has zookeeper.connection.timeout.ms to connect."""
METADATA_WAIT_MS: Final = 10_000
METADATA_CHECK_S: Final = 0.01
LEAVE_TIMEOUT_S: Final = 6
SHORT_LEAVE_TIMEOUT_S: Final = 1
"""After a second signal."""
FIRST_GENERATED_ID: Final = 1001
"""The id that Kafka gives the first broker without one (reserved.broker.max.id + 1)."""

logger = logging.getLogger("odradek")


class Node:
    """A broker on an event loop.  Making one locks its directories and opens its coordination."""

    parts: NodeParts
    """Built when the broker's id is known: here, or by `start` when the cluster gives the id."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        forgets_dynamic_settings: bool = False,
    ) -> None:
        """
        should_stop  called between the steps of a start; True ends it
        forgets_dynamic_settings  whether the start removes the stored settings of this broker and
                                  of all brokers
        """
        self._loop = loop
        self._settings = settings
        self._should_stop = should_stop
        self._forgets_dynamic_settings = forgets_dynamic_settings
        self._platform = self._open_platform()
        self._stopping = asyncio.Event()
        self._hand_over_ended = asyncio.Event()
        self._fatal: str | None = None
        self._own_descriptors = 0
        self._logs = LogManager(
            self._platform.files,
            settings.log_dirs,
            self._platform.descriptors,
            file_delete_delay_ms=settings.log_segment_delete_delay_ms,
        )
        self.listeners: list[BoundListener] = []
        self._tree_listener: TreeListener | None = None
        self._monitoring: Monitoring | None = None
        self._audit_log: AuditLog | None = None
        self._standby_listener: StandbyListener | None = None
        self._metadata_directory: MetadataDirectory | None = None
        self._is_built = False
        try:
            # First of all: a port that is taken leaves no new directory.
            self._tls = NodeTls(settings)
            self._bind(settings)
            self._open_directories(settings)
        except BaseException:
            self._close_listeners()
            raise

    def _open_platform(self) -> Platform:
        return Platform(
            self._loop,
            on_fatal=self._on_fatal,
            is_fsync_enabled=is_fsync_enabled(self._settings.written),
        )

    def _open_directories(self, settings: BrokerSettings) -> None:
        check_directories(self._platform.files, settings)
        identities = self._logs.open_directories()
        self._stored_cluster_id = stored_cluster_id(identities)
        stored_id = stored_broker_id(identities)
        broker_id = settings.broker_id
        if broker_id < 0 and stored_id is not None:
            broker_id = stored_id
        try:
            self._coordination = self._open_coordination(settings)
            for failure in self._logs.take_failures():
                logger.error("log directory %s cannot be used: %s", failure.path, failure.reason)
            if broker_id < 0 and self._coordination.is_embedded:
                broker_id = FIRST_GENERATED_ID
            if broker_id >= 0:
                self._build(broker_id)
        except BaseException:
            self._logs.shutdown(now_ms=self._platform.clock.now_ms())
            self._close_metadata_directory()
            raise

    def _open_coordination(self, settings: BrokerSettings) -> Coordination:
        platform = self._platform
        if settings.zookeeper_connect is None:
            folder = settings.metadata_log_dir
            if folder not in settings.log_dirs:
                self._metadata_directory = MetadataDirectory(platform.files, folder)
            others = [path for path in settings.log_dirs if path != folder]
            return EmbeddedCoordination(platform, [folder, *others], self._tree_listener)
        return ZooKeeperCoordination(platform, self._zookeeper_options(settings))

    def _zookeeper_options(self, settings: BrokerSettings) -> ZooKeeperOptions:
        return zookeeper_options(settings)

    def _build(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.parts = NodeParts(
            self._platform,
            self._settings,
            self._coordination,
            broker_id=broker_id,
            logs=self._logs,
            connections_max=self._connections_max,
            tls=self._tls,
        )
        self._is_built = True

    @property
    def services(self) -> Services:
        """What handlers use."""
        return self.parts.services

    @property
    def server(self) -> SocketServer:
        """The connections of clients."""
        return self.parts.server

    def start(self) -> None:
        """Bring the broker up; when this returns, clients are served.

        raises  StartError, StartInterrupted and the errors of the parts; call `stop` then: it
                leaves the directories unchanged
        """
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        logs = self._logs
        self._check_interrupted()
        if not self._is_built:
            self._build(await self._generate_id())
        parts, controller = self.parts, self.services.controller
        # An ensemble without a cluster id is not that of these directories, or has lost its data:
        # it gets an id of its own, and `claim` refuses the start (Kafka: InconsistentClusterId).
        stored_id, is_proposed = self._stored_cluster_id, self._coordination.is_embedded
        cluster_id = await self._despite(
            (SessionExpired,),
            lambda: controller.prepare(
                stored_id,
                is_proposed=is_proposed,
                forget_configs_of=self._broker_id if self._forgets_dynamic_settings else None,
            ),
        )
        date = strftime("%a %b %d %H:%M:%S %Z %Y")
        if self._metadata_directory is not None:
            self._metadata_directory.claim(
                node_id=self._broker_id, cluster_id=cluster_id, date=date
            )
        logs.claim(
            broker_id=self._broker_id,
            cluster_id=cluster_id,
            date=date,
            version=ZOOKEEPER_VERSION if self._settings.quorum is None else KRAFT_VERSION,
        )
        if self._settings.quorum is not None and self._coordination.is_embedded:
            await self._store_coordinator()
        logs.load(
            parts.configs.log_config,
            now_ms=self._platform.clock.now_ms(),
            monotonic_ms=self._platform.clock.monotonic_ms,
            check_interrupted=self._check_interrupted,
        )
        await self._register()
        self._check_interrupted()
        if self._coordination.is_embedded:
            parts.orphaned.find(controller.image, logs)
            warning = parts.orphaned.warning()
            if warning is not None:
                logger.warning("%s", warning)
        self._begin_background_work()
        replace_old_secret(self._settings, controller, self._platform.rng)
        self._accept()
        if self._monitoring is not None:
            await self._monitoring.listen(self._platform, parts, self._stopping.is_set)
        await self._wait_for_metadata()

    async def _wait_for_metadata(self) -> None:
        """Until the controller has sent what this broker needs for a first Metadata response.

        Some clients take an empty response for the truth and do not ask again for minutes.  Without
        a controller the start ends after a while: there may be one later.
        """
        clock, controller = self._platform.clock, self.services.controller
        deadline_ms = clock.monotonic_ms() + METADATA_WAIT_MS
        while self._broker_id not in controller.image.brokers:
            if clock.monotonic_ms() >= deadline_ms:
                logger.warning("no controller has sent metadata for %d ms", METADATA_WAIT_MS)
                return
            await asyncio.sleep(METADATA_CHECK_S)
            self._check_interrupted()

    async def _generate_id(self) -> int:
        """An id that the cluster has not given to another broker."""
        session = self._coordination.connect(lambda event: None)
        try:
            number = await self._wait(next_broker_id(session))
        finally:
            session.close()
        return self._settings.reserved_broker_max_id + number

    async def _store_coordinator(self) -> None:
        """Let the other nodes know who coordinates (DescribeQuorum)."""
        session = self._coordination.connect(lambda event: None)
        try:
            storing = SerialQueue(*PROCEDURE_ERRORS).submit(
                lambda: store_coordinator(session, self._broker_id)
            )
            await self._wait(storing)
        finally:
            session.close()

    async def _register(self) -> None:
        """Register and take part in the election.

        Differs from Kafka, which ends at once when the id is in use: the registration of a process
        that was killed stays until its session ends, so a quick restart waits that long.
        """
        controller, clock = self.services.controller, self._platform.clock
        wait_ms = (
            0 if self._coordination.is_embedded else self._settings.zookeeper_session_timeout_ms
        )
        deadline_ms = reconnections = 0
        is_first = True

        def begin_wait() -> None:
            nonlocal deadline_ms, reconnections
            deadline_ms = clock.monotonic_ms() + SESSIONS_WAITED * wait_ms
            reconnections = controller.reconnections

        begin_wait()
        while True:
            try:
                await self._despite(
                    (SessionExpired, ConnectionLoss),
                    lambda: controller.start(self._identity()),
                    begin_wait,
                )
                return
            except RegistrationRefused as refusal:
                if controller.reconnections > reconnections:
                    begin_wait()
                if clock.monotonic_ms() >= deadline_ms:
                    raise
                if is_first:
                    logger.warning("%s: waiting for the end of its session", refusal)
            is_first = False
            await asyncio.sleep(REGISTRATION_RETRY_S)
            self._check_interrupted()

    async def _despite(
        self,
        lost: tuple[type[CoordinationError], ...],
        ask: Callable[[], Pending[T]],
        on_lost: Callable[[], None] = lambda: None,
    ) -> T:
        """The result; asks again when a session or connection was lost before the response.

        A start may stand still for so long that its session expires, while a disk or the whole
        machine does.  An ensemble that was never reached ends it: nothing is lost by that.
        """
        clock = self._platform.clock
        deadline_ms = clock.monotonic_ms() + EXPIRY_RETRY_MS
        is_first = True
        while True:
            try:
                return await self._wait(ask())
            except lost as error:
                if clock.monotonic_ms() >= deadline_ms:
                    raise
                on_lost()
                if is_first:
                    logger.warning(
                        "the start asks the coordination service again: %s", error_text(error)
                    )
            is_first = False
            await asyncio.sleep(REGISTRATION_RETRY_S)
            self._check_interrupted()

    async def _wait(self, pending: Pending[T]) -> T:
        """The result of a pending; ends when a signal has come."""
        if not pending.is_done:
            done = self._loop.create_future()
            pending.on_done(partial(_set_done, done))
            try:
                while not done.done():
                    await asyncio.wait((done,), timeout=INTERRUPT_CHECK_S)
                    self._check_interrupted()
            finally:
                done.cancel()
        return pending.result()

    def _begin_background_work(self) -> None:
        """From now on syncs, index rebuilds and long requests no longer hold up the loop."""
        parts = self.parts
        self._coordination.serve(
            parts.coordination_work, on_failure=self._on_fatal, on_warning=parts.configs.on_warning
        )
        parts.leadership.serve(self._platform.defer)
        self.services.controller.serve(self._platform.defer)
        if self.services.authorizer is not None:
            self.services.authorizer.serve(self._platform.defer)
        tokens = self.services.handler_parts.delegation_tokens
        if tokens is not None:
            tokens.serve(self._platform.defer)
        self._platform.descriptors.serve(parts.jobs.rebuild_index)
        parts.background.start()
        self._tls.serve(self._platform, parts.services.current_settings)
        parts.configs.observe(self._tls.on_settings_changed)
        settings, services = self._settings, self.services
        for interval_ms, work in (
            (settings.offsets_retention_check_interval_ms, services.groups.expire_offsets),
            (
                settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                services.transactions.abort_timed_out,
            ),
            (
                settings.transaction_remove_expired_transaction_cleanup_interval_ms,
                services.transactions.remove_expired,
            ),
        ):
            self._platform.wheel.every(min(interval_ms, LONG_MS), work)
        lag_max_ms = self._settings.replica_lag_time_max_ms
        self._platform.wheel.every(
            min(max(1, lag_max_ms // 2), LONG_MS), parts.in_sync_replicas.check
        )

    def _accept(self) -> None:
        self._own_descriptors = open_descriptors() - self._platform.descriptors.open_count
        if self._platform.shares.limit < DESCRIPTORS_ADVISED:
            logger.warning(
                "this process may open %d files only: %d for logs, %d connections",
                self._platform.shares.limit,
                self._platform.shares.files,
                self._connections_max(),
            )
        for listener in self.listeners:
            try:
                self.server.listen(listener)
            except OSError as error:
                text = cannot_listen(listener.address, listener.port, error)
                raise StartError(text) from error

    def _check_interrupted(self) -> None:
        if self._should_stop():
            raise StartInterrupted

    def _connections_max(self) -> int:
        """The connections that there are descriptors for; less while clients hold many files."""
        held_count = max(0, self._platform.descriptors.open_count - self._platform.shares.files)
        return max(1, self._platform.shares.connections(self._own_descriptors) - held_count)

    @property
    def compaction(self) -> Compaction:
        """The cleaner of compacted logs; the node is started."""
        return self.parts.lazy_compaction.get()

    def _bind(self, settings: BrokerSettings) -> None:
        for listener in settings.listeners:
            try:
                bound = bind(
                    listener.name,
                    listener.host,
                    listener.port,
                    listener.protocol,
                    self._tls.get(listener.name),
                )
            except OSError as error:
                raise StartError(cannot_listen(str(listener), listener.port, error)) from error
            self.listeners.append(bound)
        self._tree_listener = bind_tree_listener(settings, self._platform)
        self._monitoring = bind_monitoring(settings)
        self._audit_log = open_audit_log(settings.written)
        self._standby_listener = StandbyListener(self._loop, settings)

    def _close_metadata_directory(self) -> None:
        if self._metadata_directory is not None:
            self._metadata_directory.close()

    def _close_listeners(self) -> None:
        if self._tree_listener is not None:
            self._tree_listener.close()
        if self._monitoring is not None:
            self._monitoring.close()
        if self._audit_log is not None:
            self._audit_log.close()
        if self._standby_listener is not None:
            self._standby_listener.close()
        for listener in self.listeners:
            listener.socket.close()

    def _identity(self) -> Identity:
        settings = self._settings
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

    def _on_fatal(self, reason: str) -> None:
        if self._fatal is None:
            self._fatal = reason
            logger.critical("stopping: %s", reason)
            self._stopping.set()

    def request_stop(self) -> None:
        """Begin to stop, from a signal; a second one ends the wait for the other brokers."""
        if self._stopping.is_set():
            self._hand_over_ended.set()
        self._stopping.set()

    async def run_until_stopped(self) -> None:
        """Serve until a signal or a fatal failure, then stop cleanly.

        raises  StartError when the broker stopped because it could not go on
        """
        if not self._coordination.is_embedded:
            self._prepare_first_requests()
        await self._stopping.wait()
        logger.info("shutting down")
        if self._settings.controlled_shutdown_enable:
            await self._hand_over()
        await self.stop()
        if self._fatal is not None:
            raise StartError(self._fatal)

    async def _hand_over(self) -> None:
        """Have others lead what this broker leads, until that is done or a second signal comes."""
        shutdown = ControlledShutdown(
            self._broker_id,
            self._settings,
            self.services,
            self.parts,
            lambda: self._fatal is not None,
        )
        handing_over = asyncio.ensure_future(shutdown.run())
        signalled = asyncio.ensure_future(self._hand_over_ended.wait())
        ends: list[asyncio.Future[Any]] = [handing_over, signalled]
        if self._settings.quorum is not None and not self._coordination.is_embedded:
            ends.append(asyncio.ensure_future(shutdown.until_coordinator_is_away()))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if handing_over.done():
                handing_over.result()
            else:
                reason = "after a second signal"
                if not signalled.done():
                    reason = "since the node that coordinates is away"
                    self._hand_over_ended.set()
                logger.warning("stopping without a controlled shutdown, %s", reason)
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    def _prepare_first_requests(self) -> None:
        """Load what the other brokers and their clients ask for first; 100 ms on a busy machine
        would be the pause of their first requests."""
        platform = self._platform
        steps = self.server.dispatcher.prepare_first_requests()
        scheduler = scheduler_of(platform.clock, platform.defer, "first requests")
        scheduler.run_later(lambda: in_units(steps))

    async def stop(self) -> None:
        """Stop, with every acknowledged record on disk; the next start need not check the logs.

        Also after a start that has failed.
        """
        if self._is_built:
            self.parts.background.stop()
            self.parts.server.close()
            self.parts.replica_fetchers.close()
            self.parts.log_directory_moves.close()
            self.parts.transactions.close()
            self.parts.controller_channel.close()
        self._close_listeners()
        self._platform.wheel.close()
        if self._is_built:
            await self.parts.jobs.finish()
        await self._platform.supervisor.close()
        try:
            if self._is_built:
                await self._leave()
            self._coordination.close()
        except (CoordinationError, OSError) as error:
            logger.warning("the end of coordination is not stored: %s", error)
        self._logs.shutdown(now_ms=self._platform.clock.now_ms())
        self._close_metadata_directory()
        failures = self._logs.take_failures()
        for failure in failures:
            logger.error(
                "%s could not be closed: %s; its logs are checked at the next start",
                failure.path,
                failure.reason,
            )
        if self._is_built and not failures:
            logger.info("shut down completed: the log directories are closed cleanly")
        self._platform.close()

    async def _leave(self) -> None:
        """End the coordination session; one that cannot be ended now ends by its time-out."""
        leaving = self.services.controller.shutdown()
        while self.parts.coordination_work.is_running:
            await self.parts.coordination_work.finish()
        timeout_s = SHORT_LEAVE_TIMEOUT_S if self._hand_over_ended.is_set() else LEAVE_TIMEOUT_S
        try:
            await asyncio.wait_for(until_done(leaving), timeout_s)
        except TimeoutError:
            logger.warning("the coordination session cannot be ended; it ends by its time-out")


def _set_done(future: asyncio.Future[None], _: Pending[Any]) -> None:
    if not future.done():
        future.set_result(None)
