"""How this broker authenticates to others.

An exchange asks the other broker with each message, and does what takes long in a thread.
Source: Kafka's SaslClientAuthenticator, PlainSaslClientFactory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from odradek.broker.security.sasl.sasl_server import SaslError
from odradek.runtime.jaas import LoginModule
from odradek.runtime.oauth_tokens import (
    UNSECURED_LOGIN,
    OAuthTokenError,
    Token,
    initial_response,
    token_source,
)
from odradek.runtime.scram_credential import salted_password
from odradek.runtime.scram_exchange import ScramChallenge, ScramError, ScramExchange

SendToken = Callable[[bytes], Awaitable[bytes]]
"""Sends a message of the mechanism and returns the response; raises SaslError when refused."""
HashInThread = Callable[[Callable[[], bytes]], Awaitable[bytes]]

TOKEN_SHARE: Final = 0.8
"""The share of a token's life after which it is replaced (sasl.login.refresh.window.factor)."""
REFUSAL_RECEIVED: Final = b"\x01"


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
        self._username = username
        self._password = password
        self._new_nonce = new_nonce
        self._salted: tuple[ScramChallenge, bytes] | None = None
        """The salted password of the last exchange: brokers have the same salt."""

    async def log_in(self, ask: SendToken, in_thread: HashInThread) -> None:
        try:
            await self._exchange(ask, in_thread)
        except ScramError as error:
            raise SaslError(str(error)) from None

    async def _exchange(self, ask: SendToken, in_thread: HashInThread) -> None:
        exchange = ScramExchange(self.mechanism, self._username, self._new_nonce())
        challenge = exchange.on_server_first(await ask(exchange.client_first))
        if self._salted is None or self._salted[0] != challenge:
            salted = await in_thread(
                lambda: salted_password(self.mechanism, self._password, *challenge)
            )
            self._salted = challenge, salted
        exchange.on_server_final(await ask(exchange.client_final(self._salted[1])))


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
