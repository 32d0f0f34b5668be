"""Who may use the console: names of hosts, users, requests of other sites; headers of responses.

A page of another site can make a browser send requests to the console, also under a name that it
lets point to this machine (DNS rebinding).  So a `Host` is refused that is neither an address nor a
name of the console; and what changes something must come from a page of the console.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Collection, Mapping
from typing import Final

import anyio
import anyio.to_thread
import bcrypt
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL_NAMES: Final = ("localhost",)
SAFE_METHODS: Final = ("GET", "HEAD")
SAME_ORIGIN: Final = ("same-origin", "none")
VERIFIED_MAX: Final = 100
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Users:
    """Names and bcrypt hashes of passwords.  What was verified once is remembered, as a digest."""

    def __init__(self, hashes: Mapping[str, bytes]) -> None:
        self._hashes = dict(hashes)
        self._key = secrets.token_bytes(32)
        self._verified: set[bytes] = set()
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self._unknown = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt(10))

    async def verify(self, header: str) -> str | None:
        """The user of an `Authorization` header, or None.

        A wrong password costs as much time as a right one, and one is checked at a time.
        """
        scheme, _, encoded = header.partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            # Neither base64 nor UTF-8, or not even ASCII.
            return None
        digest = hmac.digest(self._key, encoded.encode(), hashlib.sha256)
        if digest in self._verified:
            return name
        stored = self._hashes.get(name, self._unknown)
        is_right = await anyio.to_thread.run_sync(
            _check_password, password, stored, limiter=self._one_at_a_time
        )
        if not is_right or name not in self._hashes:
            return None
        if len(self._verified) >= VERIFIED_MAX:
            self._verified.clear()
        self._verified.add(digest)
        return name


def _check_password(password: str, stored: bytes) -> bool:
    try:
        return bcrypt.checkpw(password.encode(), stored)
    except ValueError:
        # Longer than 72 bytes, or with a zero byte.
        return False


class Guard:
    """Passes requests on to the application that may be served; `scope["user"]` is who asks."""

    def __init__(self, application: ASGIApp, hosts: Collection[str], users: Users | None) -> None:
        """
        hosts  names of the console besides LOCAL_NAMES and addresses
        users  None: everybody may use it
        """
        self._application = application
        self._hosts = frozenset(name.lower() for name in (*hosts, *LOCAL_NAMES))
        self._users = users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Cache-Control", "no-store")
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        headers = Headers(scope=scope)
        scope["user"] = ""
        refusal = self._refusal(scope["method"], headers)
        if refusal is None and self._users is not None:
            user = await self._users.verify(headers.get("authorization", ""))
            if user is None:
                refusal = PlainTextResponse(
                    "Name and password are required.\n",
                    401,
                    {"WWW-Authenticate": 'Basic realm="odradek console", charset="UTF-8"'},
                )
            else:
                scope["user"] = user
        await (refusal or self._application)(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if not is_allowed_host(host, self._hosts):
            return PlainTextResponse(
                "This name is not one of the console's; --allowed-host adds one.\n", 421
            )
        if method in SAFE_METHODS:
            return None
        if headers.get("sec-fetch-site", "none") not in SAME_ORIGIN:
            return PlainTextResponse("The request comes from another site.\n", 403)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return PlainTextResponse("The request comes from another site.\n", 403)
        return None


def is_allowed_host(header: str, names: Collection[str]) -> bool:
    """Whether a `Host` header has an IP address, or one of `names`, which are in lower case."""
    host = header.rpartition(":")[0] if header.rpartition(":")[2].isdecimal() else header
    host = host.strip("[]").lower()
    if host in names:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
