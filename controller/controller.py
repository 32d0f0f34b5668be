"""One broker's part in the cluster: registration, election, and the active controller if it wins.

Everything that uses the coordination service runs as procedures; watches only queue a procedure.
Those of the cluster's events and of the active controller run one at a time (`ControllerRequests`),
and what clients ask for of topics and configs on another queue (`AdminRequests`).  The active
controller sends control requests to its own broker as to every other: through
`ControlRequestReceiver.receive`.

What the coordination service refused is repeated (`ControllerRequests`), but not without a
connection: calls wait in the session meanwhile, and with them the procedures, so that a controller
whose session is suspended does nothing.

Order of a start: `prepare` (roots, cluster id, configs), then the broker loads its logs, then
`start` (registration, election, and if won the take-over).  With an embedded session all of it is
done when the call returns; with a remote one, when the pending is.

`image` is the image of this broker, made of UpdateMetadata requests and configs and replaced as a
whole.  The image of the active controller stays inside `ActiveController`.
Source: Kafka's KafkaServer.startup, KafkaController.
"""

# `async def` here is not asyncio and needs no event loop.  These functions are procedures that
# `runtime/work.py` (`SerialQueue`) runs one at a time, in order (Kafka: the controller event
# thread); they await nothing but `runtime.pending.Pending`.

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from odradek.controller.active.active_controller import ActiveController
from odradek.controller.active.admin_requests import AdminRequests
from odradek.controller.active.controller_requests import ControllerRequests, ControllerStep
from odradek.controller.active.partition_states import UNCLEAN_KEY, ControllerSettings, is_true
from odradek.controller.active.topic_admin import TopicAdmin
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.session import (
    CoordinationSession,
    EventCallback,
    SessionEvent,
    SessionState,
    WatchEvent,
)
from odradek.controller.image.control_requests import (
    ControlRequest,
    ControlRequestHandler,
    ControlRequestSender,
    ControlResponse,
)
from odradek.controller.image.image import BrokerImage, Endpoint, Image
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.controller.membership.election import Won, elect, watch_controller
from odradek.controller.membership.registration import (
    ensure_roots,
    find_cluster_id,
    new_cluster_id,
    register,
)
from odradek.controller.requests.control_channel import ControlChannel
from odradek.controller.requests.control_request_receiver import (
    ControllerListener,
    ControlRequestReceiver,
)
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.change_notifications import ChangeFollower
from odradek.controller.znodes.cluster_reading import Warn
from odradek.controller.znodes.config_znodes import encode_log_directory_event
from odradek.controller.znodes.dynamic_configs import (
    BROKERS,
    TOPICS,
    ConfigChanges,
    forget_broker_configs,
)
from odradek.controller.znodes.finalized_features import SUPPORTED, FinalizedFeatures
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.randomness import Randomness
from odradek.runtime.work import Defer, Procedure

Follower = TypeVar("Follower", bound=ChangeFollower)

logger = logging.getLogger("odradek.controller")

MIN_ISR_KEY: Final = "min.insync.replicas"


