"""A broker that tests control: the node, its platform, and the readers of its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.runtime.clock import Clock
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.testing.node.control.advanced_wheel import AdvancedClock, AdvancedWheel, PeerClock
from odradek.testing.node.control.listener import ControlListener, Server
from odradek.testing.node.node import InstrumentedNode, InstrumentedPlatform


class HeldReaders:
    """Readers and writers of a loop; while they are held, no reader is called."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._readers: dict[int, Callable[[], Any]] = {}
        self._is_held = False
        self.add_writer = loop.add_writer
        self.remove_writer = loop.remove_writer

    def add_reader(self, descriptor: int, callback: Callable[[], Any]) -> None:
        """Call `callback` when the descriptor is readable; held readers are called later."""
        self._readers[descriptor] = callback
        if not self._is_held:
            self._loop.add_reader(descriptor, callback)

    def remove_reader(self, descriptor: int) -> bool:
        """Call nothing for the descriptor any more; whether it had a reader."""
        is_known = self._readers.pop(descriptor, None) is not None
        if not self._is_held:
            self._loop.remove_reader(descriptor)
        return is_known

    def hold(self) -> None:
        self._is_held = True
        for descriptor in self._readers:
            self._loop.remove_reader(descriptor)

    def release(self) -> None:
        self._is_held = False
        for descriptor, callback in self._readers.items():
            self._loop.add_reader(descriptor, callback)


class ControlledPlatform(InstrumentedPlatform):
    """Its clock may be advanced; connections between brokers keep real time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, clock: AdvancedClock, **options: Any
    ) -> None:
        """options  of `InstrumentedPlatform`"""
        self.advanced_clock = clock
        super().__init__(loop, **options)
        self.peer_wheel.after_each_turn(self.purgatory.run_notified)

    def _open_clock(self) -> Clock:
        return self.advanced_clock

    def _open_wheel(self) -> WheelDriver:
        self.advanced_wheel = AdvancedWheel(self.loop, self.advanced_clock, self.loop_watch)
        return self.advanced_wheel

    def _open_peer_time(self) -> tuple[Clock, WheelDriver]:
        clock = PeerClock(self.advanced_clock)
        wheel = TimingWheel(clock.monotonic_ms())
        return clock, WheelDriver(self.loop, clock, wheel, self.loop_watch)

    def close(self) -> None:
        self.peer_wheel.close()
        super().close()


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
        **options: Any,
    ) -> None:
        """options  of `Node`"""
        self._control = control
        self._clock = clock
        self._make_server = make_server
        self._held_readers = HeldReaders(loop)
        super().__init__(loop, settings, **options)

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
            self._loop, clock=self._clock, **self._platform_options()
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
