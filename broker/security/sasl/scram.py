"""SCRAM-SHA-256 and SCRAM-SHA-512 without channel binding (RFC 5802, RFC 7677), the server's side.

The extension `tokenauth=true` of a client's first message makes its name the id of a delegation
token (KIP-48), which no library reads.
Differs from Kafka: an unknown user fails at the last message, as a wrong password does, not at the
first one; and the header and the nonce that the last message repeats must be those of the exchange,
the whole nonce, not its end.  librdkafka before 2.6.1 puts its own part of the nonce before the
whole once more, which is taken.
Source: Kafka's ScramSaslServer, ScramMessages.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from functools import partial
from hmac import compare_digest
from typing import Final, NamedTuple

from odradek.broker.security.kafka_principal import USER, KafkaPrincipal
from odradek.broker.security.sasl.mechanisms import MechanismContext
from odradek.broker.security.sasl.sasl_server import (
    Authenticated,
    Challenge,
    Mechanism,
    SaslAuthenticationError,
    SaslError,
)
from odradek.runtime.scram_credential import ITERATIONS_MIN, ScramCredential, hash_of, hmac_of, xor

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))",
    re.DOTALL,
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<header>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})",
    re.DOTALL,
)


class _First(NamedTuple):
    """What the last message is checked against."""

    header: bytes
    bare: str
    nonces: tuple[str, str]
    """The nonce, and as librdkafka before 2.6.1 repeats it."""
    message: str
    """What the server has sent."""
    credential: ScramCredential
    principal: KafkaPrincipal
    expires_ms: int | None
    is_real: bool
    """Whether there is such a user."""


class ScramSaslServer:
    """One exchange of two messages."""

    def __init__(self, context: MechanismContext, pretended_key: bytes) -> None:
        """pretended_key  makes the salts of users that do not exist, which do not change"""
        self._context = context
        self._mechanism = context.mechanism
        self._pretended_key = pretended_key
        self._first: _First | None = None

    def evaluate(self, response: bytes, now_ms: int) -> Challenge | Authenticated:
        try:
            text = response.decode("ascii")
        except UnicodeDecodeError:
            raise SaslError("a message contains other characters than those of ASCII") from None
        if self._first is None:
            self._first = self._on_first(text, now_ms)
            return Challenge(self._first.message.encode())
        return self._on_final(text, self._first)

    def _on_first(self, text: str, now_ms: int) -> _First:
        matched = _CLIENT_FIRST.fullmatch(text)
        if matched is None:
            raise SaslError("the first message has another format")
        name = unescaped(matched["name"])
        extensions = dict(item.partition("=")[::2] for item in matched["extensions"].split(","))
        credential: ScramCredential | None = None
        expires_ms: int | None = None
        is_token = extensions.get("tokenauth", "").lower() == "true"
        principal = KafkaPrincipal(USER, name, token_authenticated=is_token)
        if is_token:
            token = self._context.credentials.of_token(self._mechanism, name, now_ms)
            if token is not None:
                credential, expires_ms = token.credential, token.expires_ms
                principal = principal._replace(name=token.owner)
        else:
            credential = self._context.credentials.of_user(self._mechanism, name)
        authorization_id = matched["authzid"]
        if authorization_id is not None and unescaped(authorization_id) != name:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        is_real = credential is not None
        if credential is None:
            credential = self._pretended(name)
        elif credential.iterations < ITERATIONS_MIN:
            raise SaslError(f"the credential has fewer iterations than {ITERATIONS_MIN}")
        nonce = matched["nonce"] + self._context.new_nonce()
        nonces = nonce, matched["nonce"] + nonce
        salt = b64encode(credential.salt).decode()
        message = f"r={nonce},s={salt},i={credential.iterations}"
        header = matched["header"].encode()
        return _First(
            header, matched["bare"], nonces, message, credential, principal, expires_ms, is_real
        )

    def _pretended(self, name: str) -> ScramCredential:
        salt = hmac_of(self._mechanism, self._pretended_key, name.encode())
        return ScramCredential(salt[:26], salt, salt, ITERATIONS_MIN)

    def _on_final(self, text: str, first: _First) -> Authenticated:
        matched = _CLIENT_FINAL.fullmatch(text)
        if matched is None:
            raise SaslError("the last message has another format")
        # The whole nonce, not its end (CVE-2024-56128).
        if not any(compare_digest(matched["nonce"], nonce) for nonce in first.nonces):
            raise SaslError("the last message has another nonce")
        header, proof = _decoded(matched["header"]), _decoded(matched["proof"])
        if header != first.header:
            raise SaslError("the last message has another header than the first one")
        mechanism, credential = self._mechanism, first.credential
        exchange = f"{first.bare},{first.message},{matched['bare']}".encode()
        client_signature = hmac_of(mechanism, credential.stored_key, exchange)
        if len(proof) != len(client_signature):
            raise SaslError("the proof has another length")
        stored_key = hash_of(mechanism, xor(client_signature, proof))
        if not (compare_digest(stored_key, credential.stored_key) and first.is_real):
            raise SaslError("there is no such user or it has another password")
        signature = b64encode(hmac_of(mechanism, credential.server_key, exchange))
        return Authenticated(first.principal, b"v=" + signature, first.expires_ms)


def unescaped(name: str) -> str:
    """A name in which a comma is `=2C` and an equals sign `=3D`."""
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise SaslError("a message contains wrong Base64") from None


def make(context: MechanismContext) -> Mechanism:
    """The users are those with a credential for the mechanism; the login module names none."""
    return partial(ScramSaslServer, context, context.new_nonce().encode())
