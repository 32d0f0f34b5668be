"""Who may use the control channel: programs of this machine, or those that have its token.

A web page may have its own name resolve to 127.0.0.1, and then read what a server there responds.
Its requests carry that name as `Host`.
"""

from __future__ import annotations

import hmac
import ipaddress
from http import HTTPStatus
from typing import Final, NamedTuple

SCHEME: Final = "Bearer "
LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
TOKEN_VARIABLE: Final = "ODRADEK_CONTROL_TOKEN"
TOKEN_CHARACTERS_MIN: Final = 16
TOKEN_CHARACTERS_MAX: Final = 1_000


class Denial(NamedTuple):
    """A request that is refused: the status of the response and one line."""

    status: int
    text: str


class ControlAccess:
    """Decides by the headers of a request."""

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
