"""The controller listener of a controller that stands by, or has TLS or SASL on it.

Health checks connect to the port of each controller.  Each connection is accepted and closed: the
coordination is on another node, whose address all nodes know, or no other node can join.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from odradek.broker.node.start_error import StartError
from odradek.broker.server.bound_listener import bind, cannot_listen
from odradek.broker.settings.broker_settings import BrokerSettings


class StandbyListener:
    """Listens at once, and until `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: BrokerSettings) -> None:
        """Without such a controller it does nothing.

        raises  StartError when the address is in use or not of this machine
        """
        self._loop = loop
        listener = None if settings.quorum is None else settings.quorum.standby_listener
        self._socket = None
        if listener is None:
            return
        try:
            self._socket = bind(listener.name, listener.host, listener.port).socket
            self._socket.listen(settings.socket_listen_backlog_size)
        except OSError as error:
            self.close()
            raise StartError(cannot_listen(str(listener), listener.port, error)) from error
        loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        """Close one connection; the loop calls again while there are others."""
        # The client may have gone, and there may be no descriptor: the next call tries again.
        with suppress(OSError):
            if self._socket is not None:
                self._socket.accept()[0].close()

    def close(self) -> None:
        """Accept no more; may be called twice."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
