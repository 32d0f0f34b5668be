"""Encrypts the passwords among dynamic settings, which are stored in the coordination service.

The format and the algorithms are Kafka's: a broker of either kind reads what the other has written.
Source: KIP-226; Kafka's EncryptingPasswordEncoder, DynamicBrokerConfig.maybeReEncodePasswords.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from odradek.broker.settings.definitions import broker_definition
from odradek.broker.settings.rules import Value
from odradek.broker.settings.types import InvalidValueError

SECRET: Final = "password.encoder.secret"
OLD_SECRET: Final = "password.encoder.old.secret"
KEY_FACTORIES: Final = {
    f"PBKDF2WithHmacSHA{bits}": f"sha{bits}" for bits in (1, 224, 256, 384, 512)
}
"""The algorithms that derive a key, and their hash functions."""
DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
CBC: Final = "AES/CBC/PKCS5Padding"
GCM: Final = "AES/GCM/NoPadding"
CIPHERS: Final = (CBC, GCM)
KEY_LENGTHS: Final = (128, 192, 256)
SALT_BYTES: Final = 256
VECTOR_BYTES: Final = {CBC: 16, GCM: 12}
TAG_BITS: Final = 128
BLOCK_BITS: Final = 128
ITERATIONS_MAX: Final = 1_000_000
"""Deriving a key takes 0.3 s then."""
DECODED_MAX: Final = 1_000
"""Passwords that are kept: deriving a key takes 2 ms, and every change of settings reads all."""

RandomBytes = Callable[[int], bytes]


class UndecodableError(ValueError):
    """A stored password cannot be decoded; the text has no part of it."""


class Encoding(NamedTuple):
    """The settings by which passwords are encoded."""

    secret: str
    key_factory: str
    cipher: str
    key_length_bits: int
    iterations: int

    def __repr__(self) -> str:
        return "Encoding()"

    def encode(self, password: str, random_bytes: RandomBytes) -> str:
        """cost  2 ms for 4096 iterations"""
        salt, vector = random_bytes(SALT_BYTES), random_bytes(VECTOR_BYTES[self.cipher])
        key = _key(self.secret, self.key_factory, self.key_length_bits, salt, self.iterations)
        encrypted = _encrypted(self.cipher, key, vector, password.encode())
        fields = {
            "keyFactoryAlgorithm": self.key_factory,
            "cipherAlgorithm": self.cipher,
            "keyLength": str(self.key_length_bits),
            "salt": b64encode(salt).decode(),
            "iterations": str(self.iterations),
            "encryptedPassword": b64encode(encrypted).decode(),
            "passwordLength": str(java_length(password)),
            "initializationVector": b64encode(vector).decode(),
        }
        if self.cipher == GCM:
            fields["authenticationTagLength"] = str(TAG_BITS)
        return ",".join(f"{name}:{text}" for name, text in fields.items())


def java_length(text: str) -> int:
    """The length of a Java string: UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def encoding(raw: Mapping[str, Value]) -> Encoding | None:
    """The encoding that settings ask for; None without a secret.

    raises  InvalidValueError
    """
    if not raw[SECRET]:
        return None
    key_factory = raw["password.encoder.keyfactory.algorithm"] or DEFAULT_KEY_FACTORY
    cipher, bits = raw["password.encoder.cipher.algorithm"], raw["password.encoder.key.length"]
    iterations = raw["password.encoder.iterations"]
    for name, value, allowed in (
        ("keyfactory.algorithm", key_factory, tuple(KEY_FACTORIES)),
        ("cipher.algorithm", cipher, CIPHERS),
        ("key.length", bits, KEY_LENGTHS),
    ):
        if value not in allowed:
            text = f"Expected one of {', '.join(map(str, allowed))}"
            raise InvalidValueError(f"password.encoder.{name}", value, text)
    if not isinstance(iterations, int) or iterations > ITERATIONS_MAX:
        allowed_text = f"Value must be no more than {ITERATIONS_MAX}"
        raise InvalidValueError("password.encoder.iterations", iterations, allowed_text)
    assert isinstance(bits, int), "it is one of those above"
    return Encoding(str(raw[SECRET]), str(key_factory), str(cipher), bits, iterations)


