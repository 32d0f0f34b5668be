"""Routes about the broker itself."""

from __future__ import annotations

from odradek.broker.test_control.node import ControlledNode
from odradek.broker.test_control.routes import Arguments, Routes


class BrokerRoutes:
    """What the broker is."""

    def __init__(self, node: ControlledNode) -> None:
        self._node = node

    def add_to(self, routes: Routes) -> None:
        """Add the routes."""
        routes.add("GET", "/broker", "the id and the listeners of the broker", self.describe)

    def describe(self, arguments: Arguments) -> object:
        controller = self._node.services.controller
        return {
            "broker_id": self._node.broker_id,
            "cluster_id": controller.image.cluster_id,
            "controller_id": controller.image.controller_id,
            "listeners": [listener.address for listener in self._node.listeners],
        }
