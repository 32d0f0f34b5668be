"""A broker that tests control: the node, with what the routes use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from odradek.broker.fsync import is_fsync_enabled
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.testing.node.control.clock import AdvancedClock
from odradek.testing.node.control.held_readers import HeldReaders
from odradek.testing.node.control.listener import ControlListener, Server
from odradek.testing.node.control.platform import ControlledPlatform
from odradek.testing.node.node import InstrumentedNode


class ControlledNode(InstrumentedNode):
    """A node with a control channel, which is served once clients are."""

    platform: ControlledPlatform

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        *,
        control: ControlListener,
        clock: AdvancedClock,
        make_server: Callable[[ControlledNode], Server],
        should_stop: Callable[[], bool] = lambda: False,
        forgets_dynamic_settings: bool = False,
    ) -> None:
        self._control = control
        self._clock = clock
        self._make_server = make_server
        self._held_readers = HeldReaders(loop)
        super().__init__(
            loop,
            settings,
            should_stop=should_stop,
            forgets_dynamic_settings=forgets_dynamic_settings,
        )

    @property
    def broker_id(self) -> int:
        """The node is started."""
        return self._broker_id

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the broker."""
        return self._loop

    def _open_platform(self) -> ControlledPlatform:
        self.platform = ControlledPlatform(
            self._loop,
            on_fatal=self._on_fatal,
            requests=self.requests,
            release=self._release,
            broker_at=self._broker_at,
            clock=self._clock,
            is_fsync_enabled=is_fsync_enabled(self._settings.written),
        )
        return self.platform

    def _build(self, broker_id: int) -> None:
        super()._build(broker_id)
        connections = self.parts.server.context
        connections.loop = cast(Any, self._held_readers)
        # Clients live in real time: advancing makes none of them idle.
        connections.now_ms = self._clock.host.monotonic_ms

    def hold_clients(self) -> None:
        """Read no request until `release_clients`; in a cluster, brokers are clients as well."""
        if not self.services.has_peers:
            self._held_readers.hold()

    def release_clients(self) -> None:
        """Read requests again."""
        if not self.services.has_peers:
            self._held_readers.release()

    def on_time_passed(self, by_ms: int) -> None:
        """Time was advanced."""
        if self._tree_listener is not None:
            self._tree_listener.pass_time(by_ms)

    def start(self) -> None:
        super().start()
        self._control.serve(self._loop, lambda: self._make_server(self))

    async def stop(self) -> None:
        self._control.close()
        await super().stop()