class Identity(NamedTuple):
    """The identity that a broker registers."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    """The advertised ones; port 0 is replaced by the port that was bound."""
    rack: str | None = None


class Controller:
    """Everything that a broker does in the cluster; see the module."""

    disconnections: int = 0
    """How often the connection to the coordination service was lost."""
    expirations: int = 0
    """How often the session there has expired."""

    def __init__(  # noqa: PLR0913 - what it hears from, what it drives, and its settings
        self,
        connect: Callable[[EventCallback], CoordinationSession],
        settings: ControllerSettings,
        *,
        handler: ControlRequestHandler,
        sender: ControlRequestSender,
        listener: ControllerListener,
        clock: Clock,
        randomness: Randomness,
        metadata: MetadataCache | None = None,
        check_new_topic: Callable[[str], None] = lambda name: None,
        on_features_read: Callable[[FinalizedFeatures], None] = lambda features: None,
    ) -> None:
        """connect           opens the coordination session, whose events go to the callback given
        handler           applies control requests on this broker
        sender            carries them to the other brokers while this one is the controller
        metadata          gets each new image; None makes a cache of its own
        check_new_topic   raises BrokerError when this broker cannot hold a new topic of that name
        on_features_read  called with `features` each time that their znode was read
        """
        self.broker_id = -1
        self.controller_id = -1
        """The content of /controller; -1 while there is none.  `image.controller_id` is the
        controller whose requests this broker applied last."""
        self._former_controller_id = -1
        """The last one that /controller contained."""
        self._identity: Identity | None = None
        self._settings = settings
        self._sender = sender
        self._warn = listener.on_warning
        self._clock = clock
        self._randomness = randomness
        self.requests = ControllerRequests(clock, self._warn, self._on_moved)
        self._is_suspended = False
        self.reconnections = 0
        """How often the connection to the coordination service has come back: an ensemble that was
        away gives the sessions of all others their whole time-out again."""
        self._has_directory_event = False
        self._is_closed = False
        self._has_session = True
        self._earlier_sessions: tuple[int, ...] = ()
        self._session = connect(self._on_event)
        self._metadata = metadata or MetadataCache()
        self.receiver = ControlRequestReceiver(self._session, handler, listener, self._metadata)
        self._configs = ConfigChanges(self._session, self._on_config, self._warn)
        self._followers: dict[str, ChangeFollower] = {self._configs.folder: self._configs}
        self._changed_folders: dict[str, None] = {}
        self.features = FinalizedFeatures(self._session, on_features_read)
        self._topic_admin = TopicAdmin(
            self._session, settings, randomness, lambda: self.image, check_new_topic=check_new_topic
        )
        self.admin = AdminRequests(self._session, self._topic_admin, lambda: self.requests.active)

    @property
    def image(self) -> Image:
        """The image of this broker; a caller keeps one image for the whole of a response."""
        return self._metadata.image

    @property
    def broker_epoch(self) -> int:
        """The zxid of this broker's registration; -1 before the first."""
        return self.receiver.broker_epoch

    @property
    def is_suspended(self) -> bool:
        """Whether the connection to the coordination service is lost."""
        return self._is_suspended

    @property
    def is_active(self) -> bool:
        """Whether this broker is the active controller."""
        return self.requests.active is not None

    def follow(self, make: Callable[[CoordinationSession, Warn], Follower]) -> Follower:
        """Have what `make` returns loaded by `prepare`, and notified of changes; called before it.

        A load that fails ends the start.  Each new session loads again, and what fails then is
        repeated: the follower keeps what it has read meanwhile.
        """
        follower = make(self._session, self._warn)
        self._followers[follower.folder] = follower
        return follower

    def prepare(
        self,
        stored_cluster_id: str | None = None,
        *,
        is_proposed: bool = True,
        forget_configs_of: int | None = None,
    ) -> Pending[str]:
        """Create the root znodes, find the cluster id, read all configs; resolves to the id.

        stored_cluster_id  of the log directories; holds where that of the cluster cannot be read
        is_proposed        it becomes the id of a cluster that has none; otherwise a new one does
        forget_configs_of  the broker whose dynamic settings, and those of all brokers, are removed
        fails              CoordinationError, BadZnode when the id cannot be read and is not stored
        """

        async def run() -> str:
            await ensure_roots(self._session)
            proposal = stored_cluster_id if is_proposed else None
            proposal = proposal or new_cluster_id(self._randomness.uuid())
            try:
                cluster_id = await find_cluster_id(self._session, proposal)
            except zk_data.BadZnode as error:
                # Differs from Kafka: there no broker starts until the znode is mended.
                if stored_cluster_id is None:
                    raise
                self._warn(f"{error}; going on with the cluster id of the log directories")
                cluster_id = stored_cluster_id
            self._metadata.set_cluster_id(cluster_id)
            if forget_configs_of is not None:
                await self._forget_configs(forget_configs_of)
            for follower in self._followers.values():
                await follower.load()
            await self.features.load(is_start=True)
            await self.receiver.note_configs()
            return cluster_id

        return self.requests.queue.submit(run)

    async def _forget_configs(self, broker_id: int) -> None:
        removed = await forget_broker_configs(self._session, broker_id, self._warn)
        for entity, names in removed.items():
            owner = "all brokers" if entity == zk_data.DEFAULT_ENTITY else f"broker {entity}"
            self._warn(f"dynamic settings of {owner} are removed: {', '.join(names)}")
        if not removed:
            self._warn("there are no dynamic settings of brokers to remove")

    def serve(self, defer: Defer) -> None:
        """Clients are served from now on: long procedures are divided into turns of the loop.

        Before, at the start, they are done when the call returns (with an embedded session).
        """
        self.requests.queue.serve(defer)
        self.receiver.serve(defer)
        self.admin.serve(defer)

    def start(self, identity: Identity) -> Pending[None]:
        """Register and take part in the election; called after `prepare`.

        fails  RegistrationRefused and other CoordinationErrors
        """

        async def run() -> None:
            self._identity = identity
            self.broker_id = identity.broker_id
            await self._register()
            try:
                await self.requests.run_guarded(self._elect)
            except zk_data.BadZnode as error:
                # It is tried again until the znode is mended; clients are served meanwhile.
                self.requests.repeat(ControllerStep.ELECTION)
                self._warn(f"there is no election: {error}")

        return self.requests.queue.submit(run)

    def report_log_directories(self) -> None:
        """A log directory of this broker failed, or has space again: the controller sends
        LeaderAndIsr to find out which replicas are online."""
        self._has_directory_event = True
        self._submit_step(ControllerStep.DIRECTORIES)

    async def _report_log_directories(self) -> None:
        if self._has_directory_event and self._identity is not None:
            event = encode_log_directory_event(self.broker_id)
            # Another directory may fail meanwhile, after the controller has looked at this one.
            self._has_directory_event = False
            path = zk_data.LOG_DIRECTORY_EVENT_PREFIX
            try:
                await self._session.create(path, event, sequential=True)
            except CoordinationError:
                self._has_directory_event = True
                raise

    def tick(self) -> None:
        """Repeat what the coordination service refused; called about once a second."""
        if self._is_suspended or self._is_closed:
            return
        self.receiver.tick()
        active = self.requests.active
        if active is not None and active.elections.is_rebalance_due(self._clock.now_ms()):
            self.requests.submit_event(lambda active: active.elections.rebalance())
        if active is not None and active.changes.is_due:
            self.requests.submit_event(_nothing)
        failed = self.requests.take_failed()
        if ControllerStep.REGISTRATION in failed:
            # It does all of it.
            self._submit_step(ControllerStep.REGISTRATION)
            return
        for step in ControllerStep:
            if step in failed:
                self._submit_step(step)

    def shutdown(self) -> Pending[None]:
        """Close the session, which ends the registration and, if active, the controllership."""

        async def run() -> None:
            self._is_closed = True
            self.requests.close()
            self._resign("it stops")
            await self._session.close()

        return self.requests.queue.submit(run)

    def _resign(self, reason: str) -> None:
        """This broker is not, or no longer, the active controller."""
        if self.requests.active is not None:
            logger.info("this broker is no longer the controller: %s", reason)
        self.requests.end()
        self._sender.set_brokers({})

    async def _register(self) -> None:
        identity = self._identity
        assert identity is not None, "`start` sets it"
        broker = BrokerImage(
            identity.broker_id, -1, identity.endpoints, identity.rack, features=SUPPORTED
        )
        self.receiver.broker_epoch = await register(
            self._session,
            broker,
            now_ms=self._clock.now_ms(),
            earlier_session_ids=self._earlier_sessions,
        )

    async def _elect(self) -> None:
        outcome = await elect(
            self._session,
            self.broker_id,
            self._clock.now_ms(),
            known_epoch=self.image.controller_epoch,
            on_overwritten=_report_overwritten_epoch,
        )
        if not isinstance(outcome, Won):
            self._note_controller(outcome.controller_id)
            return
        self._note_controller(self.broker_id, outcome.epoch)
        active = ActiveController(
            self._session,
            self.image._replace(controller_id=self.broker_id, controller_epoch=outcome.epoch),
            epoch_version=outcome.epoch_version,
            settings=self._settings,
            channel=ControlChannel(self.broker_id, self.receiver, self._sender, self._on_response),
            new_topic_id=self._topic_admin.new_topic_id,
            warn=self._warn,
            dynamic_setting=self._dynamic_setting,
            min_isr_of=self._min_isr_of,
        )
        self.requests.begin(active)
        # Until it is done: an election that is repeated does not find out that this was not.
        self.requests.repeat(ControllerStep.LOAD)
        await self._load()

    def _note_controller(self, controller_id: int, epoch: int | None = None) -> None:
        """/controller contains this id now, or nothing (-1).

        epoch  of the election that this broker has won
        """
        former, is_other = self._former_controller_id, controller_id != self.controller_id
        self.controller_id = controller_id
        if controller_id >= 0:
            self._former_controller_id = controller_id
        if epoch is not None:
            reason = "there was no other one"
            if former >= 0:
                was = "this broker" if former == self.broker_id else f"broker {former}"
                reason = f"{was} was the controller before"
            logger.info("this broker is the controller, epoch %d: %s", epoch, reason)
        elif is_other and controller_id not in (-1, self.broker_id):
            logger.info("broker %d is the controller", controller_id)

    async def _load(self) -> None:
        """The active controller takes over, or takes over again what was left half done."""
        active = self.requests.active
        if active is not None:
            await active.load()
            await active.log_take_over(self._clock.monotonic_ms())
        self.requests.done(ControllerStep.LOAD)

    async def _on_controller_changed(self) -> None:
        """/controller was created, changed or removed."""
        self._note_controller(await watch_controller(self._session))
        if self.controller_id != self.broker_id:
            self._resign(
                f"{zk_data.CONTROLLER} was removed"
                if self.controller_id < 0
                else f"broker {self.controller_id} is"
            )
        if self.controller_id < 0 or (
            self.controller_id == self.broker_id and self.requests.active is None
        ):
            await self._elect()

    async def _on_moved(self) -> None:
        """A fenced write failed: another controller was elected, or the epoch was overwritten."""
        self._resign("a write was refused, as the controller epoch is another one")
        # Until it is done: the step that has failed does not elect when it is repeated.
        self.requests.repeat(ControllerStep.ELECTION)
        await self._elect()
        self.requests.done(ControllerStep.ELECTION)

    async def _on_folders_changed(self) -> None:
        for folder in list(self._changed_folders):
            # Removed before the names are read, which sets the next watch.
            del self._changed_folders[folder]
            try:
                await self._followers[folder].on_changes(self._clock.now_ms())
            except BaseException:
                self._changed_folders[folder] = None
                raise

    async def _reload(self) -> None:
        """Notifications may have been removed while there was no session."""
        for follower in self._followers.values():
            if follower is not self._configs:
                await follower.load()

    async def _on_expired(self) -> None:
        """The session expired: its registration and, if active, the controllership ended."""
        self._resign("its session has expired")
        if not self._has_session:
            self._earlier_sessions = (*self._earlier_sessions[-7:], self._session.session_id)
            await self._session.reopen()
            self._has_session = True
        if self._identity is not None:
            await self._register()
        self._changed_folders[self._configs.folder] = None
        await self._on_folders_changed()
        await self._reload()
        await self.features.load()
        if self._identity is not None:
            await self._elect()
        await self._report_log_directories()

    def _on_config(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        self.receiver.on_config(entity_type, entity, config)
        if self.requests.active is None or not is_true(config.get(UNCLEAN_KEY, "")):
            return
        if entity_type == TOPICS:
            self.requests.submit_event(lambda active: active.elections.on_unclean_enabled(entity))
        elif entity_type == BROKERS and entity in (zk_data.DEFAULT_ENTITY, str(self.broker_id)):
            self.requests.submit_event(lambda active: active.elections.on_unclean_enabled(None))

    def _dynamic_setting(self, name: str) -> str | None:
        stored = self.image.broker_configs
        everywhere = stored.get(zk_data.DEFAULT_ENTITY, {}).get(name)
        return stored.get(str(self.broker_id), {}).get(name, everywhere)

    def _min_isr_of(self, topic: str) -> int:
        text = self.image.topic_config(topic).get(MIN_ISR_KEY, self._dynamic_setting(MIN_ISR_KEY))
        try:
            return self._settings.min_insync_replicas if text is None else int(text)
        except ValueError:
            # Another program has written it; the log must not fail.
            return self._settings.min_insync_replicas

    def _on_response(
        self, broker_id: int, request: ControlRequest, response: ControlResponse
    ) -> None:
        self.requests.submit_event(lambda active: active.on_response(broker_id, request, response))

    def _on_event(self, event: SessionEvent) -> None:
        if self._is_closed:
            return
        match event:
            case SessionState.EXPIRED:
                logger.warning("the coordination session has expired: registering again")
                self._is_suspended = False
                self._has_session = False
                self.expirations += 1
                self._submit_step(ControllerStep.REGISTRATION, is_urgent=True)
            case SessionState.SUSPENDED:
                self._is_suspended = True
                self.disconnections += 1
                logger.warning("the connection to the coordination service is lost")
            case SessionState.CONNECTED:
                self._is_suspended = False
                self.reconnections += 1
                logger.info("the connection to the coordination service is back")
                self.tick()
            case WatchEvent(path=path):
                self._on_watch(path)

    def _on_watch(self, path: str) -> None:
        if path == zk_data.CONTROLLER:
            self._submit_step(ControllerStep.ELECTION)
        elif path in self._followers:
            self._changed_folders[path] = None
            self._submit_step(ControllerStep.CHANGES)
        elif path == zk_data.FEATURE:
            self._submit_step(ControllerStep.FEATURES)
        else:
            self.requests.submit_event(lambda active: active.on_znode_changed(path))

    def _submit_step(self, step: ControllerStep, *, is_urgent: bool = False) -> None:
        procedures: dict[ControllerStep, Procedure[None]] = {
            ControllerStep.REGISTRATION: self._on_expired,
            ControllerStep.CHANGES: self._on_folders_changed,
            ControllerStep.FEATURES: self.features.load,
            ControllerStep.ELECTION: self._on_controller_changed,
            ControllerStep.LOAD: self._load,
            ControllerStep.DIRECTORIES: self._report_log_directories,
        }
        self.requests.submit_step(step, procedures[step], is_urgent=is_urgent)


def _report_overwritten_epoch() -> None:
    logger.error(
        "another program has written %s: this broker gives up %s, and there is an election",
        zk_data.CONTROLLER_EPOCH,
        zk_data.CONTROLLER,
    )


async def _nothing(active: ActiveController) -> None:
    """A procedure after which the changes of the last second are logged."""
