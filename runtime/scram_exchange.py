"""One exchange of SCRAM-SHA-256 or SCRAM-SHA-512, the client's side (RFC 5802, RFC 7677).

Names and passwords are the UTF-8 of their characters, as in Kafka and librdkafka: without SASLprep
(RFC 4013), by which `scramp` logs in with another password than the one that Kafka has stored.
Source: Kafka's ScramSaslClient, ScramFormatter, ScramMessages.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hmac import compare_digest
from typing import Final, NamedTuple

from odradek.runtime.scram_credential import ITERATIONS_MIN, hash_of, hmac_of, xor

ITERATIONS_MAX: Final = 1_000_000
"""What a broker may ask for, half a second of a thread."""
_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})"
    r"(?:,.*)?",
    re.DOTALL,
)


class ScramError(ValueError):
    """The broker does not prove that it knows the password; the text contains no secret."""


class ScramChallenge(NamedTuple):
    """How the broker has the password salted."""

    salt: bytes
    iterations: int


class ScramExchange:
    """Two messages of the client, and the two responses of a broker."""

    def __init__(self, mechanism: str, username: str, nonce: str, extensions: str = "") -> None:
        """extensions  of the first message, each after a comma; `,tokenauth=true` (KIP-48)"""
        self._mechanism = mechanism
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}{extensions}"
        self._nonce = nonce
        self._server_first = self._server_nonce = ""
        self._server_final = b""

    @property
    def client_first(self) -> bytes:
        """The first message."""
        return f"n,,{self._bare}".encode()

    def on_server_first(self, response: bytes) -> ScramChallenge:
        """raises  ScramError"""
        self._server_first = response.decode("ascii", "replace")
        matched = _SERVER_FIRST.fullmatch(self._server_first)
        if matched is None:
            raise ScramError("the first message of the broker has another format")
        self._server_nonce = matched["nonce"]
        if not self._server_nonce.startswith(self._nonce) or self._server_nonce == self._nonce:
            raise ScramError("the broker has changed the nonce, or added nothing to it")
        iterations = int(matched["iterations"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramError(f"the broker asks for {iterations} iterations")
        try:
            return ScramChallenge(b64decode(matched["salt"], validate=True), iterations)
        except Base64Error:
            raise ScramError("a message of the broker contains wrong Base64") from None

    def client_final(self, salted: bytes) -> bytes:
        """The last message; `salted` is the password, as the challenge has it salted."""
        mechanism, bare = self._mechanism, f"c=biws,r={self._server_nonce}"
        exchange = f"{self._bare},{self._server_first},{bare}".encode()
        client_key = hmac_of(mechanism, salted, b"Client Key")
        signature = hmac_of(mechanism, hash_of(mechanism, client_key), exchange)
        server_key = hmac_of(mechanism, salted, b"Server Key")
        self._server_final = b"v=" + b64encode(hmac_of(mechanism, server_key, exchange))
        return f"{bare},p={b64encode(xor(client_key, signature)).decode()}".encode()

    def on_server_final(self, response: bytes) -> None:
        """raises  ScramError for a broker that does not know the password"""
        if not compare_digest(response.partition(b",")[0], self._server_final):
            raise ScramError("the broker does not know the password")
