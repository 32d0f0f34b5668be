"""The broker's side of control requests: epochs are checked, the image is updated, then they apply.

Control requests are applied one at a time, in order.  A request of an earlier controller, or for an
earlier registration of this broker, is refused.  The configs of topics that a request names for the
first time are read before it is applied: no notification is written for the config of a new topic.

A controller that has no response in time sends a request again, over a new connection; what the old
one still carries may arrive much later.  It is not applied: the request would bring a topic back
that was deleted meanwhile, or metadata of the past.
Differs from Kafka: a broker there applies such requests.
Source: KIP-380; Kafka's ReplicaManager, MetadataCache, KafkaApis.isBrokerEpochStale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from odradek.controller.coordination.errors import PROCEDURE_ERRORS, CoordinationError
from odradek.controller.coordination.session import CoordinationSession
from odradek.controller.image.control_requests import (
    ControlRequest,
    ControlRequestHandler,
    ControlResponse,
    LeaderAndIsr,
    UpdateMetadata,
    deleted_topics,
    with_removed_topics,
)
from odradek.controller.image.image import INTERNAL_TOPICS, LEADER_DURING_DELETE
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.controller.znodes.dynamic_configs import BROKERS, TOPICS, read_topic_configs
from odradek.protocol.errors import ErrorCode
from odradek.runtime.pending import Pending
from odradek.runtime.work import Defer, SerialQueue


class ControllerListener(Protocol):
    """Called by a broker's `Controller` and its parts."""

    def on_config_changed(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        """The overrides of an entity are now `config`; those of topics and brokers are in the
        image already."""

    def on_warning(self, text: str) -> None:
        """Something that an operator should read in the log."""


class ControlRequestReceiver:
    """Applies control requests on one broker, and keeps its metadata cache up to date."""

    def __init__(
        self,
        session: CoordinationSession,
        handler: ControlRequestHandler,
        listener: ControllerListener,
        metadata: MetadataCache,
    ) -> None:
        self._metadata = metadata
        self.broker_epoch = -1
        self._session = session
        self._handler = handler
        self._listener = listener
        self._executor = SerialQueue(*PROCEDURE_ERRORS)
        self._known_configs: dict[str, None] = {}
        self._retry: Pending[None] | None = None
        self._described_epoch = -1
        self._newest_connection = (-1, -1)
        """The latest controller epoch that came over the network, and the latest connection."""

    def serve(self, defer: Defer) -> None:
        """Clients are served from now on."""
        self._executor.serve(defer)

    async def note_configs(self) -> None:
        """All configs were read: those of existing topics need not be read again."""
        self._known_configs = dict.fromkeys(await self._session.children("/config/topics"))

    def receive_from(
        self,
        connection_number: int,
        request: ControlRequest,
        respond: Callable[[ControlResponse], None],
    ) -> bool:
        """Receive a request, unless the same controller has sent another over a later connection.

        connection_number  rises with each connection that this broker accepts
        returns  whether the request is applied; `respond` is not called otherwise
        """
        connection = (request.controller_epoch, connection_number)
        if connection < self._newest_connection:
            if request.controller_epoch == self._newest_connection[0]:
                return False
        else:
            self._newest_connection = connection
        self.receive(request, respond)
        return True

    def receive(self, received: ControlRequest, respond: Callable[[ControlResponse], None]) -> None:
        """Apply a request after those that were received before it."""

        async def run() -> None:
            request = received
            if isinstance(request, UpdateMetadata):
                request = with_removed_topics(self._metadata.image, request)
            refusal = self._check_epochs(request)
            configs: dict[str, dict[str, str]] = {}
            if refusal is None:
                configs = await self._read_configs(request)
                # This broker may have registered again while the configs were read.
                refusal = self._check_epochs(request)
            if refusal is not None:
                respond(ControlResponse(refusal))
                return
            self._update_image(request, configs)
            respond(await self._handler.apply(request))

        self._executor.submit(run)

    def tick(self) -> None:
        """Repeat reads that the coordination service refused; called about once a second."""
        waiting, self._retry = self._retry, None
        if waiting is not None:
            waiting.resolve(None)

    def on_config(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        """The overrides of an entity were read."""
        if entity_type == TOPICS:
            self._metadata.set_topic_config(entity, config)
        elif entity_type == BROKERS:
            self._metadata.set_broker_config(entity, config)
        self._listener.on_config_changed(entity_type, entity, config)

    def _check_epochs(self, request: ControlRequest) -> ErrorCode | None:
        """Refuses lower epochs; a broker epoch above our own is right: the controller may learn of
        our registration before we do."""
        if request.broker_epoch != -1 and request.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self._metadata.image.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return None

    def _is_first_of_registration(self, request: ControlRequest) -> bool:
        return -1 < self._described_epoch < request.broker_epoch

    async def _read_configs(self, request: ControlRequest) -> dict[str, dict[str, str]]:
        """Configs of topics that are named for the first time, and of internal ones that have
        grown.

        Waits while there is no connection: without them the request would be applied with the wrong
        retention.  A config that stays unreadable is `NOTHING_DELETED`, with a warning.
        """
        if not isinstance(request, LeaderAndIsr | UpdateMetadata):
            return {}
        known_configs = {} if self._is_first_of_registration(request) else self._known_configs
        unknown = {
            partition.topic: None
            for partition in request.partitions
            if partition.state.leader != LEADER_DURING_DELETE
            and (
                partition.topic not in known_configs
                or (
                    partition.topic in INTERNAL_TOPICS
                    and self._has_grown(partition.topic, partition.partition)
                )
            )
        }
        warn = self._listener.on_warning
        while unknown:
            try:
                return await read_topic_configs(self._session, list(unknown), warn)
            except CoordinationError as error:
                warn(f"configs cannot be read: {error!r}")
                self._retry = Pending()
                await self._retry
        return {}

    def _has_grown(self, topic: str, partition: int) -> bool:
        """Whether an internal topic has got this partition after its creation: its config says then
        how many partitions keys are spread over, and must be in the image with the partition."""
        topic_image = self._metadata.image.topics.get(topic)
        return topic_image is not None and partition not in topic_image.partitions

    def _update_image(self, request: ControlRequest, configs: dict[str, dict[str, str]]) -> None:
        """The image, and what is known of configs, after the request.

        The first request after a new registration removes all topics: deletions were not sent to
        this broker while it was not registered, and the controller now describes every topic.
        Differs from Kafka: a broker there keeps such topics in its metadata until it restarts.
        """
        is_first = self._is_first_of_registration(request)
        self._metadata.apply(request, configs, removes_topics=is_first)
        if is_first:
            self._known_configs = {}
        self._described_epoch = max(self._described_epoch, request.broker_epoch)
        self._known_configs |= dict.fromkeys(configs)
        if isinstance(request, UpdateMetadata):
            for topic in deleted_topics(request):
                self._known_configs.pop(topic, None)
