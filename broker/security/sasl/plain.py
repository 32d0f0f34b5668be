"""PLAIN: a name and a password (RFC 4616), compared with the users of the login module.

Source: Kafka's PlainSaslServer, PlainServerCallbackHandler.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from odradek.broker.security.kafka_principal import USER, KafkaPrincipal
from odradek.broker.security.sasl.mechanisms import MechanismContext
from odradek.broker.security.sasl.sasl_server import (
    Authenticated,
    Mechanism,
    SaslAuthenticationError,
)

USER_PREFIX: Final = "user_"


class PlainSaslServer:
    """One exchange, which is over after one message."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """users  passwords by name"""
        self._users = users

    def evaluate(self, response: bytes, now_ms: int) -> Authenticated:
        tokens = response.decode("utf-8", "replace").split("\0", 4)
        if len(tokens) != 3:
            count = min(len(tokens), 4)
            raise SaslAuthenticationError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}"
            )
        authorization_id, name, password = tokens
        if not name:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        if not is_password(self._users.get(name), password):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        return Authenticated(KafkaPrincipal(USER, name))


def is_password(expected: str | None, password: str) -> bool:
    """Compare in a time that depends neither on the expected password nor on whether there is one:
    hashes have the same length."""
    hashes = [
        sha256(text.encode("utf-8", "surrogatepass")).digest()
        for text in (expected or "", password)
    ]
    return compare_digest(*hashes) and expected is not None


def make(context: MechanismContext) -> Mechanism:
    """The users are the options `user_NAME="password"` of the login module."""
    users = {
        key.removeprefix(USER_PREFIX): password
        for key, password in context.login_module.options.items()
        if key.startswith(USER_PREFIX)
    }
    return partial(PlainSaslServer, users)
