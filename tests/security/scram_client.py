"""The client's side of SCRAM, for tests that send what no library sends."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable

from odradek.runtime.scram_credential import hash_of, hmac_of, salted_password, xor


class ScramClient:
    """A client that can send something else than it should."""

    def __init__(
        self, mechanism: str, password: str, *, name: str = "user", extensions: str = ""
    ) -> None:
        self.mechanism = mechanism
        self.password = password
        self.bare = f"n={name},r=client{extensions}"
        self.nonce = ""
        self.header = "n,,"

    def first(self) -> bytes:
        return f"{self.header}{self.bare}".encode()

    def final(self, challenge: bytes, change: Callable[[str], str] = lambda bare: bare) -> bytes:
        """change  of the message without its proof, which is made for the changed one"""
        fields = dict(item.partition("=")[::2] for item in challenge.decode().split(","))
        salted = salted_password(
            self.mechanism, self.password, b64decode(fields["s"]), int(fields["i"])
        )
        bare = change(f"c={b64encode(self.header.encode()).decode()},r={fields['r']}")
        client_key = hmac_of(self.mechanism, salted, b"Client Key")
        stored_key = hash_of(self.mechanism, client_key)
        exchange = f"{self.bare},{challenge.decode()},{bare}".encode()
        proof = xor(client_key, hmac_of(self.mechanism, stored_key, exchange))
        return f"{bare},p={b64encode(proof).decode()}".encode()
