"""Reads key stores and trust stores: PEM (KIP-651) and PKCS#12.

A store of type JKS is read when it has the format of PKCS#12, as those that keytool writes since
Java 9.  Java's older format has no well-kept reader in Python: the error says how to convert it.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from odradek.bounded_files import read_file, system_error_text

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"
STORE_TYPES: Final = (PEM, PKCS12, JKS)
STORE_BYTES_MAX: Final = 16 << 20
JAVA_FORMATS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS."""
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
        keys = store.key if store.key is not None else text_of_file(store)
        chain = store.certificates if store.certificates is not None else keys
        blocks = pem_blocks(KEY_BLOCK, keys)
        if len(blocks) != 1:
            raise StoreError(f"{store.shown}: expected one private key in PEM, not {len(blocks)}")
        certificates = pem_certificates(store, chain)
        try:
            key = load_pem_private_key(blocks[0], encoded(password))
        except (ValueError, TypeError) as error:
            raise StoreError(f"{store.shown}: {key_problem(password, error)}") from None
    else:
        # Differs from Kafka: a key has the password of its store, as keytool makes it.
        if store.key_password not in (None, store.password):
            raise StoreError(f"{store.shown}: ssl.key.password is not the password of the store")
        contents = pkcs12_contents(store)
        if contents.key is None or contents.cert is None:
            raise StoreError(f"{store.shown}: it contains no key with a certificate")
        key = contents.key
        certificates = tuple(
            entry.certificate for entry in (contents.cert, *contents.additional_certs)
        )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyMaterial(pem, chain_of(certificates))


def read_trust_store(store: StoreConfig) -> tuple[x509.Certificate, ...]:
    """The certificates that are trusted; at least one.

    raises  StoreError
    """
    if store.type == PEM:
        return pem_certificates(store, store.certificates or text_of_file(store))
    contents = pkcs12_contents(store)
    entries = [entry.certificate for entry in contents.additional_certs]
    if contents.cert is not None:
        entries.append(contents.cert.certificate)
    if not entries:
        raise StoreError(f"{store.shown}: it contains no certificate")
    return tuple(entries)


def pkcs12_contents(store: StoreConfig) -> pkcs12.PKCS12KeyAndCertificates:
    """The entries of a store of type PKCS12 or JKS.

    raises  StoreError for Java's older formats, too
    """
    content = bytes_of_file(store)
    if content[:4] in JAVA_FORMATS:
        raise StoreError(
            f"{store.shown}: Java's own store format is not read; convert it: keytool "
            f"-importkeystore -srckeystore {store.location} -destkeystore {store.location}.p12 "
            "-deststoretype PKCS12"
        )
    try:
        return pkcs12.load_pkcs12(content, encoded(store.password))
    except ValueError:
        # The library does not tell the reasons apart.
        reason = "the password is wrong, or it is not a store of PKCS#12"
        raise StoreError(f"{store.shown}: {reason}") from None


def pem_certificates(store: StoreConfig, text: str) -> tuple[x509.Certificate, ...]:
    """raises  StoreError"""
    blocks = pem_blocks(CERTIFICATE_BLOCK, text)
    if not blocks:
        raise StoreError(f"{store.shown}: it contains no certificate in PEM")
    try:
        return tuple(x509.load_pem_x509_certificate(block) for block in blocks)
    except ValueError as error:
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
        return read_file(store.location, STORE_BYTES_MAX)
    except OSError as error:
        raise StoreError(f"{store.setting}: {system_error_text(error)}") from None


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
