"""The embedded tree served to other processes, on a port of its own.

`odradek.embedded.zookeeper.listener=HOST:PORT`, or only `PORT` for 127.0.0.1, lets ZooKeeper's
clients (other brokers with `zookeeper.connect`, kazoo, zkCli.sh) use the embedded tree.  With
process.roles the first controller serves it on its listener (`settings/quorum_config.py`).  It has
neither authentication nor encryption.  Without these settings the tree is not served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.node.start_error import StartError
from odradek.broker.server.bound_listener import BoundListener, bind, cannot_listen
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.listeners import parse_address
from odradek.broker.settings.quorum_config import TREE_LISTENER
from odradek.broker.settings.types import InvalidValueError
from odradek.controller.coordination.embedded import EmbeddedTree

if TYPE_CHECKING:
    from odradek.broker.node.platform import Platform
    from odradek.controller.coordination.server.client_listener import ClientListener
    from odradek.controller.coordination.server.client_sessions import ClientSessions

logger = logging.getLogger("odradek")


def tree_listener_address(settings: BrokerSettings) -> tuple[str, int] | None:
    """(host, port) on which this node serves the tree, or None when it does not.

    raises  InvalidValueError
    """
    quorum = settings.quorum
    if quorum is not None:
        listener = quorum.tree_listener
        return None if listener is None else (listener.host, listener.port)
    text = settings.written.get(TREE_LISTENER, "").strip()
    if not text:
        return None
    if settings.zookeeper_connect is not None:
        allowed = "The tree of zookeeper.connect is used, so there is none to be served"
        raise InvalidValueError(TREE_LISTENER, text, allowed)
    return parse_address(TREE_LISTENER, text)


def bind_tree_listener(settings: BrokerSettings, platform: Platform) -> TreeListener | None:
    """Bind the listener that the settings ask for.

    raises  StartError when the address is in use; InvalidValueError
    """
    address = tree_listener_address(settings)
    if address is None:
        return None
    try:
        return TreeListener(address, platform)
    except OSError as error:
        text = cannot_listen(f"{address[0]}:{address[1]}", address[1], error)
        raise StartError(text) from error


class TreeListener:
    """Bound at once, served later, closed at the end."""

    def __init__(self, address: tuple[str, int], platform: Platform) -> None:
        """raises  OSError when the address is in use or not of this machine"""
        self._platform = platform
        self.bound: BoundListener = bind("embedded ZooKeeper", *address)
        self._clients: ClientListener | None = None
        self._sessions: ClientSessions | None = None

    def serve(
        self, embedded: EmbeddedTree, *, folder: str, on_problem: Callable[[str], None]
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

        platform = self._platform
        sessions = self._sessions = ClientSessions(
            embedded,
            load_passwords(platform.files, folder, platform.rng),
            monotonic_ms=platform.peer_clock.monotonic_ms,
            add_timer=platform.peer_wheel.add,
        )
        self._clients = ClientListener(
            platform.loop,
            self.bound.socket,
            ClientService(embedded, sessions, {"clientPort": self.bound.port}),
            clock=platform.peer_clock,
            add_timer=platform.peer_wheel.add,
            loop_watch=platform.loop_watch,
            on_problem=on_problem,
        )
        self._clients.listen()
        logger.info("the embedded tree is served to ZooKeeper clients on %s", self.bound.address)

    def pass_time(self, by_ms: int) -> None:
        """Let time pass for the sessions whose client is not connected."""
        if self._sessions is not None:
            self._sessions.pass_time(by_ms)

    def close(self) -> None:
        """Close all connections; the sessions of the clients go on."""
        if self._clients is not None:
            self._clients.close()
        self.bound.socket.close()
