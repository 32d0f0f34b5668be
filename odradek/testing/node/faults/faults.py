"""The faults of one node: what a test adds, lists and removes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.handlers.shared.table import HANDLERS
from odradek.broker.interbroker.network_client import OpenConnection
from odradek.broker.server.budget import Budget
from odradek.broker.server.connection import Connection
from odradek.broker.services import Services
from odradek.protocol.api_keys import ApiKey
from odradek.runtime.clock import Clock
from odradek.runtime.files import FileSystem
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.wheel_driver import WheelDriver
from odradek.testing.node.client_requests import ClientRequests
from odradek.testing.node.faults.connection import FaultyConnection
from odradek.testing.node.faults.coordination_relay import CoordinationRelay
from odradek.testing.node.faults.dispatch import FaultyDispatcher
from odradek.testing.node.faults.files import SLOW_MAX_MS, DiskFaults, FaultyFileSystem
from odradek.testing.node.faults.links import DELAY_MAX_MS, Direction, Link, Links
from odradek.testing.node.faults.rules import FaultRefused, Rules, flag, whole
from odradek.testing.node.releases import ServedRelease

if TYPE_CHECKING:
    from odradek.broker.server.tls_connection import TlsConnection

COORDINATION: Final = "coordination"
"""The peer of a link, in place of a broker id."""
LINK_FIELDS: Final = ("peer", "sends", "receives", "cut", "delay_ms")
DISK_FIELDS: Final = ("path", "full", "fail_fsync", "slow_ms")


class Faults:
    """Rules for requests, links, and the disk."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wheel: WheelDriver, clock: Clock) -> None:
        self._loop = loop
        self._wheel = wheel
        self._disk = DiskFaults()
        self._links = Links(loop, wheel, clock)
        self._relay: CoordinationRelay | None = None
        self._rules = Rules(
            {ApiKey(api.key): range(api.min_version, api.max_version + 1) for api in HANDLERS}
        )
        self._stalled: dict[FaultyConnection, None] = {}

    # Where the node meets them.

    def on_files(self, files: FileSystem) -> FileSystem:
        """In place of `files`."""
        return FaultyFileSystem(files, self._disk)

    def connect_to_brokers(self, broker_at: Callable[[str, int], int | None]) -> OpenConnection:
        """How this node connects to brokers.

        broker_at  the id of the broker of an address
        """
        return partial(self._links.open_connection, broker_at=broker_at)

    def relay_coordination(self, hosts: str) -> str:
        """`host:port` of this process in place of those of an ensemble."""
        self._relay = CoordinationRelay(self._loop, self._links, hosts)
        return self._relay.hosts

    def close(self) -> None:
        """Close the relay; called when the node has ended its coordination session."""
        if self._relay is not None:
            self._relay.close()

    def make_dispatcher(
        self, requests: ClientRequests, release: ServedRelease | None
    ) -> Callable[[Services, Scheduler, Budget], FaultyDispatcher]:
        """In place of `Dispatcher`.

        requests  counts those of clients
        release   that clients see, if any
        """
        return partial(
            FaultyDispatcher,
            requests=requests,
            release=release,
            rules=self._rules,
            wheel=self._wheel,
        )

    @property
    def make_connection(self) -> Callable[..., Connection]:
        """In place of `Connection`."""
        return partial(FaultyConnection, after=self._wheel.after, on_stalled=self._on_stalled)

    def make_tls_connection(self, *arguments: Any, **keywords: Any) -> TlsConnection:
        """In place of `TlsConnection`, which is imported where a listener has TLS."""
        from odradek.testing.node.faults.tls_connection import FaultyTlsConnection

        return FaultyTlsConnection(
            *arguments, after=self._wheel.after, on_stalled=self._on_stalled, **keywords
        )

    def _on_stalled(self, connection: FaultyConnection) -> None:
        self._stalled = {
            held_connection: None
            for held_connection in self._stalled
            if not held_connection.is_closed
        }
        self._stalled[connection] = None

    # Rules.

    def add(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Add a rule; returns its row.

        raises  FaultRefused
        """
        return self._rules.add(fields).row()

    def row(self, number: int) -> dict[str, Any] | None:
        """A rule and its hits; None when there is none."""
        rule = self._rules.get(number)
        return None if rule is None else rule.row()

    def remove(self, number: int) -> None:
        """Remove a rule.

        Connections that wait for a response because of it are closed.
        """
        self._rules.remove(number)
        self._release(lambda connection: connection.stalled_by == number)

    def _release(self, ends: Callable[[FaultyConnection], bool]) -> None:
        for connection in tuple(self._stalled):
            if ends(connection):
                connection.close()
                del self._stalled[connection]

    def clear(self) -> None:
        """Remove every fault of every kind."""
        self._rules.clear()
        self._release(lambda connection: True)
        self._links.heal()
        self._disk.heal()

    # Links.

    def set_link(self, fields: Mapping[str, Any]) -> None:
        """Cut, slow or heal a link.

        peer            the id of a broker, or "coordination"
        sends, receives  whether the direction is meant; both by default
        cut, delay_ms   what it is from now on; heals when absent
        raises          FaultRefused
        """
        _check_fields(fields, LINK_FIELDS, "a link")
        link = self._link(fields.get("peer"))
        is_cut = flag("cut", fields.get("cut", False))
        delay_ms = whole("delay_ms", fields.get("delay_ms", 0), DELAY_MAX_MS)
        for name, direction in (("sends", link.outgoing), ("receives", link.incoming)):
            if flag(name, fields.get(name, True)):
                direction.set(is_cut=is_cut, delay_ms=delay_ms)

    def _link(self, peer: Any) -> Link:
        if peer == COORDINATION:
            if self._relay is None:
                raise FaultRefused("this broker has its coordination in itself, or uses TLS for it")
            return self._links.coordination
        if isinstance(peer, int) and not isinstance(peer, bool) and peer >= 0:
            return self._links.to_broker(peer)
        raise FaultRefused(
            f'the peer of a link is a broker id or "{COORDINATION}", not {peer!r:.80}'
        )

    # The disk.

    def set_disk(self, fields: Mapping[str, Any], data: str) -> None:
        """Make the disk full, slow or unable to sync, or heal it.

        data     the log directory; `path` may be relative to it, and is all of it by default
        raises   FaultRefused
        """
        _check_fields(fields, DISK_FIELDS, "the disk")
        path = fields.get("path", "")
        if not isinstance(path, str):
            raise FaultRefused(f"path is a text, not {path!r:.80}")
        folder = os.path.normpath(os.path.join(data, path))
        self._disk.strike(
            folder,
            slow_ms=whole("slow_ms", fields.get("slow_ms", 0), SLOW_MAX_MS),
            is_full=flag("full", fields.get("full", False)),
            fails_syncs=flag("fail_fsync", fields.get("fail_fsync", False)),
        )

    def listing(self) -> dict[str, Any]:
        """All faults that there are."""
        return {
            "requests": self._rules.rows(),
            "links": [
                {"peer": COORDINATION if peer is None else peer, name: shown}
                for peer, link in self._links.all()
                for name, direction in (("sends", link.outgoing), ("receives", link.incoming))
                if (shown := _shown(direction))
            ],
            "disk": {
                name: value
                for name, value in (
                    ("full", self._disk.full),
                    ("fail_fsync", self._disk.failed_sync),
                    ("slow", self._disk.slow),
                )
                if value is not None
            },
        }


def _shown(direction: Direction) -> dict[str, Any]:
    if direction.is_cut:
        return {"cut": True}
    return {"delay_ms": direction.delay_ms} if direction.delay_ms else {}


def _check_fields(fields: Mapping[str, Any], field_names: tuple[str, ...], what: str) -> None:
    for name in fields:
        if name not in field_names:
            raise FaultRefused(f"{what} has no {name!r}: it has {', '.join(field_names)}")
