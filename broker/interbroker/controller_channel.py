"""Requests of this broker to the active controller, whichever broker that is.

The controller is found in /controller, its endpoint in the image.  A request is sent again after a
pause while there is no controller, its connection ends, it responds that it is not the controller,
or another one was elected meanwhile; until `timeout_ms` have passed.  When this broker is the
controller, a request is a call.
Source: Kafka's NodeToControllerChannelManager, MetadataCacheControllerNodeProvider.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from odradek.broker.interbroker.network_client import Disconnected, NetworkClient, NetworkClients
from odradek.controller.controller import Controller
from odradek.controller.image.image import Endpoint
from odradek.protocol.errors import BrokerError, ErrorCode, error_of
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.wheel_driver import WheelDriver

if TYPE_CHECKING:
    from odradek.broker.interbroker.wire.alter_partition import AlteredPartition, Proposal
    from odradek.protocol.messages.alter_partition import AlterPartitionResponse
    from odradek.protocol.messages.controlled_shutdown import ControlledShutdownResponse

RETRY_MS: Final = 50
CHECK_MS: Final = 500
"""How often it is looked whether the controller that has a request is still the controller."""
ALTER_PARTITION_VERSION: Final = 3
CONTROLLED_SHUTDOWN_VERSION: Final = 3
ALLOCATE_PRODUCER_IDS_VERSION: Final = 0
ELSEWHERE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_CONTROLLER_EPOCH)
"""Errors of a whole request that say that the controller is another broker."""

T = TypeVar("T")

logger = logging.getLogger("odradek.controller")


class _Request(NamedTuple, Generic[T]):
    """A request that has no result yet."""

    deadline_ms: int
    version: int
    message: Callable[[], Any]
    """Made for each attempt: the broker epoch changes with a new registration."""
    read: Callable[[Any], T]
    """Returns the result of a response without an error."""
    call: Callable[[], Pending[T]]
    """Asks the controller of this broker for the result."""
    result: Pending[T]


class ControllerChannel:
    """The way to the active controller.

    topic_id       (topic, partition) -> the id of the topic, for AlterPartition
    listener_name  over which brokers reach each other
    timeout_ms     after which a request fails that no controller has responded to
    """

    def __init__(
        self,
        controller: Controller,
        clients: NetworkClients,
        wheel: WheelDriver,
        clock: Clock,
        *,
        topic_id: Callable[[str, int], UUID],
        listener_name: str,
        timeout_ms: int,
    ) -> None:
        self._controller = controller
        self._clients = clients
        self._wheel = wheel
        self._clock = clock
        self._topic_id = topic_id
        self._listener_name = listener_name
        self._timeout_ms = timeout_ms
        self._client: NetworkClient | None = None
        self._client_of: Endpoint | None = None
        self._in_flight = 0
        self._is_checking = False
        self._is_closed = False

    def alter(self, proposals: Sequence[Proposal]) -> Pending[list[AlteredPartition]]:
        """AlterPartition: for each proposal the state now in force, or the error.

        fails  Disconnected; BrokerError when the whole request is refused (STALE_BROKER_EPOCH)
        """
        controller = self._controller
        version = ALTER_PARTITION_VERSION
        topic_ids = {
            topic: self._topic_id(topic, proposal.partition) for topic, proposal in proposals
        }

        def read(response: AlterPartitionResponse) -> list[AlteredPartition]:
            from odradek.broker.interbroker.wire.alter_partition import alter_partition_results

            return alter_partition_results(response, proposals, topic_ids.__getitem__, version)

        def message() -> Any:
            # Imported when it is made: the active controller makes no message for itself.
            from odradek.broker.interbroker.wire.alter_partition import alter_partition_message

            return alter_partition_message(
                controller.broker_id,
                controller.broker_epoch,
                proposals,
                topic_ids.__getitem__,
                version,
            )

        return self._submit(
            version,
            message,
            read,
            lambda: controller.requests.alter_isr(
                controller.broker_id, controller.broker_epoch, proposals
            ),
        )

    def allocate_producer_ids(self) -> Pending[tuple[int, int]]:
        """(first id, count) of a new block of producer ids.

        fails  Disconnected; BrokerError
        """
        controller = self._controller

        def message() -> Any:
            from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

            return AllocateProducerIdsRequest(
                broker_id=controller.broker_id, broker_epoch=controller.broker_epoch
            )

        return self._submit(
            ALLOCATE_PRODUCER_IDS_VERSION,
            message,
            lambda response: (response.producer_id_start, response.producer_id_len),
            lambda: controller.admin.allocate_producer_ids(
                controller.broker_id, controller.broker_epoch
            ),
        )

    def shut_down(self) -> Pending[list[TopicPartition]]:
        """ControlledShutdown of this broker: the partitions that it still leads.

        fails  Disconnected; BrokerError
        """
        controller = self._controller

        def read(response: ControlledShutdownResponse) -> list[TopicPartition]:
            return [
                TopicPartition(partition.topic_name, partition.partition_index)
                for partition in response.remaining_partitions
            ]

        def message() -> Any:
            from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest

            return ControlledShutdownRequest(
                broker_id=controller.broker_id, broker_epoch=controller.broker_epoch
            )

        return self._submit(
            CONTROLLED_SHUTDOWN_VERSION,
            message,
            read,
            lambda: controller.requests.shut_down_broker(
                controller.broker_id, controller.broker_epoch
            ),
        )

    def close(self) -> None:
        """Fail all requests, and those to come."""
        self._is_closed = True
        self._disconnect()

    def _submit(
        self,
        version: int,
        message: Callable[[], Any],
        read: Callable[[Any], T],
        call: Callable[[], Pending[T]],
    ) -> Pending[T]:
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        request = _Request(deadline_ms, version, message, read, call, Pending())
        self._attempt(request)
        return request.result

    def _attempt(self, request: _Request[T]) -> None:
        controller = self._controller
        if self._is_closed:
            request.result.fail(Disconnected("this broker is stopping"))
        elif controller.controller_id == controller.broker_id:
            request.call().on_done(lambda done: self._on_called(request, done))
        else:
            endpoint = self._find_controller()
            if endpoint is None:
                self._retry(request, Disconnected("there is no controller"))
                return
            self._in_flight += 1
            pending = self._connect(endpoint).send(request.message(), request.version)
            pending.on_done(lambda done: self._on_response(request, done))
            self._check_later()

    def _on_called(self, request: _Request[T], done: Pending[T]) -> None:
        try:
            done.result()
        except BrokerError as error:
            if error.code in ELSEWHERE:
                self._retry(request, error)
                return
        except Exception:  # noqa: BLE001 - the request gets it
            pass
        request.result.settle_as(done)

    def _on_response(self, request: _Request[T], done: Pending[Any]) -> None:
        self._in_flight -= 1
        try:
            response = done.result()
            error = error_of(response.error_code)
            if error is not ErrorCode.NONE:
                raise BrokerError(error)
            result = request.read(response)
        except Disconnected as error:
            self._retry(request, error)
        except BrokerError as error:
            if error.code in ELSEWHERE:
                self._retry(request, error)
            else:
                request.result.fail(error)
        else:
            request.result.resolve(result)

    def _retry(self, request: _Request[T], reason: Exception) -> None:
        if self._is_closed or self._clock.monotonic_ms() + RETRY_MS > request.deadline_ms:
            request.result.fail(reason)
        else:
            self._wheel.after(RETRY_MS, lambda: self._attempt(request))

    def _find_controller(self) -> Endpoint | None:
        controller = self._controller
        broker = controller.image.brokers.get(controller.controller_id)
        return None if broker is None else broker.endpoint(self._listener_name)

    def _connect(self, endpoint: Endpoint) -> NetworkClient:
        if self._client is None or endpoint != self._client_of:
            self._disconnect()
            client_id = str(self._controller.broker_id)
            self._client = self._clients.client(endpoint.host, endpoint.port, client_id)
            self._client_of = endpoint
            logger.info("the controller is at %s", self._client.address)
        return self._client

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _check_later(self) -> None:
        if not self._is_checking:
            self._is_checking = True
            self._wheel.after(CHECK_MS, self._check_controller)

    def _check_controller(self) -> None:
        """End the connection to a broker that is no longer the controller: it may be paused."""
        self._is_checking = False
        if self._in_flight and not self._is_closed:
            if self._find_controller() != self._client_of:
                self._disconnect()
            self._check_later()
