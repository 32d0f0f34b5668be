"""The embedded tree served to other processes, on a port of its own.

`odradek.embedded.zookeeper.listener=HOST:PORT`, or only `PORT` for 127.0.0.1, lets ZooKeeper's
clients (other brokers with `zookeeper.connect`, kazoo, zkCli.sh) use the embedded tree.  It has
neither authentication nor encryption.  Without the setting the tree is not served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.broker.server.bound_listener import BoundListener, bind
from odradek.broker.settings.types import InvalidValueError
from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.runtime.clock import Clock
from odradek.runtime.files import FileSystem
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.randomness import Randomness
from odradek.runtime.wheel_driver import WheelDriver

if TYPE_CHECKING:
    from odradek.controller.coordination.server.client_listener import ClientListener
    from odradek.controller.coordination.server.client_sessions import ClientSessions

SETTING: Final = "odradek.embedded.zookeeper.listener"
LOOPBACK: Final = "127.0.0.1"
PORT_MAX: Final = 65_535

logger = logging.getLogger("odradek")


def tree_listener_address(written: Mapping[str, str]) -> tuple[str, int] | None:
    """(host, port) of the setting, or None when it is not set.

    written  settings as text
    raises   InvalidValueError
    """
    text = written.get(SETTING, "").strip()
    if not text:
        return None
    if written.get("zookeeper.connect"):
        allowed = "The tree of zookeeper.connect is used, so there is none to be served"
        raise InvalidValueError(SETTING, text, allowed)
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise InvalidValueError(SETTING, text, "Must be HOST:PORT or PORT")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


class TreeListener:
    """Bound at once, served later, closed at the end."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        wheel: WheelDriver,
        loop_watch: LoopWatch,
    ) -> None:
        """raises  OSError when the address is in use or not of this machine"""
        self._loop = loop
        self._clock = clock
        self._wheel = wheel
        self._loop_watch = loop_watch
        self._bound: BoundListener = bind("embedded ZooKeeper", *address)
        self._clients: ClientListener | None = None
        self._sessions: ClientSessions | None = None

    @property
    def address(self) -> str:
        """host:port."""
        return self._bound.address

    def serve(
        self,
        embedded: EmbeddedTree,
        *,
        files: FileSystem,
        folder: str,
        randomness: Randomness,
        on_problem: Callable[[str], None],
    ) -> None:
        """Accept clients; the tree serves.

        folder      that of the tree
        on_problem  called with a line for the operator
        raises      OSError
        """
        # Most brokers serve no tree: a start without one is 3 % faster.
        from odradek.controller.coordination.server.client_connection import ClientService
        from odradek.controller.coordination.server.client_listener import ClientListener
        from odradek.controller.coordination.server.client_sessions import ClientSessions
        from odradek.controller.coordination.server.passwords import load_passwords

        sessions = self._sessions = ClientSessions(
            embedded,
            load_passwords(files, folder, randomness),
            monotonic_ms=self._clock.monotonic_ms,
            add_timer=self._wheel.add,
        )
        self._clients = ClientListener(
            self._loop,
            self._bound.socket,
            ClientService(embedded, sessions, {"clientPort": self._bound.port}),
            clock=self._clock,
            add_timer=self._wheel.add,
            loop_watch=self._loop_watch,
            on_problem=on_problem,
        )
        self._clients.listen()
        logger.info(
            "the embedded tree is served to ZooKeeper clients on %s, for one machine", self.address
        )

    def pass_time(self, by_ms: int) -> None:
        """Let time pass for the sessions whose client is not connected."""
        if self._sessions is not None:
            self._sessions.pass_time(by_ms)

    def close(self) -> None:
        """Close all connections; the sessions of the clients go on."""
        if self._clients is not None:
            self._clients.close()
        self._bound.socket.close()
