"""Routes about the broker itself."""

from __future__ import annotations

from odradek.broker.test_control.node import ControlledNode
from odradek.broker.test_control.routes import Arguments, Routes
from odradek.broker.test_control.waiting import until


class BrokerRoutes:
    """What the broker is, and work that it does at once instead of at its interval."""

    def __init__(self, node: ControlledNode) -> None:
        self._node = node

    def add_to(self, routes: Routes) -> None:
        """Add the routes."""
        routes.add("GET", "/broker", "the id and the listeners of the broker", self.describe)
        routes.add(
            "POST",
            "/retention",
            "delete now what retention.ms and retention.bytes say",
            self.retain,
        )

    def describe(self, arguments: Arguments) -> object:
        controller = self._node.services.controller
        return {
            "broker_id": self._node.broker_id,
            "cluster_id": controller.image.cluster_id,
            "controller_id": controller.image.controller_id,
            "listeners": [listener.address for listener in self._node.listeners],
        }

    async def retain(self, arguments: Arguments) -> object:
        """A whole round that begins now; the files are removed after file.delete.delay.ms."""
        retention = self._node.parts.retention
        await until(lambda: not retention.is_running, "the round under way ends")
        retention.run()
        await until(lambda: not retention.is_running, "the round ends")
        return {}
