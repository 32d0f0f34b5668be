"""A certificate authority of one folder, and certificates of servers on this machine.

Files are PEM.  Those with a private key are for their owner to read; what exists is kept.
"""

from __future__ import annotations

import os
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

VALID: Final = timedelta(days=365)
CLOCK_DIFFERENCE: Final = timedelta(hours=1)
HOSTS: Final = (
    x509.DNSName("localhost"),
    x509.IPAddress(ip_address("127.0.0.1")),
    x509.IPAddress(ip_address("::1")),
)


class CertificateAuthority:
    """Signs the certificates of a folder."""

    def __init__(self, certificate_file: Path) -> None:
        """Read the authority, or make one.

        certificate_file  what clients trust; the key is beside it, with `.key` at the end
        raises            OSError, ValueError for a file of another kind
        """
        key_file = certificate_file.with_suffix(".key")
        self.is_new = not (key_file.exists() and certificate_file.exists())
        if self.is_new:
            self._key = ec.generate_private_key(ec.SECP256R1())
            name = _name("Odradek's authority for this machine")
            self._certificate = (
                _unsigned(name, name, self._key)
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(_SIGNING, critical=True)
                .sign(self._key, SHA256())
            )
            write_private(key_file, _key_text(self._key))
            write_private(certificate_file, _certificate_text(self._certificate))
            return
        key = load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key_file} has a key of another kind")
        self._key = key
        self._certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())

    def issue(self, file: Path, name: str) -> None:
        """Write a key with its certificate for `HOSTS`, unless the file has one of this authority.

        raises  OSError
        """
        if file.exists() and not self.is_new:
            return
        key = ec.generate_private_key(ec.SECP256R1())
        usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        certificate = (
            _unsigned(_name(name), self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(HOSTS), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, SHA256())
        )
        chain = _certificate_text(certificate) + _certificate_text(self._certificate)
        write_private(file, _key_text(key) + chain)


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


def _certificate_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def write_private(file: Path, text: str) -> None:
    """Write a file that its owner alone reads, whole or not at all.

    raises  OSError
    """
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
    new.replace(file)
