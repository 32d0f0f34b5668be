"""Connections to the other brokers of the cluster, made at their first request."""

from __future__ import annotations

from odradek.broker.interbroker.network_client import NetworkClient, NetworkClients
from odradek.broker.topics import Topics
from odradek.controller.image.image import Endpoint


class BrokerClients:
    """One client for each broker that something was sent to.

    listener_name  over which brokers reach each other
    client_id      in the header of each request
    """

    def __init__(
        self, clients: NetworkClients, topics: Topics, *, listener_name: str, client_id: str
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._listener_name = listener_name
        self._client_id = client_id
        self._connected: dict[int, tuple[Endpoint, NetworkClient]] = {}

    def of(self, broker_id: int) -> NetworkClient | None:
        """The client of a broker at its present address; None while it is not registered."""
        broker = self._topics.image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener_name)
        entry = self._connected.get(broker_id)
        if entry is not None and entry[0] == endpoint:
            return entry[1]
        if entry is not None:
            del self._connected[broker_id]
            entry[1].close()
        if endpoint is None:
            return None
        client = self._clients.client(endpoint.host, endpoint.port, self._client_id)
        self._connected[broker_id] = (endpoint, client)
        return client

    def close(self) -> None:
        """Close all connections."""
        connected, self._connected = self._connected, {}
        for _, client in connected.values():
            client.close()
