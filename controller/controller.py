"""One broker's part in the cluster: it registers, may be elected, controls, and obeys.

Everything that touches the coordination service runs as procedures, one at a time; watches only
put a procedure in the queue.  What the controller in office tells its own broker takes the way
that another broker's word takes: through `receive`.

Order of a start: `prepare` (roots, cluster id, configs), then the broker loads its logs, then
`start` (registration, election, and if won the take-over).  With an embedded session all of it has
happened when the call returns; with a remote one the pending tells.

`image` is this broker's own picture, made of what the controller told it and of the configs; it is
swapped whole.  The controller's picture stays inside `ActiveController`.
Source: Kafka's KafkaServer.startup, KafkaController.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from odradek.controller.active.active_controller import ActiveController
from odradek.controller.active.partition_states import ControllerSettings, Doors
from odradek.controller.active.topic_admin import Admin, TopicResult, allocate_producer_ids
from odradek.controller.broker_metadata import BrokerDoor, Inbox, Listener
from odradek.controller.control_requests import ControlRequest, ControlResponse
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.serial_executor import Procedure, SerialExecutor
from odradek.controller.coordination.session import (
    Event,
    EventCallback,
    Session,
    SessionState,
    WatchEvent,
)
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.decide.partitions import CreatePartitions
from odradek.controller.decide.topics import CreateTopic
from odradek.controller.image import BrokerImage, Endpoint, Image, PartitionState, TopicPartition
from odradek.controller.membership.election import Won, elect, watch_controller
from odradek.controller.membership.registration import (
    ensure_roots,
    find_cluster_id,
    new_cluster_id,
    register,
)
from odradek.controller.metadata_cache import MetadataCache
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.config_znodes import encode_log_directory_event
from odradek.controller.znodes.dynamic_configs import ConfigChanges, write_config
from odradek.controller.znodes.fenced_writes import ControllerMoved
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.randomness import Randomness

T = TypeVar("T")

UNKNOWN_REQUESTER = "this broker"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this broker is."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    """Advertised; with the real port."""
    rack: str | None = None


class Controller:
    """A broker's link to the cluster."""

    def __init__(
        self,
        connect: Callable[[EventCallback], Session],
        settings: ControllerSettings,
        *,
        door: BrokerDoor,
        listener: Listener,
        clock: Clock,
        rng: Randomness,
        metadata: MetadataCache | None = None,
        check_new_topic: Callable[[str], None] = lambda name: None,
    ) -> None:
        """connect          opens the coordination session; its events go to the callback given
        metadata         receives each new image; a cache of its own when None
        check_new_topic  raises BrokerError when this broker cannot hold a new topic of that name
        """
        self.broker_id = -1
        self.controller_id = -1
        """As /controller says; -1 while there is none.  `image.controller_id` is whom we obey."""
        self._identity: Identity | None = None
        self._settings = settings
        self._door = door
        self._complain = listener.on_problem
        self._clock = clock
        self._rng = rng
        self._procedures = SerialExecutor()
        self._inbox = Inbox(door, listener, metadata or MetadataCache())
        self._active: ActiveController | None = None
        self._is_behind = False
        self._has_directory_event = False
        self._is_closed = False
        self._has_session = True
        self._is_registered = True
        self._earlier_sessions: tuple[int, ...] = ()
        self._session = connect(self._on_event)
        self._configs = ConfigChanges(self._session, self._inbox.on_config, self._complain)
        self._admin = Admin(
            self._session, settings, rng, lambda: self.image, check_new_topic=check_new_topic
        )

    @property
    def image(self) -> Image:
        """This broker's own picture; hold it for as long as one answer takes."""
        return self._inbox.image

    @property
    def broker_epoch(self) -> int:
        """The zxid of this broker's registration; -1 before the first."""
        return self._inbox.broker_epoch

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._active is not None

    def prepare(self, stored_cluster_id: str | None = None) -> Pending[str]:
        """Roots, cluster id, configs; gives the cluster id.

        stored_cluster_id  of the log directories; a cluster without an id takes it
        fails              CoordinationError
        """

        async def run() -> str:
            await ensure_roots(self._session)
            proposal = stored_cluster_id or new_cluster_id(self._rng.uuid())
            cluster_id = await find_cluster_id(self._session, proposal)
            self._inbox.image = replace(self.image, cluster_id=cluster_id)
            await self._configs.load()
            await self._inbox.note_configs(self._session)
            return cluster_id

        return self._procedures.submit(run)

    def start(self, identity: Identity) -> Pending[None]:
        """Register and take part in the election; after `prepare`.

        fails  RegistrationRefused and other CoordinationErrors
        """

        async def run() -> None:
            self._identity = identity
            self.broker_id = identity.broker_id
            await self._register()
            await self._run_guarded(self._elect)

        return self._procedures.submit(run)

    def create_topics(
        self,
        wishes: Sequence[CreateTopic],
        *,
        validate_only: bool = False,
        requested_by: str = UNKNOWN_REQUESTER,
    ) -> Pending[list[TopicResult]]:
        """Create topics that a client asks for; NOT_CONTROLLER for each elsewhere.

        A topic named twice is refused twice.  Results are in the order of the request.
        requested_by  for the log, here and below
        """

        async def run() -> list[TopicResult]:
            names = [wish.name for wish in wishes]
            results: list[TopicResult] = []
            for wish in wishes:
                if not self.is_active:
                    results.append(TopicResult(wish.name, ErrorCode.NOT_CONTROLLER))
                elif names.count(wish.name) > 1:
                    results.append(_duplicate(wish.name))
                else:
                    results.append(
                        await self._admin.create_topic(
                            wish, validate_only=validate_only, requested_by=requested_by
                        )
                    )
            return results

        return self._procedures.submit(run)

    def auto_create_topic(
        self, wish: CreateTopic, *, requested_by: str = UNKNOWN_REQUESTER
    ) -> Pending[TopicResult]:
        """Create a topic on first use; any broker may."""
        first_use = f"first use by {requested_by}"
        return self._procedures.submit(
            lambda: self._admin.create_topic(wish, validate_only=False, requested_by=first_use)
        )

    def create_partitions(
        self,
        wishes: Sequence[CreatePartitions],
        *,
        validate_only: bool = False,
        requested_by: str = UNKNOWN_REQUESTER,
    ) -> Pending[list[TopicResult]]:
        """Give topics more partitions; NOT_CONTROLLER for each elsewhere."""

        async def run() -> list[TopicResult]:
            names = [wish.topic for wish in wishes]
            results: list[TopicResult] = []
            for wish in wishes:
                if not self.is_active:
                    results.append(TopicResult(wish.topic, ErrorCode.NOT_CONTROLLER))
                elif names.count(wish.topic) > 1:
                    results.append(_duplicate(wish.topic))
                else:
                    results.append(
                        await self._admin.create_partitions(
                            wish, validate_only=validate_only, requested_by=requested_by
                        )
                    )
            return results

        return self._procedures.submit(run)

    def delete_topics(
        self, topics: Sequence[str], *, requested_by: str = UNKNOWN_REQUESTER
    ) -> Pending[list[TopicResult]]:
        """Have topics deleted; NOT_CONTROLLER for each elsewhere."""

        async def run() -> list[TopicResult]:
            if not self.is_active:
                return [TopicResult(name, ErrorCode.NOT_CONTROLLER) for name in topics]
            return [
                await self._admin.delete_topic(name, requested_by=requested_by) for name in topics
            ]

        return self._procedures.submit(run)

    def alter_config(
        self,
        entity_type: str,
        entity: str,
        config: Mapping[str, str],
        *,
        requested_by: str = UNKNOWN_REQUESTER,
    ) -> Pending[None]:
        """Replace an entity's overrides; every broker is told by `on_config_changed`.

        entity  sanitized (`config_znodes.sanitize`) or `<default>`
        fails   BrokerError UNKNOWN_SERVER_ERROR without a controller; CoordinationError
        """
        return self._procedures.submit(
            lambda: write_config(
                self._session, entity_type, entity, config, requested_by=requested_by
            )
        )

    def allocate_producer_ids(self) -> Pending[tuple[int, int]]:
        """(first id, count) of a fresh block; at the controller only.

        fails  BrokerError NOT_CONTROLLER, UNKNOWN_SERVER_ERROR; CoordinationError
        """

        async def run() -> tuple[int, int]:
            self._in_office()
            return await allocate_producer_ids(self._session, self.broker_id)

        return self._procedures.submit(run)

    def alter_isr(
        self, broker_id: int, broker_epoch: int, wishes: Sequence[tuple[str, AlterIsr]]
    ) -> Pending[list[PartitionState | ErrorCode]]:
        """A leader's AlterPartition.

        fails  BrokerError NOT_CONTROLLER, STALE_BROKER_EPOCH; CoordinationError
        """
        return self._submit_in_office(
            lambda active: active.alter_isr(broker_id, broker_epoch, wishes)
        )

    def shut_down_broker(self, broker_id: int, broker_epoch: int) -> Pending[list[TopicPartition]]:
        """A broker's ControlledShutdown; the partitions that it leads still.

        fails  BrokerError NOT_CONTROLLER, BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH
        """
        return self._submit_in_office(lambda active: active.shut_down(broker_id, broker_epoch))

    def elect_preferred(
        self, partitions: Sequence[TopicPartition]
    ) -> Pending[dict[TopicPartition, PartitionState]]:
        """Preferred leaders for known partitions; those that got theirs by it."""
        return self._submit_in_office(lambda active: active.elect_preferred(partitions))

    def receive(self, request: ControlRequest, respond: Callable[[ControlResponse], None]) -> None:
        """A controller's word to this broker, from wherever it came; answered in order."""

        self._inbox.receive(self._session, request, respond)

    def report_log_directories(self) -> None:
        """A log directory of this broker has failed, or has space again: the controller finds out
        which replicas are online."""
        self._has_directory_event = True
        self._submit_event(self._report_log_directories)

    async def _report_log_directories(self) -> None:
        if self._has_directory_event and self._identity is not None:
            event = encode_log_directory_event(self.broker_id)
            await self._session.create(zk_data.LOG_DIRECTORY_EVENT_PREFIX, event, sequential=True)
            self._has_directory_event = False

    def tick(self) -> None:
        """Try again what the coordination service refused; call it about once a second."""
        self._inbox.tick()
        if self._is_behind and not self._is_closed:
            self._is_behind = False
            self._submit_event(self._catch_up)

    def shutdown(self) -> Pending[None]:
        """End the session: the registration goes, and with it the office."""

        async def run() -> None:
            self._is_closed = True
            self._active = None
            await self._session.close()

        return self._procedures.submit(run)

    def _in_office(self) -> ActiveController:
        if self._active is None:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        return self._active

    def _submit_in_office(
        self, act: Callable[[ActiveController], Coroutine[Pending[Any], None, T]]
    ) -> Pending[T]:
        async def run() -> T:
            active = self._in_office()
            try:
                return await act(active)
            except ControllerMoved:
                await self._run_guarded(self._on_moved)
                raise BrokerError(ErrorCode.NOT_CONTROLLER) from None

        return self._procedures.submit(run)

    async def _register(self) -> None:
        identity = self._identity
        assert identity is not None, "start tells who we are"
        broker = BrokerImage(identity.broker_id, -1, identity.endpoints, identity.rack)
        self._inbox.broker_epoch = await register(
            self._session,
            broker,
            now_ms=self._clock.now_ms(),
            earlier_session_ids=self._earlier_sessions,
        )
        self._is_registered = True

    async def _elect(self) -> None:
        outcome = await elect(self._session, self.broker_id, self._clock.now_ms())
        if not isinstance(outcome, Won):
            self.controller_id = outcome.controller_id
            return
        self.controller_id = self.broker_id
        office = replace(self.image, controller_id=self.broker_id, controller_epoch=outcome.epoch)
        self._active = ActiveController(
            self._session,
            office,
            epoch_version=outcome.epoch_version,
            settings=self._settings,
            doors=Doors(self._send, self._admin.new_topic_id, self._complain),
        )
        await self._active.load()

    async def _on_controller_changed(self) -> None:
        """/controller was made, changed or removed."""
        holder = await watch_controller(self._session)
        self.controller_id = holder
        if holder != self.broker_id:
            self._active = None
        if holder < 0 or (holder == self.broker_id and self._active is None):
            await self._elect()

    async def _on_moved(self) -> None:
        """A write was refused because another controller was elected since."""
        self._active = None
        await self._elect()

    async def _catch_up(self) -> None:
        if not self._is_registered:
            await self._on_expired()
            return
        await self._configs.on_changes(self._clock.now_ms())
        if self._identity is not None:
            await self._on_controller_changed()
        if self._active is not None:
            await self._active.load()
        await self._report_log_directories()

    async def _on_expired(self) -> None:
        """The session is gone, and with it the registration and the office."""
        self._active = None
        if not self._has_session:
            self._earlier_sessions = (*self._earlier_sessions[-7:], self._session.session_id)
            await self._session.reopen()
            self._has_session = True
        if self._identity is not None:
            await self._register()
        await self._configs.on_changes(self._clock.now_ms())
        if self._identity is not None:
            await self._elect()

    def _on_event(self, event: Event) -> None:
        if self._is_closed:
            return
        match event:
            case SessionState.EXPIRED:
                self._has_session = False
                self._is_registered = False
                self._submit_event(self._on_expired, is_urgent=True)
            case WatchEvent(path=path):
                self._on_watch(path)
            case _:
                pass

    def _on_watch(self, path: str) -> None:
        if path == zk_data.CONTROLLER:
            self._submit_event(self._on_controller_changed)
        elif path == zk_data.CONFIG_CHANGES:
            self._submit_event(lambda: self._configs.on_changes(self._clock.now_ms()))
        elif path == zk_data.BROKER_IDS:
            self._submit_active(lambda active: active.on_brokers_changed())
        elif path == zk_data.BROKER_TOPICS:
            self._submit_active(lambda active: active.on_topics_changed())
        elif path == zk_data.LOG_DIRECTORY_EVENTS:
            self._submit_active(lambda active: active.on_log_directory_events())
        elif path == zk_data.DELETE_TOPICS:
            self._submit_active(lambda active: active.on_deletions_changed())
        elif path.startswith(zk_data.BROKER_IDS + "/"):
            broker_id = int(path[len(zk_data.BROKER_IDS) + 1 :])
            self._submit_active(lambda active: active.on_broker_changed(broker_id))
        elif path.startswith(zk_data.BROKER_TOPICS + "/"):
            topic = path[len(zk_data.BROKER_TOPICS) + 1 :]
            self._submit_active(lambda active: active.on_topic_changed(topic))

    def _submit_active(
        self, act: Callable[[ActiveController], Coroutine[Pending[Any], None, None]]
    ) -> None:
        async def run() -> None:
            if self._active is not None:
                await act(self._active)

        self._submit_event(run)

    def _submit_event(self, procedure: Procedure[None], *, is_urgent: bool = False) -> None:
        self._procedures.submit(lambda: self._run_guarded(procedure), is_urgent=is_urgent).on_done(
            self._note_failure
        )

    async def _run_guarded(self, procedure: Procedure[None]) -> None:
        """Run; when another controller was elected meanwhile, step down and look who it is."""
        try:
            await procedure()
        except ControllerMoved:
            await self._on_moved()

    def _note_failure(self, pending: Pending[None]) -> None:
        try:
            pending.result()
        except (CoordinationError, BrokerError) as error:
            if not self._is_closed:
                self._is_behind = True
                self._complain(f"the coordination service refused: {error!r}")

    def _send(self, broker_id: int, request: ControlRequest) -> None:
        def respond(response: ControlResponse) -> None:
            self._submit_active(lambda active: active.on_response(broker_id, request, response))

        if broker_id == self.broker_id:
            self.receive(request, respond)
        else:
            self._door.send(broker_id, request, respond)


def _duplicate(topic: str) -> TopicResult:
    return TopicResult(topic, ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
