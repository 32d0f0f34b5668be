"""Serves the requests of clients for topics, configs and blocks of producer ids.

They are procedures on an executor of their own, so that many topics to create delay no election.
Their writes are not fenced: any broker changes configs and creates topics on first use.  What else
clients want of topics, only the active controller takes.
Source: Kafka's ZkAdminManager, KafkaApis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from odradek.controller.active.active_controller import ActiveController
from odradek.controller.active.topic_admin import TopicAdmin, TopicResult, allocate_producer_ids
from odradek.controller.coordination.errors import (
    PROCEDURE_ERRORS,
    ConnectionLoss,
    CoordinationError,
)
from odradek.controller.coordination.session import CoordinationSession
from odradek.controller.decide.partitions import CreatePartitionsSpec
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.znodes.dynamic_configs import (
    ConfigChange,
    read_topic_configs,
    write_config,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending
from odradek.runtime.work import Defer, SerialQueue

Spec = TypeVar("Spec")

UNKNOWN_REQUESTER = "this broker"


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

    def create_topics(
        self,
        specs: Sequence[CreateTopicSpec],
        *,
        validate_only: bool = False,
        requested_by: str = UNKNOWN_REQUESTER,
    ) -> Pending[list[TopicResult]]:
        """Create topics at the request of a client; NOT_CONTROLLER for each elsewhere.

        A topic that is named twice is refused twice.  Results are in the order of the request.
        requested_by  for the log, here and below
        """

        def create(spec: CreateTopicSpec) -> Coroutine[Pending[Any], None, TopicResult]:
            return self._topic_admin.create_topic(
                spec, validate_only=validate_only, requested_by=requested_by
            )

        names = [spec.name for spec in specs]
        return self._executor.submit(lambda: self._for_each_topic(names, specs, create))

    def auto_create_topic(
        self, spec: CreateTopicSpec, *, requested_by: str = UNKNOWN_REQUESTER
    ) -> Pending[TopicResult]:
        """Create a topic on first use; any broker may."""
        first_use = f"first use by {requested_by}"
        return self._executor.submit(
            lambda: self._topic_admin.create_topic(
                spec, validate_only=False, requested_by=first_use
            )
        )

    def create_partitions(
        self,
        specs: Sequence[CreatePartitionsSpec],
        *,
        validate_only: bool = False,
        requested_by: str = UNKNOWN_REQUESTER,
    ) -> Pending[list[TopicResult]]:
        """Add partitions to topics; NOT_CONTROLLER for each elsewhere, as `create_topics`."""

        def create(spec: CreatePartitionsSpec) -> Coroutine[Pending[Any], None, TopicResult]:
            return self._topic_admin.create_partitions(
                spec, validate_only=validate_only, requested_by=requested_by
            )

        names = [spec.topic for spec in specs]
        return self._executor.submit(lambda: self._for_each_topic(names, specs, create))

    def delete_topics(
        self, topics: Sequence[str], *, requested_by: str = UNKNOWN_REQUESTER
    ) -> Pending[list[TopicResult]]:
        """Mark topics for deletion; NOT_CONTROLLER for each elsewhere."""

        async def run() -> list[TopicResult]:
            if self._active() is None:
                return [TopicResult(name, ErrorCode.NOT_CONTROLLER) for name in topics]
            return [
                await _in_time(
                    name, self._topic_admin.delete_topic(name, requested_by=requested_by)
                )
                for name in topics
            ]

        return self._executor.submit(run)

    def alter_config(
        self,
        entity_type: str,
        entity: str,
        change: ConfigChange,
        *,
        requested_by: str = UNKNOWN_REQUESTER,
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

    async def _for_each_topic(
        self,
        names: Sequence[str],
        specs: Sequence[Spec],
        create: Callable[[Spec], Coroutine[Pending[Any], None, TopicResult]],
    ) -> list[TopicResult]:
        counts = Counter(names)
        results: list[TopicResult] = []
        for name, spec in zip(names, specs, strict=True):
            if self._active() is None:
                results.append(TopicResult(name, ErrorCode.NOT_CONTROLLER))
            elif counts[name] > 1:
                results.append(_duplicate(name))
            else:
                results.append(await _in_time(name, create(spec)))
        return results


async def _in_time(topic: str, result: Coroutine[Pending[Any], None, TopicResult]) -> TopicResult:
    """REQUEST_TIMED_OUT when the session had no connection for as long as calls wait."""
    try:
        return await result
    except ConnectionLoss as error:
        return TopicResult(topic, ErrorCode.REQUEST_TIMED_OUT, str(error))


def _duplicate(topic: str) -> TopicResult:
    return TopicResult(topic, ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
