"""The platform of a node whose requests, links and disk tests observe and make fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.broker.node.platform import Platform
from odradek.runtime.files import FileSystem
from odradek.testing.node.client_requests import ClientRequests
from odradek.testing.node.faults.faults import Faults
from odradek.testing.node.releases import ServedRelease


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
