"""A broker that tests control: the node, with what the routes use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.broker.node.node import Node
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.test_control.listener import ControlListener, Server


class ControlledNode(Node):
    """A node with a control channel, which is served once clients are."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        *,
        control: ControlListener,
        make_server: Callable[[ControlledNode], Server],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._control = control
        self._make_server = make_server
        super().__init__(loop, settings, should_stop=should_stop)

    @property
    def broker_id(self) -> int:
        """The node is started."""
        return self._broker_id

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the broker."""
        return self._loop

    def start(self) -> None:
        super().start()
        self._control.serve(self._loop, lambda: self._make_server(self))

    async def stop(self) -> None:
        self._control.close()
        await super().stop()
