"""Reads key stores and trust stores: PEM (KIP-651), PKCS#12, and JKS.

A store of type JKS or PKCS12 may have either of the two formats, as in Java: keytool writes PKCS#12
since Java 9.  Java's older format, JKS, needs the extra `jks`.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from odradek.bounded_files import read_file, system_error_text
from odradek.extras import INSTALL

if TYPE_CHECKING:
    from odradek.runtime.java_key_stores import JavaKeyStore

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"
STORE_TYPES: Final = (PEM, PKCS12, JKS)
STORE_BYTES_MAX: Final = 16 << 20
JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
DAMAGED: Final = (ValueError, x509.InvalidVersion)
"""What the library raises for a certificate that it cannot parse."""
NO_KEY: Final = "it contains no key with a certificate"
KEY_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]*PRIVATE KEY)-----(?P<body>.*?)-----END (?P=kind)-----", re.S
)
CERTIFICATE_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<kind>CERTIFICATE)-----(?P<body>.*?)-----END CERTIFICATE-----", re.S
)


class StoreError(ValueError):
    """A store that cannot be used; the text is one line without secrets."""


@dataclass(frozen=True)
class StoreConfig:
    """A key store or a trust store: a file, or PEM in the settings themselves."""

    type: str
    """One of `STORE_TYPES`."""
    setting: str
    """The setting that names it, for errors."""
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    """The password of a key; None: `password`."""
    key: str | None = field(default=None, repr=False)
    """PEM, for a key store without a file."""
    certificates: str | None = None
    """PEM, for a store without a file."""

    @property
    def shown(self) -> str:
        """The file, or the setting that contains it."""
        return self.location or self.setting


@dataclass(frozen=True)
class KeyMaterial:
    """A key and its certificates, that of the key first."""

    key_pem: bytes = field(repr=False)
    certificates: tuple[x509.Certificate, ...]

    @property
    def chain_pem(self) -> bytes:
        """The certificates in PEM."""
        return pem_of(self.certificates)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Through a file in memory only: OpenSSL takes nothing else.

        raises  StoreError for a key that is not that of its certificate
        """
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, self.key_pem + self.chain_pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        except ssl.SSLError as error:
            subject = self.certificates[0].subject.rfc4514_string()
            raise StoreError(f"the key of {subject} cannot be used: {error.reason}") from None
        finally:
            os.close(descriptor)


def pem_of(certificates: Sequence[x509.Certificate]) -> bytes:
    """Certificates in PEM."""
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def read_key_store(store: StoreConfig) -> KeyMaterial:
    """raises  StoreError"""
    password = store.password if store.key_password is None else store.key_password
    if store.type == PEM:
        key, certificates = _pem_key(store, password)
    elif (content := bytes_of_file(store)).startswith(JKS_MAGIC):
        key, certificates = _java_key(store, content, password)
    else:
        key, certificates = _pkcs12_key(store, content)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        return KeyMaterial(pem, chain_of(certificates))
    except ValueError as error:
        # The names in a certificate are read here, not when it is loaded.
        raise StoreError(f"{store.shown}: a certificate is damaged: {error}") from None


def _pem_key(
    store: StoreConfig, password: str | None
) -> tuple[PrivateKeyTypes, tuple[x509.Certificate, ...]]:
    keys = store.key if store.key is not None else text_of_file(store)
    chain = store.certificates if store.certificates is not None else keys
    blocks = pem_blocks(KEY_BLOCK, keys)
    if len(blocks) != 1:
        raise StoreError(f"{store.shown}: expected one private key in PEM, not {len(blocks)}")
    certificates = pem_certificates(store, chain)
    try:
        return load_pem_private_key(blocks[0], encoded(password)), certificates
    except (ValueError, TypeError) as error:
        raise StoreError(f"{store.shown}: {key_problem(password, error)}") from None


def _pkcs12_key(
    store: StoreConfig, content: bytes
) -> tuple[PrivateKeyTypes, tuple[x509.Certificate, ...]]:
    # Differs from Kafka: a key has the password of its store, as keytool makes it.
    if store.key_password not in (None, store.password):
        raise StoreError(f"{store.shown}: ssl.key.password is not the password of the store")
    contents = pkcs12_contents(store, content)
    if contents.key is None or contents.cert is None:
        raise StoreError(f"{store.shown}: {NO_KEY}")
    entries = (contents.cert, *contents.additional_certs)
    return contents.key, tuple(entry.certificate for entry in entries)


def _java_key(
    store: StoreConfig, content: bytes, password: str | None
) -> tuple[PrivateKeyTypes, tuple[x509.Certificate, ...]]:
    entries = java_key_store(store, content)
    try:
        pair = entries.key(password or "")
    except ValueError as error:
        raise StoreError(f"{store.shown}: {error}") from None
    if pair is None or not pair[1]:
        raise StoreError(f"{store.shown}: {NO_KEY}")
    certificates = _java_certificates(store, pair[1])
    try:
        return load_der_private_key(pair[0], None), certificates
    except ValueError as error:
        raise StoreError(f"{store.shown}: its key cannot be used: {error}") from None


