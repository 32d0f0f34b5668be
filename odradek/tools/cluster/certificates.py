"""A certificate authority, and certificates of servers on this machine.

Texts and files are PEM.  Files with a private key are for their owner to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from odradek.tools.private_files import write_private

VALID: Final = timedelta(days=365)
CLOCK_DIFFERENCE: Final = timedelta(hours=1)
HOSTS: Final = (
    x509.DNSName("localhost"),
    x509.IPAddress(ip_address("127.0.0.1")),
    x509.IPAddress(ip_address("::1")),
)


class CertificateAuthority:
    """Signs certificates of servers."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        """The arguments belong together."""
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls) -> CertificateAuthority:
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Odradek's authority for this machine")
        certificate = (
            _unsigned(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNING, critical=True)
            .sign(key, SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def read(cls, certificate_file: Path) -> CertificateAuthority:
        """The one that `write` has written.

        raises  OSError, ValueError for a file of another kind
        """
        key_file = certificate_file.with_suffix(".key")
        key = load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key_file} has a key of another kind")
        return cls(key, x509.load_pem_x509_certificate(certificate_file.read_bytes()))

    def write(self, certificate_file: Path) -> None:
        """Write what clients trust, and beside it the key, with `.key` at the end.

        raises  OSError
        """
        write_private(certificate_file.with_suffix(".key"), _key_text(self._key))
        write_private(certificate_file, self.text)

    @property
    def text(self) -> str:
        """What clients trust, as PEM."""
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, name: str, hosts: Sequence[str] = ()) -> tuple[str, str]:
        """(a key, its certificate and that of the authority) for `HOSTS`, as PEM.

        hosts  further names in DNS of the server
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        names = [*HOSTS, *map(x509.DNSName, hosts)]
        certificate = (
            _unsigned(_name(name), self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, SHA256())
        )
        return _key_text(key), certificate.public_bytes(Encoding.PEM).decode() + self.text


_SIGNING: Final = x509.KeyUsage(
    digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
    key_encipherment=False, data_encipherment=False, key_agreement=False,
    encipher_only=False, decipher_only=False,
)  # fmt: skip


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_DIFFERENCE)
        .not_valid_after(now + VALID)
    )


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
