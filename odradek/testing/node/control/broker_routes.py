"""Routes about the broker itself."""

from __future__ import annotations

from collections.abc import Callable

from odradek.controller.coordination.server.client_sessions import TIMEOUT_MOST_MS
from odradek.testing.node.control.node import ControlledNode
from odradek.testing.node.control.routes import Arguments, Routes


class BrokerRoutes:
    """What the broker is."""

    def __init__(self, node: ControlledNode, keep_data: Callable[[], None]) -> None:
        self._node = node
        self._keep_data = keep_data

    def add_to(self, routes: Routes) -> None:
        routes.add("GET", "/broker", "the id and the listeners of the broker", self.describe)
        routes.add(
            "POST",
            "/broker/keep-data",
            "leave the data when the broker stops, for a start with --data",
            self.keep_data,
        )
        routes.add(
            "POST",
            "/coordination/expire",
            "end the coordination sessions of brokers and clients that have no connection",
            self.expire,
        )

    def keep_data(self, arguments: Arguments) -> object:
        self._keep_data()
        return {}

    def expire(self, arguments: Arguments) -> object:
        """Also of a broker that has no sessions of others."""
        self._node.on_time_passed(TIMEOUT_MOST_MS)
        return {}

    def describe(self, arguments: Arguments) -> object:
        controller = self._node.services.controller
        return {
            "broker_id": self._node.broker_id,
            "cluster_id": controller.image.cluster_id,
            "controller_id": controller.image.controller_id,
            "listeners": [listener.address for listener in self._node.listeners],
        }
