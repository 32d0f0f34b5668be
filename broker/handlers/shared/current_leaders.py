"""The present leaders in responses that refuse what another broker leads (KIP-951).

A client goes on there at once, without a Metadata request, which may well reach a broker that has
not heard of the change.
Source: Kafka's KafkaApis.getCurrentLeader.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from odradek.broker.handlers.shared.handler import Context
from odradek.controller.image.control_requests import NO_EPOCH

NO_LEADER: Final = -1


class LeaderEndpoint(NamedTuple):
    """A broker, as clients of one listener reach it."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class CurrentLeaders:
    """The leaders that one response names, each once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._nodes: dict[int, LeaderEndpoint | None] = {}

    def of(self, topic: str | UUID, index: int) -> tuple[int, int] | None:
        """(leader, leader epoch) of a partition, by its topic's name or id; None: nothing is known
        of it."""
        services = self._context.services
        if isinstance(topic, UUID):
            topic = services.topics.name_of(topic) or ""
        partition = services.partitions.get(topic, index)
        if partition is not None:
            leader, epoch = partition.leader_id, partition.leader_epoch
        else:
            partition_image = services.topics.image().partition(topic, index)
            if partition_image is None or partition_image.state is None:
                return None
            leader, epoch = partition_image.state.leader, partition_image.state.leader_epoch
        if leader not in self._nodes:
            self._nodes[leader] = self._node(leader)
        return None if (leader, epoch) == (NO_LEADER, NO_EPOCH) else (leader, epoch)

    def nodes(self) -> list[LeaderEndpoint]:
        """The leaders that are alive and have an address on the client's listener."""
        return [node for node in self._nodes.values() if node is not None]

    def _node(self, broker_id: int) -> LeaderEndpoint | None:
        context = self._context
        broker = context.services.topics.image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(context.listener_name)
        if broker is None or endpoint is None:
            return None
        return LeaderEndpoint(broker_id, endpoint.host, endpoint.port, broker.rack)
