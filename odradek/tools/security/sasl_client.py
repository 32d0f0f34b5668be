"""The client's side of SASL: the tokens that it sends, and what it expects.

An exchange is a generator: it yields a token and is sent the broker's, until it returns.
Source: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM), RFC 7628 (OAUTHBEARER), KIP-48; Kafka 3.9's
JaasConfig.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping
from typing import Final

from odradek.runtime.jaas import JaasError, LoginModule, parse_login_modules
from odradek.runtime.oauth_tokens import (
    OAuthTokenError,
    Token,
    extensions,
    initial_response,
    token_source,
)
from odradek.tools.security.errors import SecurityError

KEY: Final = "sasl.jaas.config"


def parse_jaas(text: str) -> LoginModule:
    """The login module of KEY.

    raises  SecurityError, which shows no option's value
    """
    try:
        modules = parse_login_modules(text)
    except JaasError as error:
        raise SecurityError(f"{KEY}: {error}") from None
    if len(modules) != 1:
        raise SecurityError(f"{KEY}: expected one login module")
    return modules[0]


Exchange = Generator[bytes, bytes, None]
PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM, OAUTHBEARER)


class SaslLogin:
    """A mechanism and the credentials of a client."""

    def __init__(self, mechanism: str, module: LoginModule, configs: Mapping[str, str]) -> None:
        """raises  SecurityError"""
        self.mechanism = mechanism
        self._options = module.options
        self._tokens: Callable[[], Token] | None = None
        if mechanism not in MECHANISMS:
            raise SecurityError(
                f"sasl.mechanism={mechanism} is not supported; expected {', '.join(MECHANISMS)}"
            )
        if mechanism == OAUTHBEARER:
            try:
                self._tokens = token_source(configs, module.options)
            except OAuthTokenError as error:
                raise SecurityError(str(error)) from None
        else:
            for name in ("username", "password"):
                if name not in module.options:
                    raise SecurityError(f"{KEY}: {name} is missing")

    @property
    def username(self) -> str:
        """The name of the user, or the id of a delegation token."""
        return self._options["username"]

    @property
    def password(self) -> str:
        """The password, or the HMAC of a delegation token."""
        return self._options["password"]

    @property
    def is_by_delegation_token(self) -> bool:
        """Whether the credentials are a delegation token."""
        return self._options.get("tokenauth", "").lower() == "true"

    @property
    def extensions(self) -> dict[str, str]:
        """SASL extensions of OAUTHBEARER."""
        return extensions(self._options)

    def token(self) -> Token:
        """A new token for OAUTHBEARER.

        raises  SecurityError
        """
        assert self._tokens is not None, "the mechanism is OAUTHBEARER"
        try:
            return self._tokens()
        except OAuthTokenError as error:
            raise SecurityError(str(error)) from None

    def exchange(self) -> Exchange:
        """The tokens of one login, which raises SecurityError."""
        if self.mechanism == PLAIN:
            return self._plain()
        return self._oauth_bearer() if self.mechanism == OAUTHBEARER else self._scram()

    def _plain(self) -> Exchange:
        yield f"\0{self.username}\0{self.password}".encode()

    def _oauth_bearer(self) -> Exchange:
        problem = yield initial_response(self.token(), self._options)
        if problem:
            # The broker's reason; after this byte it ends the exchange with an error.
            yield b"\x01"

    def _scram(self) -> Exchange:
        # Imported where a client logs in with SCRAM.
        from odradek.runtime.scram_credential import salted_password
        from odradek.runtime.scram_exchange import ScramError, ScramExchange

        extensions = ",tokenauth=true" if self.is_by_delegation_token else ""
        exchange = ScramExchange(
            self.mechanism, self.username, secrets.token_urlsafe(18), extensions
        )
        try:
            challenge = exchange.on_server_first((yield exchange.client_first))
            salted = salted_password(self.mechanism, self.password, *challenge)
            exchange.on_server_final((yield exchange.client_final(salted)))
        except ScramError:
            raise SecurityError("the broker fails to prove that it knows the password") from None
