"""A node, and its platform, that tests observe and make fail: requests, links, disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.broker.fsync import is_fsync_enabled
from odradek.broker.node.node import Node
from odradek.broker.node.platform import Platform
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.runtime.files import FileSystem
from odradek.testing.node.client_requests import ClientRequests, client_requests_of
from odradek.testing.node.faults.faults import Faults
from odradek.testing.node.releases import ServedRelease, release_of

if TYPE_CHECKING:
    from odradek.controller.coordination.zookeeper_connection import ZooKeeperOptions


class InstrumentedPlatform(Platform):
    """A platform with faults, which counts requests."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_fatal: Callable[[str], None],
        requests: ClientRequests,
        release: ServedRelease | None,
        broker_at: Callable[[str, int], int | None],
        is_fsync_enabled: bool = True,
    ) -> None:
        """
        requests   counts those of clients
        release    that clients see, if any
        broker_at  the id of the registered broker with a host and port
        """
        super().__init__(loop, on_fatal=on_fatal, is_fsync_enabled=is_fsync_enabled)
        self.make_dispatcher = self.faults.make_dispatcher(requests, release)
        self.make_connection = self.faults.make_connection
        self.make_tls_connection = self.faults.make_tls_connection
        self.open_connection = self.faults.connect_to_brokers(broker_at)

    def _open_files(self, *, is_fsync_enabled: bool) -> FileSystem:
        self.faults = Faults(self.loop, self.peer_wheel, self.peer_clock)
        return self.faults.on_files(super()._open_files(is_fsync_enabled=is_fsync_enabled))

    def close(self) -> None:
        self.faults.close()
        super().close()


class InstrumentedNode(Node):
    """A node with faults, which counts the requests of clients and may pass for a release."""

    platform: InstrumentedPlatform

    def __init__(
        self, loop: asyncio.AbstractEventLoop, settings: BrokerSettings, **options: Any
    ) -> None:
        """
        options  of `Node`
        raises   InvalidValueError for a release that there is not
        """
        self._release = release_of(settings.written)
        self.requests = client_requests_of(settings.written)
        super().__init__(loop, settings, **options)

    @property
    def faults(self) -> Faults:
        """What a test has go wrong."""
        return self.platform.faults

    def _open_platform(self) -> InstrumentedPlatform:
        self.platform = InstrumentedPlatform(self._loop, **self._platform_options())
        return self.platform

    def _platform_options(self) -> dict[str, Any]:
        return {
            "on_fatal": self._on_fatal,
            "requests": self.requests,
            "release": self._release,
            "broker_at": self._broker_at,
            "is_fsync_enabled": is_fsync_enabled(self._settings.written),
        }

    def _broker_at(self, host: str, port: int) -> int | None:
        """The id of the registered broker with an address."""
        for broker in self.parts.metadata.image.brokers.values():
            if any((at.host, at.port) == (host, port) for at in broker.endpoints):
                return broker.broker_id
        return None

    def _zookeeper_options(self, settings: BrokerSettings) -> ZooKeeperOptions:
        """Have sessions go through a relay that can be cut, but for those with TLS."""
        options = super()._zookeeper_options(settings)
        if options.tls is not None:
            return options
        return replace(options, hosts=self.faults.relay_coordination(options.hosts))

    async def stop(self) -> None:
        """Stop as every node, and write the report of the requests that were counted."""
        await super().stop()
        path = self.requests.report_path
        if self._is_built and path is not None:
            self.platform.files.replace(path, self.requests.report())
