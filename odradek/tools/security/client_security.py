"""TLS and SASL of connections, from Kafka's client properties.

Source: Kafka 3.9's SslConfigs, SaslConfigs, CommonClientConfigs.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.tools.security.errors import SecurityError
from odradek.tools.security.sasl_client import KEY as JAAS
from odradek.tools.security.sasl_client import OAUTHBEARER, SaslLogin, parse_jaas
from odradek.tools.security.stores import identity, load_key, trusted_certificates

if TYPE_CHECKING:
    from odradek.runtime.certificate_stores import KeyMaterial


SECURITY_PROTOCOL: Final = "security.protocol"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ENDPOINT_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
ENABLED_PROTOCOLS: Final = "ssl.enabled.protocols"
CIPHER_SUITES: Final = "ssl.cipher.suites"
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class ClientSecurity:
    """How the connections of a client are made.  `repr` shows no secret."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        """Read stores and credentials; nothing is connected.

        configs  properties of a client
        raises   SecurityError
        """
        self.protocol = configs.get(SECURITY_PROTOCOL, "PLAINTEXT").strip().upper()
        if self.protocol not in PROTOCOLS:
            raise SecurityError(
                f"{SECURITY_PROTOCOL}={self.protocol}: expected one of {', '.join(PROTOCOLS)}"
            )
        self.trusted: str | None = None
        """PEM; None: the authorities that this machine trusts."""
        self.identity: KeyMaterial | None = None
        self.ciphers: tuple[str, ...] = ()
        """OpenSSL's names of suites of TLS 1.2; none: its default."""
        self.checks_host = True
        self.login: SaslLogin | None = None
        self._context: ssl.SSLContext | None = None
        if self.protocol.endswith("SSL"):
            self.trusted = trusted_certificates(configs)
            self.identity = identity(configs)
            algorithm = configs.get(ENDPOINT_IDENTIFICATION, "https").strip()
            if algorithm.lower() not in ("https", ""):
                raise SecurityError(f"{ENDPOINT_IDENTIFICATION}: expected https, or an empty value")
            self.checks_host = bool(algorithm)
            self._context = self._new_context(configs)
        if self.protocol.startswith("SASL"):
            mechanism = configs.get("sasl.mechanism", "GSSAPI").strip()
            if JAAS not in configs:
                raise SecurityError(f"{JAAS} is missing, for {SECURITY_PROTOCOL}={self.protocol}")
            self.login = SaslLogin(mechanism, parse_jaas(configs[JAAS]), configs)

    def _new_context(self, configs: Mapping[str, str]) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host
        text = configs.get(ENABLED_PROTOCOLS) or ",".join(VERSIONS)
        names = [name.strip() for name in text.split(",")]
        names = [name for name in names if name in VERSIONS]
        if not names:
            raise SecurityError(f"{ENABLED_PROTOCOLS}: expected some of {', '.join(VERSIONS)}")
        suites = [suite.strip() for suite in configs.get(CIPHER_SUITES, "").split(",")]
        if any(suites):
            names = self._choose_suites(filter(None, suites), names)
        versions = [VERSIONS[name] for name in names]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        if self.ciphers:
            try:
                context.set_ciphers(":".join(self.ciphers))
            except ssl.SSLError:
                raise SecurityError(f"{CIPHER_SUITES}: OpenSSL has none of them") from None
        if self.trusted is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=self.trusted)
        if self.identity is not None:
            load_key(context, self.identity)
        return context

    def _choose_suites(self, suites: Iterable[str], versions: Sequence[str]) -> list[str]:
        """The versions that have one of the suites."""
        # Imported where a client chooses suites.
        from odradek.runtime.cipher_suites import CipherSuiteError, chosen_suites

        try:
            left, self.ciphers = chosen_suites(suites, versions)
        except CipherSuiteError as error:
            raise SecurityError(f"{CIPHER_SUITES}: {error}") from None
        return [*left]

    def wrap(self, connected: socket.socket, host: str) -> socket.socket:
        """The socket to speak through: itself, or one that has done a TLS handshake.

        raises  SecurityError; OSError
        """
        if self._context is None:
            return connected
        try:
            return self._context.wrap_socket(connected, server_hostname=host)
        except ssl.SSLError as error:
            raise SecurityError(f"SSL handshake failed: {ssl_reason(error)}") from error


def ssl_reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason without its codes and places in C."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if error.reason == "UNEXPECTED_EOF_WHILE_READING":
        return "the connection was closed; the port may be one without TLS"
    if error.reason:
        return error.reason.lower().replace("_", " ")
    return "the connection was closed"


def library_configs(security: ClientSecurity) -> dict[str, Any]:
    """Configs of librdkafka: stores as PEM, credentials, a callback for OAUTHBEARER.

    raises  SecurityError for what librdkafka does not do
    source  librdkafka's CONFIGURATION.md
    """
    configs: dict[str, Any] = {"security.protocol": security.protocol}
    if security.protocol.endswith("SSL"):
        configs["ssl.endpoint.identification.algorithm"] = (
            "https" if security.checks_host else "none"
        )
        if security.trusted is not None:
            configs["ssl.ca.pem"] = security.trusted
        if security.identity is not None:
            configs["ssl.key.pem"] = security.identity.key_pem.decode()
            configs["ssl.certificate.pem"] = security.identity.chain_pem.decode()
        if security.ciphers:
            configs["ssl.cipher.suites"] = ":".join(security.ciphers)
    if security.login is not None:
        configs |= _login_configs(security.login)
    return configs


def _login_configs(login: SaslLogin) -> dict[str, Any]:
    configs: dict[str, Any] = {"sasl.mechanism": login.mechanism}
    if login.mechanism == OAUTHBEARER:
        return {**configs, "oauth_cb": lambda _: (*login.token(), "", login.extensions)}
    if login.is_by_delegation_token:
        raise SecurityError("librdkafka, under this tool, has no login with delegation tokens")
    return {**configs, "sasl.username": login.username, "sasl.password": login.password}
