"""What a broker is told by whoever is the controller: its own picture of the cluster.

Requests are taken one at a time, in order.  One of a past controller, or meant for an earlier life
of this broker, is refused.  Configs of topics that are named for the first time are read before
the broker obeys, since nobody is notified of a new topic's config.
Source: KIP-380; Kafka's ReplicaManager, MetadataCache, KafkaApis.isBrokerEpochStale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from odradek.controller.control_requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    UpdateMetadata,
    apply_update_metadata,
)
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.serial_executor import SerialExecutor
from odradek.controller.coordination.session import Session
from odradek.controller.image import LEADER_DURING_DELETE, Image
from odradek.controller.metadata_cache import MetadataCache
from odradek.controller.znodes.dynamic_configs import BROKERS, TOPICS, read_topic_configs
from odradek.protocol.errors import ErrorCode
from odradek.runtime.pending import Pending


class BrokerDoor(Protocol):
    """How the controller's word reaches brokers."""

    def apply(self, request: ControlRequest) -> Pending[ControlResponse]:
        """Obey, on this broker; the next request comes after this one is answered.

        Called in order; epochs are checked already, an UpdateMetadata is in the picture already,
        and topics named have their configs there.
        """

    def send(
        self,
        broker_id: int,
        request: ControlRequest,
        respond: Callable[[ControlResponse], None],
    ) -> None:
        """Send to another broker, in order, until it answers or leaves; never answer at once."""


class Listener(Protocol):
    """Who wants to know."""

    def on_config_changed(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        """An entity's overrides are these now; topics' and brokers' are in the picture already."""

    def on_problem(self, text: str) -> None:
        """Something that an operator should read in the log."""


class Inbox:
    """A broker's picture, and the requests that change it."""

    def __init__(self, door: BrokerDoor, listener: Listener, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.broker_epoch = -1
        self._door = door
        self._listener = listener
        self._procedures = SerialExecutor()
        self._known_configs: dict[str, None] = {}
        self._retry: Pending[None] | None = None
        self._described_epoch = -1

    @property
    def image(self) -> Image:
        """The newest image."""
        return self._metadata.image

    @image.setter
    def image(self, image: Image) -> None:
        self._metadata.image = image

    async def note_configs(self, session: Session) -> None:
        """All configs were read: those of existing topics need not be read again."""
        self._known_configs = dict.fromkeys(await session.children("/config/topics"))

    def receive(
        self,
        session: Session,
        request: ControlRequest,
        respond: Callable[[ControlResponse], None],
    ) -> None:
        """Take a request; those that come later wait until it is answered."""

        async def run() -> None:
            refusal = self._check_epochs(request)
            configs: dict[str, dict[str, str]] = {}
            if refusal is None:
                configs = await self._read_configs(session, request)
                # While it waited for the configs this broker may have registered anew.
                refusal = self._check_epochs(request)
            if refusal is not None:
                respond(ControlResponse(refusal))
                return
            self._learn(request, configs)
            respond(await self._door.apply(request))

        self._procedures.submit(run)

    def tick(self) -> None:
        """Read again what the coordination service refused; call it about once a second."""
        waiting, self._retry = self._retry, None
        if waiting is not None:
            waiting.resolve(None)

    def on_config(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        """An entity's overrides were read."""
        if entity_type == TOPICS:
            self.image = self.image.with_topic_configs({entity: config})
        elif entity_type == BROKERS:
            self.image = self.image.with_broker_config(entity, config)
        self._listener.on_config_changed(entity_type, entity, config)

    def _check_epochs(self, request: ControlRequest) -> ErrorCode | None:
        """Requests of the past are refused; one that knows a newer epoch of ours is right."""
        if request.broker_epoch != -1 and request.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.image.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return None

    def _is_first_of_a_life(self, request: ControlRequest) -> bool:
        return -1 < self._described_epoch < request.broker_epoch

    async def _read_configs(
        self, session: Session, request: ControlRequest
    ) -> dict[str, dict[str, str]]:
        """Configs of topics that are named for the first time; waits until they can be read.

        To obey without them would be to apply the wrong retention.
        """
        if not isinstance(request, LeaderAndIsr | UpdateMetadata):
            return {}
        known = {} if self._is_first_of_a_life(request) else self._known_configs
        unknown = {
            told.topic: None
            for told in request.partitions
            if told.topic not in known and told.state.leader != LEADER_DURING_DELETE
        }
        while unknown:
            try:
                return await read_topic_configs(session, list(unknown), self._listener.on_problem)
            except CoordinationError as error:
                self._listener.on_problem(f"configs cannot be read: {error!r}")
                self._retry = Pending()
                await self._retry
        return {}

    def _learn(self, request: ControlRequest, configs: dict[str, dict[str, str]]) -> None:
        """One swap of the picture.

        A broker that has registered anew forgets its topics: while it was not registered nobody
        told it of deletions, and what comes first afterwards describes everything.
        Differs from Kafka: a broker there keeps such topics in its metadata until it restarts.
        """
        image = self.image
        if self._is_first_of_a_life(request):
            image = replace(image, topics={}, topic_names={}, topic_configs={})
            self._known_configs = {}
        self._described_epoch = max(self._described_epoch, request.broker_epoch)
        if configs:
            image = image.with_topic_configs(configs)
            self._known_configs |= dict.fromkeys(configs)
        if isinstance(request, UpdateMetadata):
            image = apply_update_metadata(image, request)
            for told in request.partitions:
                if told.state.leader == LEADER_DURING_DELETE:
                    self._known_configs.pop(told.topic, None)
        elif request.controller_epoch > image.controller_epoch:
            image = replace(
                image,
                controller_id=request.controller_id,
                controller_epoch=request.controller_epoch,
            )
        self.image = image
