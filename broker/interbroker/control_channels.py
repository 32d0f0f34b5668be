"""Control requests on their way from the active controller to the other brokers.

Each registered broker has a channel: a queue, of which one request is in flight.  It is sent again,
after a pause, until the broker responds or its registration ends: no LeaderAndIsr and no
StopReplica is left out, and none overtakes another.  An UpdateMetadata that would follow another
one in the queue is merged with it.

A queue has no bound of its own.  What bounds it is the session of its broker: a broker that does
not respond because it has died, or is paused, loses its registration.
Source: Kafka's ControllerChannelManager, RequestSendThread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.broker.interbroker.network_client import Disconnected, NetworkClient, NetworkClients
from odradek.controller.image.control_requests import (
    ControlRequest,
    ControlResponse,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from odradek.controller.image.image import LEADER_DURING_DELETE, BrokerImage, Endpoint
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.scheduler import scheduler_of
from odradek.runtime.wheel_driver import WheelDriver

RETRY_MS: Final = 100
LOGGED_FROM: Final = 10
"""Attempts in a row that fail before it is logged: a broker registers before it accepts."""

Respond = Callable[[ControlResponse], None]

logger = logging.getLogger("odradek.controller")


class _Queued:
    """A request that has no response yet."""

    __slots__ = ("_merged", "_request", "responds")

    def __init__(self, request: ControlRequest, respond: Respond) -> None:
        self._request = request
        self._merged: dict[TopicPartition, UpdateMetadataPartition] | None = None
        self.responds = [respond]

    @property
    def request(self) -> ControlRequest:
        """The request, with all that was merged into it."""
        if self._merged is None:
            return self._request
        assert isinstance(self._request, UpdateMetadata), "nothing else is merged"
        return self._request._replace(partitions=tuple(self._merged.values()))

    def merge(self, later: ControlRequest, respond: Respond) -> bool:
        """Take a request in that follows this one; False when both must be sent.

        A topic that is deleted, and made again, changes its id between two requests.
        """
        request = self._request
        if not isinstance(request, UpdateMetadata) or not isinstance(later, UpdateMetadata):
            return False
        if request.controller_epoch != later.controller_epoch or later.is_full:
            return False
        if _deletes(later) or (self._merged is None and _deletes(request)):
            return False
        if self._merged is None:
            self._merged = _by_key(request.partitions)
        self._merged |= _by_key(later.partitions)
        self._request = later._replace(is_full=request.is_full)
        self.responds.append(respond)
        return True


def _deletes(request: UpdateMetadata) -> bool:
    return any(partition.state.leader == LEADER_DURING_DELETE for partition in request.partitions)


def _by_key(
    partitions: tuple[UpdateMetadataPartition, ...],
) -> dict[TopicPartition, UpdateMetadataPartition]:
    return {
        TopicPartition(partition.topic, partition.partition): partition for partition in partitions
    }


class _Channel:
    """The requests for one registration of one broker."""

    def __init__(self, owner: ControlChannels, broker: BrokerImage) -> None:
        self.broker = broker
        self._owner = owner
        self._queue: deque[_Queued] = deque()
        self._client: NetworkClient | None = None
        self._is_waiting = False
        """For the response to the first request of the queue, or for the next attempt."""
        self._is_closed = False
        self._failure_count = 0
        """Attempts in a row without a response."""
        self._last_failure = ""

    def send(self, request: ControlRequest, respond: Respond) -> None:
        """Queue a request."""
        queue = self._queue
        if len(queue) > self._is_waiting and queue[-1].merge(request, respond):
            return
        queue.append(_Queued(request, respond))
        self._send_next()

    def move(self, broker: BrokerImage) -> None:
        """The broker has changed its endpoints, not its registration."""
        self.broker = broker
        self._disconnect()

    def close(self) -> None:
        """Drop everything that has no response."""
        self._is_closed = True
        self._queue.clear()
        self._disconnect()

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _send_next(self) -> None:
        if self._is_closed or self._is_waiting or not self._queue:
            return
        self._is_waiting = True
        endpoint = self._owner.endpoint(self.broker)
        if endpoint is None:
            self._retry(f"it has no endpoint of the listener {self._owner.listener_name}")
            return
        if self._client is None:
            self._client = self._owner.connect(endpoint)
        self._owner.scheduler.run(self._encode_and_send(self._queue[0].request))

    async def _encode_and_send(self, request: ControlRequest) -> None:
        """A request about 10,000 partitions takes tens of milliseconds."""
        cls, version, body = await self._owner.encode(request)
        if self._is_closed:
            return
        if self._client is None:
            # The broker has moved meanwhile.
            self._retry("it has another endpoint")
            return
        pending = self._client.send_encoded(cls, version, body)
        pending.on_done(lambda done: self._on_done(request, done))

    def _on_done(self, request: ControlRequest, done: Pending[Any]) -> None:
        if self._is_closed:
            return
        try:
            response = done.result()
        except Disconnected as reason:
            self._retry(str(reason))
            return
        self._failure_count = 0
        self._last_failure = ""
        self._is_waiting = False
        from odradek.broker.interbroker.wire.control_messages import decode_response

        result = decode_response(request, response)
        for respond in self._queue.popleft().responds:
            respond(result)
        self._send_next()

    def _retry(self, reason: str) -> None:
        self._failure_count += 1
        if self._failure_count >= LOGGED_FROM and reason != self._last_failure:
            logger.warning(
                "broker %d does not respond to a control request, which is sent again: %s",
                self.broker.broker_id,
                reason,
            )
            self._last_failure = reason
        self._owner.wheel.after(RETRY_MS, self._end_pause)

    def _end_pause(self) -> None:
        self._is_waiting = False
        self._send_next()


class ControlChannels:
    """The channels to all registered brokers but this one.

    broker_id                   of this broker; the client id of its requests
    listener_name               over which the controller reaches the brokers
                                (control.plane.listener.name, else inter.broker.listener.name)
    inter_broker_listener_name  over which they reach each other
    """

    def __init__(
        self,
        clients: NetworkClients,
        wheel: WheelDriver,
        clock: Clock,
        *,
        broker_id: int,
        listener_name: str,
        inter_broker_listener_name: str,
    ) -> None:
        self._clients = clients
        self.wheel = wheel
        self.scheduler = scheduler_of(clock, clients.defer, "control requests")
        self._broker_id = broker_id
        self.listener_name = listener_name
        self._inter_broker_listener_name = inter_broker_listener_name
        self._brokers: Mapping[int, BrokerImage] = {}
        self._channels: dict[int, _Channel] = {}

    def set_brokers(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Open, move and close channels, as registrations began, changed and ended."""
        if brokers is self._brokers:
            return
        self._brokers = brokers
        for broker_id, channel in list(self._channels.items()):
            broker = brokers.get(broker_id)
            if broker is None or broker.broker_epoch != channel.broker.broker_epoch:
                channel.close()
                del self._channels[broker_id]
            elif self.endpoint(broker) != self.endpoint(channel.broker):
                channel.move(broker)
        for broker_id, broker in brokers.items():
            if broker_id != self._broker_id and broker_id not in self._channels:
                self._channels[broker_id] = _Channel(self, broker)

    def send(self, broker_id: int, request: ControlRequest, respond: Respond) -> None:
        """Send to a registered broker, after what was sent to it before."""
        self._channels[broker_id].send(request, respond)

    def endpoint(self, broker: BrokerImage) -> Endpoint | None:
        """Where the controller reaches a broker."""
        return broker.endpoint(self.listener_name)

    def connect(self, endpoint: Endpoint) -> NetworkClient:
        """A client of a broker."""
        return self._clients.client(endpoint.host, endpoint.port, str(self._broker_id))

    async def encode(self, request: ControlRequest) -> tuple[type[Any], int, bytes]:
        """(class, version, body) of the message of a request."""
        # Imported at its first use: a broker without others never does.
        from odradek.broker.interbroker.wire.control_messages import encode

        return await encode(request, self._inter_broker_listener_name)
