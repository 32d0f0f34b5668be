"""OAUTHBEARER (RFC 7628): a client sends an access token, and the broker checks it.

A refused token is answered with JSON that has a status; the client then sends 0x01, and the
exchange fails.  Extensions of the client are checked and have no effect.
Differs from Kafka: tokens without a signature are accepted only where the login module has one of
the options `unsecured...` or the listener names Kafka's handler for them.  There it is the default,
so that a listener whose handler was forgotten lets everybody in.
Source: KIP-255, KIP-768; Kafka's OAuthBearerSaslServer, OAuthBearerClientInitialResponse,
OAuthBearerValidatorCallbackHandler.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from odradek.broker.security.kafka_principal import USER, KafkaPrincipal
from odradek.broker.security.sasl.mechanisms import MechanismContext
from odradek.broker.security.sasl.oauthbearer_keys import signed_tokens
from odradek.broker.security.sasl.oauthbearer_settings import (
    HANDLER_SETTING,
    SIGNED_HANDLERS,
    UNSECURED_HANDLER,
    handler_of,
    prefixed_name,
)
from odradek.broker.security.sasl.oauthbearer_token import (
    InvalidTokenError,
    ValidToken,
    check_unsecured,
    unsecured_options,
)
from odradek.broker.security.sasl.sasl_server import (
    Authenticated,
    Challenge,
    Mechanism,
    SaslAuthenticationError,
    SaslError,
    SaslStep,
)
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime.work import Later

SEPARATOR: Final = "\x01"
REFUSAL_RECEIVED: Final = b"\x01"
_HEADER: Final = re.compile(r"n,(?:a=(?P<authzid>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]+)")
_AUTH: Final = re.compile(r"bearer +(?P<token>[-_~+/.A-Za-z0-9]+=*)", re.IGNORECASE)

logger = logging.getLogger("odradek.oauthbearer")


class InitialResponse(NamedTuple):
    """The first message of a client."""

    token: str
    authorization_id: str
    """Empty if there is none."""

    def __repr__(self) -> str:
        return f"InitialResponse(authorization_id={self.authorization_id!r})"


ValidateToken = Callable[[str, int], ValidToken | Later[ValidToken]]
"""Checks a token as a listener is configured, at a wall time; a coroutine when keys have to be
fetched first.  Either raises InvalidTokenError."""


class OAuthBearerSaslServer:
    """One exchange."""

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._refusal: str | None = None

    def evaluate(self, response: bytes, now_ms: int) -> SaslStep | Later[SaslStep]:
        """The step after the token, or after the client has received why it is refused."""
        if response == REFUSAL_RECEIVED and self._refusal is not None:
            raise SaslAuthenticationError(self._refusal)
        self._refusal = None
        initial = parse_initial_response(response)
        try:
            checked = self._validate(initial.token, now_ms)
        except InvalidTokenError as error:
            return self._refused(error)
        if isinstance(checked, ValidToken):
            return _authenticated(initial, checked)
        return self._when_checked(initial, checked)

    async def _when_checked(self, initial: InitialResponse, checked: Later[ValidToken]) -> SaslStep:
        try:
            token = await checked
        except InvalidTokenError as error:
            return self._refused(error)
        return _authenticated(initial, token)

    def _refused(self, error: InvalidTokenError) -> Challenge:
        logger.debug("a token is refused: %s", error)
        self._refusal = refusal_text(error)
        return Challenge(self._refusal.encode())


def refusal_text(error: InvalidTokenError) -> str:
    """The JSON of RFC 7628, with Kafka's spaces."""
    scope = "" if error.scope is None else f', "scope":{json.dumps(error.scope)}'
    return f'{{"status":"{error.status}"{scope}}}'


def _authenticated(initial: InitialResponse, token: ValidToken) -> Authenticated:
    if initial.authorization_id not in ("", token.name):
        raise SaslAuthenticationError(
            "Authentication failed: Client requested an authorization id "
            f"({initial.authorization_id}) that is different from the token's principal name "
            f"({token.name})"
        )
    return Authenticated(KafkaPrincipal(USER, token.name), b"", token.expires_ms)


def parse_initial_response(response: bytes) -> InitialResponse:
    """Read the header and the pairs `key=value`, each with a separator after it.

    raises  SaslError
    """
    text = response.decode("utf-8", "replace")
    header, _, body = text.partition(SEPARATOR)
    matched = _HEADER.fullmatch(header)
    *pairs, last, end = body.split(SEPARATOR) if body.endswith(SEPARATOR) else ("", "x", "x")
    if matched is None or last or end:
        raise SaslError("Invalid OAUTHBEARER client first message")
    properties: dict[str, str] = {}
    for pair in pairs:
        matched_pair = _PAIR.fullmatch(pair)
        if matched_pair is None:
            raise SaslError("Invalid OAUTHBEARER client first message")
        properties[matched_pair["key"]] = matched_pair["value"]
    auth = properties.get("auth")
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    matched_auth = _AUTH.fullmatch(auth)
    if matched_auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    return InitialResponse(matched_auth["token"], matched["authzid"] or "")


def make(context: MechanismContext) -> Mechanism:
    """The handler that a listener names decides which tokens it accepts.

    raises  InvalidValueError
    """
    key = prefixed_name(context, HANDLER_SETTING)
    handler = handler_of(context)
    options = context.login_module.options
    if handler in SIGNED_HANDLERS:
        return partial(OAuthBearerSaslServer, signed_tokens(context).validate)
    if handler not in (None, UNSECURED_HANDLER):
        allowed = f"Expected {SIGNED_HANDLERS[0]}: other Java classes cannot be loaded"
        raise InvalidValueError(key, handler, allowed)
    if handler is None and not any(name.startswith("unsecured") for name in options):
        allowed = (
            f"Expected {SIGNED_HANDLERS[0]}, which checks signatures; tokens without a signature "
            "are accepted if the login module has an option unsecuredLoginStringClaim_sub or "
            "unsecuredValidator..."
        )
        raise InvalidValueError(key, "null", allowed)
    try:
        unsecured = unsecured_options(options)
    except ValueError as error:
        raise InvalidValueError("sasl.jaas.config", "[hidden]", str(error)) from None
    logger.warning(
        "the listener %s accepts tokens without a signature: clients may have any name",
        context.listener_name,
    )
    return partial(OAuthBearerSaslServer, partial(check_unsecured, unsecured))