def _java_certificates(
    store: StoreConfig, encodings: Sequence[bytes]
) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_der_x509_certificate(der) for der in encodings)
    except DAMAGED as error:
        raise StoreError(f"{store.shown}: it is damaged: {error}") from None


def read_trust_store(store: StoreConfig) -> tuple[x509.Certificate, ...]:
    """The certificates that are trusted; at least one.

    raises  StoreError
    """
    if store.type == PEM:
        return pem_certificates(store, store.certificates or text_of_file(store))
    content = bytes_of_file(store)
    if content.startswith(JKS_MAGIC):
        entries = [*_java_certificates(store, java_key_store(store, content).trusted())]
    else:
        contents = pkcs12_contents(store, content)
        entries = [entry.certificate for entry in contents.additional_certs]
        if contents.cert is not None:
            entries.append(contents.cert.certificate)
    if not entries:
        raise StoreError(f"{store.shown}: it contains no certificate")
    return tuple(entries)


def pkcs12_contents(store: StoreConfig, content: bytes) -> pkcs12.PKCS12KeyAndCertificates:
    """The entries of a store in PKCS#12.

    raises  StoreError for JCEKS, too
    """
    if content.startswith(JCEKS_MAGIC):
        raise StoreError(f"{store.shown}: Java's format JCEKS is not read; {_conversion(store)}")
    try:
        return pkcs12.load_pkcs12(content, encoded(store.password))
    except ValueError:
        # The library does not tell the reasons apart.
        reason = "it needs a password" if store.password is None else "the password is wrong"
        raise StoreError(f"{store.shown}: {reason}, or it is not a store of PKCS#12") from None


def java_key_store(store: StoreConfig, content: bytes) -> JavaKeyStore:
    """The entries of a store in Java's own format.

    raises  StoreError, also where the library is not installed
    cost    the first one loads the library, 0.2 s
    """
    try:
        from odradek.runtime.java_key_stores import JavaKeyStore, JavaStoreError
    except ImportError:
        raise StoreError(
            f"{store.shown}: Java's own store format (JKS) needs the library purejks "
            f"({INSTALL.format('jks')}), or {_conversion(store)}"
        ) from None
    try:
        return JavaKeyStore(content, store.password)
    except JavaStoreError as error:
        raise StoreError(f"{store.shown}: {error}") from None


def _conversion(store: StoreConfig) -> str:
    return (
        f"convert it: keytool -importkeystore -srckeystore {store.location} -destkeystore "
        f"{store.location}.p12 -deststoretype PKCS12"
    )


def pem_certificates(store: StoreConfig, text: str) -> tuple[x509.Certificate, ...]:
    """raises  StoreError"""
    blocks = pem_blocks(CERTIFICATE_BLOCK, text)
    if not blocks:
        raise StoreError(f"{store.shown}: it contains no certificate in PEM")
    try:
        return tuple(x509.load_pem_x509_certificate(block) for block in blocks)
    except DAMAGED as error:
        raise StoreError(f"{store.shown}: {error}") from None


def pem_blocks(pattern: re.Pattern[str], text: str) -> list[bytes]:
    """Each block with line breaks where PEM has them: a setting may have spaces in their place."""
    blocks = []
    for matched in pattern.finditer(text):
        kind, body = matched["kind"], matched["body"]
        if ":" not in body:
            digits = "".join(body.split())
            lines = [digits[at : at + 64] for at in range(0, len(digits), 64)]
            body = "\n" + "\n".join(lines) + "\n"
        blocks.append(f"-----BEGIN {kind}-----{body}-----END {kind}-----\n".encode())
    return blocks


def chain_of(certificates: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """The first certificate and its issuers, in their order: a store may have them in another."""
    chain = [certificates[0]]
    left = list(certificates[1:])
    while left and chain[-1].issuer != chain[-1].subject:
        issuer = next(
            (certificate for certificate in left if certificate.subject == chain[-1].issuer), None
        )
        if issuer is None:
            break
        left.remove(issuer)
        chain.append(issuer)
    return tuple(chain)


def text_of_file(store: StoreConfig) -> str:
    """raises  StoreError"""
    return bytes_of_file(store).decode("utf-8", "replace")


def bytes_of_file(store: StoreConfig) -> bytes:
    """raises  StoreError"""
    assert store.location is not None, "a store without a file has its content in the settings"
    try:
        content = read_file(store.location, STORE_BYTES_MAX)
    except OSError as error:
        raise StoreError(f"{store.setting}: {system_error_text(error)}") from None
    if not content:
        raise StoreError(f"{store.shown}: the file is empty")
    return content


def key_problem(password: str | None, error: Exception) -> str:
    """Why a private key in PEM cannot be read."""
    if isinstance(error, TypeError):
        return (
            "its key is encrypted, and ssl.key.password is not set"
            if password is None
            else "ssl.key.password is set, but its key is not encrypted"
        )
    return "its key cannot be read" + ("" if password is None else ", or the password is wrong")


def encoded(password: str | None) -> bytes | None:
    """A password for the library."""
    return None if password is None else password.encode()
