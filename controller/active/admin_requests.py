"""Serves the requests of clients for topics, configs and blocks of producer ids.

They are procedures on an executor of their own, so that many topics to create delay no election.
Their writes are not fenced: any broker changes configs and creates topics on first use.  What else
clients want of topics, only the active controller takes.
Source: Kafka's ZkAdminManager, KafkaApis.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from odradek.controller.active.active_controller import ActiveController
from odradek.controller.active.topic_admin import (
    Requester,
    TopicAdmin,
    TopicResult,
    allocate_producer_ids,
)
from odradek.controller.coordination.errors import (
    PROCEDURE_ERRORS,
    ConnectionLoss,
    CoordinationError,
)
from odradek.controller.coordination.session import CoordinationSession
from odradek.controller.decide.partitions import CreatePartitionsSpec
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.membership.registration import read_coordinator
from odradek.controller.znodes.dynamic_configs import (
    ChangeOverrides,
    read_entities,
    read_topic_configs,
    write_config,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending
from odradek.runtime.work import Defer, SerialQueue

THIS_BROKER: Final = Requester()

logger = logging.getLogger("odradek.configs")


class AdminRequests:
    """The requests of one broker, one at a time."""

    def __init__(
        self,
        session: CoordinationSession,
        topic_admin: TopicAdmin,
        active: Callable[[], ActiveController | None],
    ) -> None:
        """active  the active controller, while this broker is that"""
        self._session = session
        self._topic_admin = topic_admin
        self._active = active
        self._executor = SerialQueue(*PROCEDURE_ERRORS)

    def serve(self, defer: Defer) -> None:
        """Clients are served from now on."""
        self._executor.serve(defer)

    def coordinator_id(self) -> Pending[int]:
        """The id of the node that serves the coordination as the quorum.

        fails  CoordinationError; BadZnode
        """
        return self._executor.submit(lambda: read_coordinator(self._session))

    def create_topic(
        self, spec: CreateTopicSpec, requester: Requester = THIS_BROKER
    ) -> Pending[TopicResult]:
        """Create a topic at the request of a client; NOT_CONTROLLER elsewhere."""
        return self._submit(spec.name, lambda: self._topic_admin.create_topic(spec, requester))

    def auto_create_topic(
        self, spec: CreateTopicSpec, requester: Requester = THIS_BROKER
    ) -> Pending[TopicResult]:
        """Create a topic on first use; any broker may."""
        first_use = requester._replace(name=f"first use by {requester.name}")
        return self._executor.submit(lambda: self._topic_admin.create_topic(spec, first_use))

    def create_partitions(
        self, spec: CreatePartitionsSpec, requester: Requester = THIS_BROKER
    ) -> Pending[TopicResult]:
        """Add partitions to a topic; NOT_CONTROLLER elsewhere."""
        return self._submit(
            spec.topic, lambda: self._topic_admin.create_partitions(spec, requester)
        )

    def delete_topic(self, topic: str, requester: Requester = THIS_BROKER) -> Pending[TopicResult]:
        """Mark a topic for deletion; NOT_CONTROLLER elsewhere."""
        return self._submit(topic, lambda: self._topic_admin.delete_topic(topic, requester))

    def alter_config(
        self,
        entity_type: str,
        entity: str,
        change: ChangeOverrides,
        *,
        requested_by: str = THIS_BROKER.name,
    ) -> Pending[None]:
        """Change the overrides of an entity; every broker calls `on_config_changed` then.

        entity  sanitized as by Kafka's Sanitizer, or `<default>`
        change  what is stored -> what will be; called again when another broker was faster
        fails   BrokerError of `change`, or UNKNOWN_SERVER_ERROR without a controller;
                CoordinationError
        """
        return self._executor.submit(
            lambda: write_config(
                self._session, entity_type, entity, change, requested_by=requested_by
            )
        )

    def read_topic_configs(self, topics: Sequence[str]) -> Pending[dict[str, dict[str, str]]]:
        """The overrides of topics as they are stored: the last change of another broker, or of this
        one, need not be in its image yet.  Empty when they cannot be read.
        """

        async def run() -> dict[str, dict[str, str]]:
            try:
                return await read_topic_configs(self._session, list(topics), lambda _: None)
            except CoordinationError:
                return {}

        # Not after what waits: creating many topics takes long.
        return SerialQueue(*PROCEDURE_ERRORS).submit(run)

    def read_entities(self, entity_type: str) -> Pending[dict[str, dict[str, str]]]:
        """The config of every user, client id or address, as it is stored.

        fails  CoordinationError
        """

        def warn(text: str) -> None:
            logger.warning("%s", text)

        return SerialQueue(*PROCEDURE_ERRORS).submit(
            lambda: read_entities(self._session, entity_type, warn)
        )

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Pending[tuple[int, int]]:
        """(first id, count) of a new block for a broker; at the active controller only.

        fails  BrokerError NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH,
               UNKNOWN_SERVER_ERROR; CoordinationError
        """

        async def run() -> tuple[int, int]:
            active = self._active()
            if active is None or not active.is_loaded:
                raise BrokerError(ErrorCode.NOT_CONTROLLER)
            registered = active.image.brokers.get(broker_id)
            if registered is None:
                raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED)
            if registered.broker_epoch != broker_epoch:
                raise BrokerError(ErrorCode.STALE_BROKER_EPOCH)
            return await allocate_producer_ids(self._session, broker_id)

        return self._executor.submit(run)

    def _submit(
        self, topic: str, change: Callable[[], Coroutine[Pending[Any], None, TopicResult]]
    ) -> Pending[TopicResult]:
        """Change a topic, if this is the active controller then.

        REQUEST_TIMED_OUT when the session had no connection for as long as calls wait.
        """

        async def run() -> TopicResult:
            if self._active() is None:
                return TopicResult(topic, ErrorCode.NOT_CONTROLLER)
            try:
                return await change()
            except ConnectionLoss as error:
                return TopicResult(topic, ErrorCode.REQUEST_TIMED_OUT, str(error))

        return self._executor.submit(run)
