"""How this broker authenticates to others.

An exchange asks the other broker with each message, and does what takes long in a thread.
Source: Kafka's SaslClientAuthenticator, ScramSaslClient, PlainSaslClientFactory.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Mapping
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
from odradek.runtime.oauth_tokens import (
    UNSECURED_LOGIN,
    OAuthTokenError,
    Token,
    initial_response,
    token_source,
)

SendToken = Callable[[bytes], Awaitable[bytes]]
"""Sends a message of the mechanism and returns the response; raises SaslError when refused."""
HashInThread = Callable[[Callable[[], bytes]], Awaitable[bytes]]

TOKEN_SHARE: Final = 0.8
"""The share of a token's life after which it is replaced (sasl.login.refresh.window.factor)."""
REFUSAL_RECEIVED: Final = b"\x01"
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


class OAuthBearerLogin:
    """An access token, which is fetched in a thread and kept for most of its life.

    Source: Kafka's OAuthBearerSaslClient, ExpiringCredentialRefreshingLogin.
    """

    mechanism = "OAUTHBEARER"

    def __init__(
        self, source: Callable[[], Token], options: Mapping[str, str], now_s: Callable[[], float]
    ) -> None:
        """
        options  of the login module
        now_s    seconds since 1970
        """
        self._source = source
        self._now_s = now_s
        self._options = options
        self._token: tuple[Token, float] | None = None
        """With the time when it is to be replaced, in seconds since 1970."""

    async def log_in(self, ask: SendToken, in_thread: HashInThread) -> None:
        try:
            message = await in_thread(self._message)
        except OAuthTokenError as error:
            raise SaslError(str(error)) from None
        if await ask(message):
            self._token = None
            # The other broker's reason is a status; after this byte it ends the exchange.
            await ask(REFUSAL_RECEIVED)
            raise SaslError("the token is refused")

    def _message(self) -> bytes:
        now_s = self._now_s()
        if self._token is None or now_s >= self._token[1]:
            token = self._source()
            self._token = token, now_s + TOKEN_SHARE * (token.expires_s - now_s)
        return initial_response(self._token[0], self._options)


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


def make_login(
    mechanism: str,
    module: LoginModule,
    new_nonce: Callable[[], str],
    endpoint: Mapping[str, str],
    now_s: Callable[[], float],
) -> BrokerLogin:
    """The login of a listener's mechanism.

    endpoint  settings of the endpoint that has tokens
    now_s     seconds since 1970
    raises    OAuthTokenError for settings of OAUTHBEARER that are not enough
    """
    if mechanism == OAuthBearerLogin.mechanism:
        if not endpoint and not any(name.startswith(UNSECURED_LOGIN) for name in module.options):
            return NoLogin(mechanism)
        return OAuthBearerLogin(token_source(endpoint, module.options), module.options, now_s)
    username, password = module.options.get("username"), module.options.get("password")
    if not username or not password or not (mechanism == "PLAIN" or mechanism.startswith("SCRAM")):
        return NoLogin(mechanism)
    if mechanism == "PLAIN":
        return PlainLogin(username, password)
    return ScramLogin(mechanism, username, password, new_nonce)
