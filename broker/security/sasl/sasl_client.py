"""How this broker authenticates to others.

An exchange asks the other broker with each message, and does what takes long in a thread.
Source: Kafka's SaslClientAuthenticator, ScramSaslClient, PlainSaslClientFactory.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import Final, Protocol

from odradek.broker.security.sasl.sasl_server import SaslError
from odradek.broker.security.sasl.scram_credential import (
    ITERATIONS_MIN,
    hash_of,
    hmac_of,
    salted_password,
    xor,
)
from odradek.runtime.jaas import LoginModule

SendToken = Callable[[bytes], Awaitable[bytes]]
"""Sends a message of the mechanism and returns the response; raises SaslError when refused."""
HashInThread = Callable[[Callable[[], bytes]], Awaitable[bytes]]

ITERATIONS_MAX: Final = 1_000_000
"""What another broker may ask for, half a second of a thread."""
_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})"
    r"(?:,.*)?",
    re.DOTALL,
)


class BrokerLogin(Protocol):
    """The credentials of this broker; one for all its connections."""

    mechanism: str

    async def log_in(self, ask: SendToken, in_thread: HashInThread) -> None:
        """One exchange.

        raises  SaslError; what `ask` raises
        """


class PlainLogin:
    """A name and a password, in the clear."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    async def log_in(self, ask: SendToken, in_thread: HashInThread) -> None:
        await ask(self._message)


class ScramLogin:
    """A name and a password, which both sides prove to know."""

    def __init__(
        self, mechanism: str, username: str, password: str, new_nonce: Callable[[], str]
    ) -> None:
        self.mechanism = mechanism
        self._name = username.replace("=", "=3D").replace(",", "=2C")
        self._password = password
        self._new_nonce = new_nonce
        self._salted: tuple[bytes, int, bytes] | None = None
        """Salt, iterations and salted password of the last exchange: brokers have the same."""

    async def log_in(self, ask: SendToken, in_thread: HashInThread) -> None:
        mechanism, nonce = self.mechanism, self._new_nonce()
        bare = f"n={self._name},r={nonce}"
        server_first = (await ask(f"n,,{bare}".encode())).decode("ascii", "replace")
        matched = _SERVER_FIRST.fullmatch(server_first)
        if matched is None:
            raise SaslError("the first message of the broker has another format")
        if not matched["nonce"].startswith(nonce) or matched["nonce"] == nonce:
            raise SaslError("the broker has changed the nonce, or added nothing to it")
        iterations = int(matched["iterations"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise SaslError(f"the broker asks for {iterations} iterations")
        salted = await self._salted_password(decoded(matched["salt"]), iterations, in_thread)
        final_bare = f"c=biws,r={matched['nonce']}"
        exchange = f"{bare},{server_first},{final_bare}".encode()
        client_key = hmac_of(mechanism, salted, b"Client Key")
        signature = hmac_of(mechanism, hash_of(mechanism, client_key), exchange)
        proof = b64encode(xor(client_key, signature)).decode()
        server_final = await ask(f"{final_bare},p={proof}".encode())
        server_key = hmac_of(mechanism, salted, b"Server Key")
        expected = b"v=" + b64encode(hmac_of(mechanism, server_key, exchange))
        if not compare_digest(server_final.partition(b",")[0], expected):
            raise SaslError("the broker does not know the password")

    async def _salted_password(
        self, salt: bytes, iterations: int, in_thread: HashInThread
    ) -> bytes:
        if self._salted is None or self._salted[:2] != (salt, iterations):
            salted = await in_thread(
                lambda: salted_password(self.mechanism, self._password, salt, iterations)
            )
            self._salted = salt, iterations, salted
            return salted
        return self._salted[2]


class NoLogin:
    """A login module without credentials: it is enough for a broker without peers."""

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism

    async def log_in(self, ask: SendToken, in_thread: HashInThread) -> None:
        raise SaslError(f"the login module of {self.mechanism} has no username and password")


def decoded(text: str) -> bytes:
    """raises  SaslError for what is not Base64"""
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise SaslError("a message of the broker contains wrong Base64") from None


def make_login(mechanism: str, module: LoginModule, new_nonce: Callable[[], str]) -> BrokerLogin:
    """The login of a listener's mechanism."""
    username, password = module.options.get("username"), module.options.get("password")
    if not username or not password or not (mechanism == "PLAIN" or mechanism.startswith("SCRAM")):
        return NoLogin(mechanism)
    if mechanism == "PLAIN":
        return PlainLogin(username, password)
    return ScramLogin(mechanism, username, password, new_nonce)
