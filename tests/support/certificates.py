"""An authority, and the certificates that it signs: valid ones and those that must be refused.

Every file is in a folder of the test.  Keys are made by `cryptography`; nothing here starts a
process but what runs `keytool`, which needs a Java runtime.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import jks
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from tests.support.class_archives import SMALL

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
PASSWORD: Final = "store-password"
"""Of the stores that are written without another one."""
CLIENT_SUBJECT: Final = "CN=client,OU=Tests,O=Odradek,L=Prague,ST=Bohemia,C=CZ"
DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Certified:
    """A key with its certificate, and the files that contain them."""

    folder: Path
    name: str
    key: Key
    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def pem(self) -> Path:
        """The key (PKCS#8, not encrypted), the certificate and that of the authority."""
        return self._written("pem", self.key_text() + self.chain_text())

    @property
    def key_file(self) -> Path:
        """The key alone, PKCS#8, not encrypted."""
        return self._written("key", self.key_text())

    @property
    def certificate_file(self) -> Path:
        """The certificate and that of the authority."""
        return self._written("crt", self.chain_text())

    def encrypted_pem(self, password: str = PASSWORD) -> Path:
        """`pem` with an encrypted key."""
        return self._written("encrypted.pem", self.key_text(password) + self.chain_text())

    def pkcs12(self, password: str = PASSWORD) -> Path:
        """A key store of PKCS#12, with the certificate of the authority."""
        path = self.folder / f"{self.name}.p12"
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                self.name.encode(),
                self.key,
                self.certificate,
                [self.authority],
                BestAvailableEncryption(password.encode()),
            )
        )
        return path

    def java_key_store(self, key_password: str = PASSWORD, *, by_keytool: bool = False) -> Path:
        """A key store in Java's own format, with `PASSWORD`.

        by_keytool  written by Java's tool, which takes a second, and not by purejks
        """
        if by_keytool:
            options = ["-srcalias", self.name, "-destkeypass", key_password]
            return converted_by_keytool(self.pkcs12(), options)
        der = self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        chain = [der_of(self.certificate), der_of(self.authority)]
        entry = jks.PrivateKeyEntry.new(self.name, chain, der)
        entry.encrypt(key_password)
        return saved(entry, self.folder / f"{self.name}.jks")

    def key_text(self, password: str | None = None) -> str:
        """PKCS#8 in PEM."""
        encryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def chain_text(self) -> str:
        """The certificate and that of the authority, in PEM."""
        return pem_text(self.certificate) + pem_text(self.authority)

    def _written(self, end: str, text: str) -> Path:
        path = self.folder / f"{self.name}.{end}"
        # Clients in other threads may read it.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        return path


