"""What is stored of a password for SCRAM, and its keys (RFC 5802).

Source: Kafka's ScramCredential, ScramCredentialUtils, ScramFormatter, ScramMechanism.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function of each mechanism."""
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
_STORED: Final = re.compile(
    r"salt=([A-Za-z0-9+/=]+),stored_key=([A-Za-z0-9+/=]+),server_key=([A-Za-z0-9+/=]+),"
    r"iterations=([0-9]{1,9})"
)


class ScramCredential(NamedTuple):
    """The salted and hashed password of a user for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    @property
    def text(self) -> str:
        """What `/config/users` contains."""
        salt, stored_key, server_key = (b64encode(part).decode() for part in self[:3])
        return (
            f"salt={salt},stored_key={stored_key},server_key={server_key},"
            f"iterations={self.iterations}"
        )


def parse_credential(text: str) -> ScramCredential:
    """Read a stored credential; its fields may be in any order.

    raises  ValueError, which does not name the text
    """
    fields = dict(item.partition("=")[::2] for item in text.split(","))
    ordered = ",".join(
        f"{key}={fields.get(key, '')}" for key in ("salt", "stored_key", "server_key", "iterations")
    )
    matched = _STORED.fullmatch(ordered) if len(fields) == 4 else None
    if matched is None:
        raise ValueError("it is not a SCRAM credential")
    salt, stored_key, server_key = (b64decode(part, validate=True) for part in matched.groups()[:3])
    return ScramCredential(salt, stored_key, server_key, int(matched[4]))


def hmac_of(mechanism: str, key: bytes, data: bytes) -> bytes:
    """The HMAC with the mechanism's hash function."""
    return hmac.digest(key, data, HASHES[mechanism])


def hash_of(mechanism: str, data: bytes) -> bytes:
    """The hash of the mechanism."""
    return hashlib.new(HASHES[mechanism], data).digest()


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of a password.

    cost  2 ms for 4096 iterations, 10 ms for 16384: in a thread when the loop waits
    """
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    client_key = hmac_of(mechanism, salted, b"Client Key")
    return ScramCredential(
        salt, hash_of(mechanism, client_key), hmac_of(mechanism, salted, b"Server Key"), iterations
    )


def xor(first: bytes, second: bytes) -> bytes:
    """Byte by byte; both have the same length."""
    number = int.from_bytes(first, "big") ^ int.from_bytes(second, "big")
    return number.to_bytes(len(first), "big")
