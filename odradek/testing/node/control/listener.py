"""The port of the control channel: bound at the start, served from the first connection on.

A test that asks for nothing costs one bound socket; what serves it is imported when the first
connection has come.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol

SCHEME: Final = "Bearer "
LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
TOKEN_VARIABLE: Final = "ODRADEK_CONTROL_TOKEN"
TOKEN_CHARACTERS_MIN: Final = 16
TOKEN_CHARACTERS_MAX: Final = 1_000
HOST: Final = "127.0.0.1"
BACKLOG: Final = 64
_LOCAL: Final = {"0.0.0.0": HOST, "::": "::1"}
"""An address of every interface -> what programs of this machine use."""


class Denial(NamedTuple):
    """A request that is refused: the status of the response and one line."""

    status: int
    text: str


class ControlAccess:
    """Who may use the channel: programs of this machine, or those that have its token.

    Decides by the headers of a request.  A web page may have its own name resolve to 127.0.0.1,
    and then read what a server there responds; its requests carry that name as `Host`.
    """

    def __init__(self, host: str, port: int, token: str | None) -> None:
        """
        host, port  where the channel listens
        token       what every request must show; None: requests must name this machine
        """
        self._token = None if token is None else token.encode()
        name = f"[{host}]" if ":" in host else host
        self._hosts = frozenset(f"{local}:{port}" for local in (*LOCAL_NAMES, name.lower()))

    def denial(self, host: str | None, authorization: str | None) -> Denial | None:
        """Why a request is refused, or None.

        host, authorization  headers, None where they are missing
        """
        if self._token is not None:
            # A web page does not have it, whatever name it was loaded from.
            shown = (authorization or "").removeprefix(SCHEME).encode("utf-8", "replace")
            if not hmac.compare_digest(shown, self._token):
                text = "the header Authorization: Bearer TOKEN is missing, or the token is wrong"
                return Denial(HTTPStatus.UNAUTHORIZED, text)
            return None
        if host is None:
            return Denial(HTTPStatus.BAD_REQUEST, "the header Host is missing")
        if host.strip().lower() not in self._hosts:
            return Denial(HTTPStatus.FORBIDDEN, f"the channel is not for requests to {host[:200]}")
        return None


def is_loopback(address: str) -> bool:
    """Whether only programs of this machine reach an address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def is_token(text: str) -> bool:
    """Whether a text can be sent as a token, and is not guessed at once."""
    size = len(text)
    is_printable = text.isascii() and text.isprintable() and " " not in text
    return is_printable and TOKEN_CHARACTERS_MIN <= size <= TOKEN_CHARACTERS_MAX


class NeedsToken(OSError):
    """Other machines reach the address, and there is no token."""


class Server(Protocol):
    """What serves the port."""

    def close(self) -> None:
        """Cancel what is under way."""


class ControlListener:
    """The port of one broker's control channel."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        """
        host    a name or address; an address of other machines' reach needs a token
        port    0 takes a free one
        raises  OSError
        """
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if token is None and not is_loopback(str(address[0])):
            raise NeedsToken(
                f"other machines reach it, so it needs a token: set {TOKEN_VARIABLE}, or give "
                "--control-token-file FILE"
            )
        self.socket = socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)
        self.socket.setblocking(False)
        bound = self.socket.getsockname()[1]
        local = _LOCAL.get(str(address[0]), host)
        self.address = f"http://{f'[{local}]' if ':' in local else local}:{bound}"
        self.access = ControlAccess(host, bound, token)
        self._server: Server | None = None
        self._stop_watching: Callable[[], object] = lambda: None

    def serve(self, loop: asyncio.AbstractEventLoop, make_server: Callable[[], Server]) -> None:
        """Accept callers; the node is started.

        make_server  called on the loop when the first connection has come
        """
        descriptor = self.socket.fileno()

        def on_first_connection() -> None:
            loop.remove_reader(descriptor)
            self._server = make_server()

        self._stop_watching = lambda: loop.remove_reader(descriptor)
        loop.add_reader(descriptor, on_first_connection)

    def close(self) -> None:
        """Accept no more callers, and cancel what is under way; on the loop's thread."""
        self._stop_watching()
        if self._server is not None:
            self._server.close()
        self.socket.close()