class Authority:
    """`trusted` is the PEM file with its certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        self._key: Key = make_key()
        subject = x509.Name.from_rfc4514_string(f"CN={name}")
        builder = unsigned(subject, subject, self._key, starts=-DAY, ends=365 * DAY)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        self.certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, SHA256())
        )
        self.trusted = folder / f"{name}.pem"
        self.trusted.write_text(pem_text(self.certificate))

    def certify(self, name: str) -> Path:
        """The PEM file of a certificate for local hosts with subject CN=`name`."""
        return self.issue(name).pem

    def issue(
        self,
        name: str,
        *,
        subject: str | None = None,
        hosts: Sequence[str] = LOCAL_HOSTS,
        usages: Sequence[ObjectIdentifier] = (SERVER, CLIENT),
        starts: timedelta = -DAY,
        ends: timedelta = 365 * DAY,
        is_rsa: bool = False,
    ) -> Certified:
        """A key and its certificate.

        subject  a distinguished name as in RFC 4514; None: CN=`name`
        hosts    names and addresses among the alternative names
        usages   of the extended key usage; none: the certificate lacks the extension
        starts   from now
        """
        key = make_key(is_rsa=is_rsa)
        distinguished = x509.Name.from_rfc4514_string(subject or f"CN={name}")
        builder = unsigned(distinguished, self.certificate.subject, key, starts=starts, ends=ends)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        if hosts:
            names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        certificate = builder.sign(self._key, SHA256())
        return Certified(self._folder, name, key, certificate, self.certificate)

    def server(self, name: str = "server") -> Certified:
        """For a server on a local host."""
        return self.issue(name, usages=(SERVER, CLIENT))

    def client(self, name: str = "client", subject: str = CLIENT_SUBJECT) -> Certified:
        """For a client; its subject has several parts."""
        return self.issue(name, subject=subject, hosts=(), usages=(CLIENT,))

    def expired(self, name: str = "expired") -> Certified:
        """Valid until an hour ago."""
        return self.issue(name, starts=-2 * DAY, ends=-timedelta(hours=1))

    def not_yet_valid(self, name: str = "not-yet-valid") -> Certified:
        """Valid from tomorrow on."""
        return self.issue(name, starts=DAY)

    def wrong_host(self, name: str = "wrong-host") -> Certified:
        """For a server that is elsewhere."""
        return self.issue(name, hosts=("elsewhere.example",))

    def wrong_usage(self, name: str = "wrong-usage") -> Certified:
        """Its extended key usage is neither that of a server nor that of a client."""
        return self.issue(name, usages=(ExtendedKeyUsageOID.CODE_SIGNING,))

    def trusted_pkcs12(self, password: str = PASSWORD) -> Path:
        """A trust store of PKCS#12, as keytool reads it."""
        path = self._folder / f"{self._name}.trusted.p12"
        entry = pkcs12.PKCS12Certificate(self.certificate, self._name.encode())
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_java_truststore([entry], encryption))
        return path

    def trusted_java_key_store(self, *, by_keytool: bool = False) -> Path:
        """A trust store in Java's own format, with `PASSWORD`; as `Certified.java_key_store`."""
        if by_keytool:
            return converted_by_keytool(self.trusted_pkcs12())
        entry = jks.TrustedCertEntry.new(self._name, der_of(self.certificate))
        return saved(entry, self._folder / f"{self._name}.trusted.jks")


def make_key(*, is_rsa: bool = False) -> Key:
    """A key on P-256, or one of RSA with 2048 bits (slower to make)."""
    if is_rsa:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def unsigned(
    subject: x509.Name, issuer: x509.Name, key: Key, *, starts: timedelta, ends: timedelta
) -> x509.CertificateBuilder:
    """What every certificate has, without a signature; times are from now."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + starts)
        .not_valid_after(now + ends)
    )


def general_name(host: str) -> x509.GeneralName:
    """An alternative name: an address, or the name of a host."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem_text(certificate: x509.Certificate) -> str:
    """A certificate in PEM."""
    return certificate.public_bytes(Encoding.PEM).decode()


def der_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def saved(entry: jks.PrivateKeyEntry | jks.TrustedCertEntry, path: Path) -> Path:
    """Write a store in Java's own format (JKS) with one entry."""
    jks.KeyStore.new("jks", [entry]).save(str(path), PASSWORD)
    return path


def converted_by_keytool(pkcs12_file: Path, options: Sequence[str] = ()) -> Path:
    """A store in Java's own format (JKS) with the entries of one of PKCS#12."""
    path = pkcs12_file.with_suffix(".jks")
    path.unlink(missing_ok=True)
    run_keytool(
        "-importkeystore", "-noprompt",
        "-srckeystore", str(pkcs12_file), "-srcstoretype", "PKCS12",
        "-destkeystore", str(path), "-deststoretype", "JKS",
        "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD, *options,
    )  # fmt: skip
    return path


def emptied_by_keytool(store: Path, alias: str) -> Path:
    """A copy of a store with `PASSWORD`, without its only entry."""
    path = store.with_suffix(f".emptied{store.suffix}")
    path.write_bytes(store.read_bytes())
    run_keytool("-delete", "-alias", alias, "-keystore", str(path), "-storepass", PASSWORD)
    return path


def run_keytool(*arguments: str) -> None:
    """Run Java's tool for stores to its end."""
    subprocess.run(
        ["keytool", *(f"-J{option}" for option in SMALL), *arguments],
        check=True,
        capture_output=True,
        timeout=60,
    )
