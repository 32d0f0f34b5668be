"""Contexts of OpenSSL, and what certificates say about themselves."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from odradek.broker.security.tls.distinguished_name import distinguished_name
from odradek.broker.security.tls.tls_config import TlsConfig
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime.certificate_stores import KeyMaterial, read_key_store, read_trust_store

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_CERTIFICATES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True)
class Stores:
    """What was read of the stores of a configuration."""

    key: KeyMaterial | None = field(repr=False)
    trusted: tuple[x509.Certificate, ...] | None
    """None: the authorities of the system."""

    @property
    def subject(self) -> Subject | None:
        """Whom the key is for."""
        return None if self.key is None else subject_of(self.key.certificates[0])

    @property
    def first_expiry_ms(self) -> int:
        """When the first certificate of the key's chain expires, in milliseconds since 1970; 0
        where there is none."""
        certificates = () if self.key is None else self.key.certificates
        return min((expiry_ms(certificate) for certificate in certificates), default=0)


class Subject(NamedTuple):
    """Whom a certificate is for."""

    name: str
    """The distinguished name."""
    alternatives: tuple[str, ...]
    """Each alternative name as text."""


def subject_of(certificate: x509.Certificate) -> Subject:
    """The names in a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives: tuple[str, ...] = ()
    else:
        alternatives = tuple(f"{type(name).__name__}:{name.value}" for name in names)
    return Subject(distinguished_name(certificate.subject), alternatives)


def expiry_ms(certificate: x509.Certificate) -> int:
    """When a certificate expires, in milliseconds since 1970."""
    return int(certificate.not_valid_after_utc.timestamp() * 1000)


def read_stores(config: TlsConfig) -> Stores:
    """cost    some milliseconds
    raises  StoreError
    """
    return Stores(
        None if config.key_store is None else read_key_store(config.key_store),
        None if config.trust_store is None else read_trust_store(config.trust_store),
    )


def server_context(config: TlsConfig, stores: Stores) -> ssl.SSLContext:
    """For the clients of a listener.  Its sessions are resumed with tickets.

    raises  StoreError, InvalidValueError
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = CLIENT_CERTIFICATES[config.client_auth]
    return prepared(context, config, stores)


def client_context(config: TlsConfig, stores: Stores) -> ssl.SSLContext:
    """For connections to other brokers, and to ZooKeeper.

    raises  StoreError, InvalidValueError
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.checks_hostname
    return prepared(context, config, stores)


def prepared(context: ssl.SSLContext, config: TlsConfig, stores: Stores) -> ssl.SSLContext:
    """raises  StoreError, InvalidValueError"""
    # Neither a renegotiation (TLS 1.2) nor compression (CRIME) is ever wanted.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # Java trusts what the store contains, whether or not it has signed itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = [VERSIONS[version] for version in config.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if config.ciphers:
        try:
            context.set_ciphers(":".join(config.ciphers))
        except ssl.SSLError:
            allowed = "OpenSSL has none of them"
            value = ",".join(config.ciphers)
            raise InvalidValueError("ssl.cipher.suites", value, allowed) from None
    if stores.trusted is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH
            if context.protocol is ssl.PROTOCOL_TLS_SERVER
            else ssl.Purpose.SERVER_AUTH
        )
    else:
        context.load_verify_locations(cadata=der_of(stores.trusted))
    if stores.key is not None:
        stores.key.load_into(context)
    return context


def der_of(certificates: Iterable[x509.Certificate]) -> bytes:
    """Certificates one after another, each once: OpenSSL refuses what it has."""
    encodings = (certificate.public_bytes(Encoding.DER) for certificate in certificates)
    return b"".join(dict.fromkeys(encodings))