@lru_cache(maxsize=DECODED_MAX)
def decode(secret: str, encoded: str) -> str:
    """The password; by the algorithms that its text names.

    raises  UndecodableError
    cost    2 ms for 4096 iterations; next to nothing for the same again
    """
    try:
        pairs = (item.rpartition(":") for item in encoded.split(","))
        fields = {key.strip(): text.strip() for key, _, text in pairs}
        cipher, bits = fields["cipherAlgorithm"], int(fields["keyLength"])
        iterations = int(fields["iterations"])
        if cipher not in CIPHERS or bits not in KEY_LENGTHS or iterations > ITERATIONS_MAX:
            raise UndecodableError("it is encoded with an algorithm that is not served")
        salt, vector, encrypted = (
            b64decode(fields[name], validate=True)
            for name in ("salt", "initializationVector", "encryptedPassword")
        )
        key = _key(secret, fields["keyFactoryAlgorithm"], bits, salt, iterations)
        password = _decrypted(cipher, key, vector, encrypted).decode()
        if java_length(password) != int(fields["passwordLength"]):
            raise UndecodableError("it was encoded with another secret")
    except (KeyError, ValueError) as error:
        if isinstance(error, UndecodableError):
            raise
        reason = "it was encoded with another secret, or is not an encoded password"
        raise UndecodableError(reason) from None
    return password


def is_password(name: str) -> bool:
    """Whether a dynamic setting is stored encoded."""
    definition = broker_definition(name)
    return definition is not None and definition.is_sensitive


def decoded(
    raw: Mapping[str, Value], stored: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Stored settings with their passwords in the clear, and a warning for each that cannot be.

    raw  the settings, with the secret, and the former one while it is replaced
    """
    texts: dict[str, str] = {}
    warnings: list[str] = []
    for name, text in stored.items():
        if not is_password(name):
            texts[name] = text
            continue
        reason = f"{SECRET} is not set"
        for secret in (raw[SECRET], raw[OLD_SECRET]):
            if not secret:
                continue
            try:
                texts[name] = decode(str(secret), text)
                break
            except UndecodableError as error:
                reason = str(error)
        else:
            warnings.append(f"The dynamic password {name} is left out: {reason}")
    return texts, warnings


def encoded(
    by: Encoding, texts: Mapping[str, str], stored: Mapping[str, str], random_bytes: RandomBytes
) -> dict[str, str]:
    """Settings as they are stored: passwords that have not changed keep their text.

    stored  what is stored now
    """
    result: dict[str, str] = {}
    for name, text in texts.items():
        result[name] = text
        if is_password(name):
            former = stored.get(name, "")
            result[name] = former if _is_of(by, former, text) else by.encode(text, random_bytes)
    return result


def _is_of(by: Encoding, text: str, password: str) -> bool:
    try:
        return bool(text) and decode(by.secret, text) == password
    except UndecodableError:
        return False


def _key(secret: str, key_factory: str, bits: int, salt: bytes, iterations: int) -> bytes:
    hash_name = KEY_FACTORIES[key_factory]
    return hashlib.pbkdf2_hmac(hash_name, secret.encode(), salt, iterations, bits // 8)


def _encrypted(cipher: str, key: bytes, vector: bytes, content: bytes) -> bytes:
    # Imported where a password is stored: most brokers have none.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.padding import PKCS7

    if cipher == GCM:
        return AESGCM(key).encrypt(vector, content, None)
    padder = PKCS7(BLOCK_BITS).padder()
    encryptor = _cbc(key, vector).encryptor()
    encrypted: bytes = encryptor.update(padder.update(content) + padder.finalize())
    encrypted += encryptor.finalize()
    return encrypted


def _decrypted(cipher: str, key: bytes, vector: bytes, content: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.padding import PKCS7

    if cipher == GCM:
        try:
            return AESGCM(key).decrypt(vector, content, None)
        except InvalidTag:
            raise UndecodableError("it was encoded with another secret") from None
    decryptor = _cbc(key, vector).decryptor()
    unpadder = PKCS7(BLOCK_BITS).unpadder()
    padded = decryptor.update(content) + decryptor.finalize()
    decrypted: bytes = unpadder.update(padded)
    return decrypted + unpadder.finalize()


def _cbc(key: bytes, vector: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC as CBCMode

    return Cipher(AES(key), CBCMode(vector))
