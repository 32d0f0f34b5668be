"""Key and trust stores of a client: PEM in files and inline (KIP-651), PKCS#12.

Source: Kafka 3.9's DefaultSslEngineFactory.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.bounded_files import read_file, system_error_text
from odradek.tools.security.errors import SecurityError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

FILE_BYTES_MAX: Final = 16 << 20
TYPES: Final = ("PEM", "PKCS12", "JKS")
DEFAULT_TYPE: Final = "JKS"
"""Kafka's default.  Java reads a PKCS#12 file by that type, too, and so do we."""
JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"


class ClientIdentity:
    """A private key with its certificate and those of its issuers, as PEM."""

    def __init__(self, key: str, chain: str) -> None:
        self.key = key
        """PKCS#8, not encrypted."""
        self.chain = chain

    def load_into(self, context: ssl.SSLContext) -> None:
        """raises  SecurityError when key and certificate do not fit"""
        # OpenSSL reads a file; this one exists in memory alone.
        descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, (self.key + self.chain).encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        except ssl.SSLError as error:
            raise SecurityError("the key store's key and certificate do not fit") from error
        finally:
            os.close(descriptor)


def identity(configs: Mapping[str, str]) -> ClientIdentity | None:
    """The key store, or None when the client has none.

    raises  SecurityError
    """
    key_password = _password(configs, "ssl.key.password")
    key, chain = configs.get("ssl.keystore.key"), configs.get("ssl.keystore.certificate.chain")
    if key or chain:
        if not key or not chain:
            raise SecurityError("ssl.keystore.key and ssl.keystore.certificate.chain go together")
        return _pem_identity("ssl.keystore.key", key.encode(), chain, key_password)
    name = "ssl.keystore.location"
    path = configs.get(name, "").strip()
    if not path:
        return None
    data = _contents(name, path)
    if _type(configs, "ssl.keystore.type", data) == "PEM":
        return _pem_identity(name, data, data.decode("utf-8", "replace"), key_password)
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    store = _pkcs12(name, path, data, _password(configs, "ssl.keystore.password"))
    if store.key is None or store.cert is None:
        raise SecurityError(f"{name}: {path} has no key with a certificate")
    chain = "".join(_pem(entry.certificate) for entry in (store.cert, *store.additional_certs))
    text = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return ClientIdentity(text.decode(), chain)


def trusted_certificates(configs: Mapping[str, str]) -> str | None:
    """The trust store as PEM, or None when the client has none.

    raises  SecurityError
    """
    text = configs.get("ssl.truststore.certificates")
    if text:
        return _certificates("ssl.truststore.certificates", text)
    name = "ssl.truststore.location"
    path = configs.get(name, "").strip()
    if not path:
        return None
    data = _contents(name, path)
    if _type(configs, "ssl.truststore.type", data) == "PEM":
        return _certificates(f"{name}: {path}", data.decode("utf-8", "replace"))
    store = _pkcs12(name, path, data, _password(configs, "ssl.truststore.password"))
    chain = [entry.certificate for entry in store.additional_certs]
    if not chain:
        raise SecurityError(f"{name}: {path} has no trusted certificate")
    return "".join(map(_pem, chain))


def _password(configs: Mapping[str, str], name: str) -> bytes | None:
    text = configs.get(name)
    return text.encode() if text else None


def _contents(name: str, path: str) -> bytes:
    try:
        return read_file(path, FILE_BYTES_MAX)
    except OSError as error:
        raise SecurityError(f"{name}: {path}: {system_error_text(error)}") from error


def _type(configs: Mapping[str, str], name: str, data: bytes) -> str:
    kind = configs.get(name, DEFAULT_TYPE).strip().upper()
    if kind not in TYPES:
        raise SecurityError(f"{name}={kind}: expected one of {', '.join(TYPES)}")
    if kind != "PEM" and data.startswith(JKS_MAGIC):
        raise SecurityError(
            f"{name}: the store is in Java's own format; convert it with keytool "
            "-importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
        )
    return kind


def _certificates(what: str, text: str) -> str:
    from cryptography import x509

    try:
        return "".join(map(_pem, x509.load_pem_x509_certificates(text.encode())))
    except ValueError as error:
        raise SecurityError(f"{what}: not a certificate in PEM") from error


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _pem_identity(what: str, key: bytes, chain: str, password: bytes | None) -> ClientIdentity:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    begin = key.find(b"-----BEGIN ENCRYPTED PRIVATE KEY")
    try:
        loaded = load_pem_private_key(key, password if begin >= 0 else None)
    except (ValueError, TypeError) as error:
        raise SecurityError(
            f"{what}: no private key in PEM, or another ssl.key.password"
        ) from error
    text = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return ClientIdentity(text.decode(), _certificates(what, chain))


def _pkcs12(name: str, path: str, data: bytes, password: bytes | None) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        return load_pkcs12(data, password)
    except ValueError as error:
        raise SecurityError(f"{name}: {path}: not PKCS#12, or another password") from error
