"""A broker that tests control: the node, with what the routes use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.broker.node.node import Node
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.test_control.listener import ControlListener
from odradek.broker.test_control.routes import Routes


class ControlledNode(Node):
    """A node with a control channel, which is served once clients are."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        *,
        control: ControlListener,
        make_routes: Callable[[ControlledNode], Routes],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._control = control
        self._make_routes = make_routes
        super().__init__(loop, settings, should_stop=should_stop)

    @property
    def broker_id(self) -> int:
        """The node is started."""
        return self._broker_id

    def start(self) -> None:
        super().start()
        self._control.serve(self._loop, lambda: self._make_routes(self))

    async def stop(self) -> None:
        self._control.close()
        await super().stop()
