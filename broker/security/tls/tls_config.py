"""What the settings say about TLS: of a listener (ssl.*) and to ZooKeeper (zookeeper.ssl.*).

Pure: no store is read here.
Source: Kafka's DefaultSslEngineFactory, ZKClientConfig of ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from odradek.broker.security.tls.principal_mapper import SslPrincipalMapper
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.checks import TLS_VERSIONS, zookeeper_tls_versions
from odradek.broker.settings.listeners import SASL_SSL
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime.certificate_stores import JKS, PEM, PKCS12, STORE_TYPES, StoreConfig
from odradek.runtime.cipher_suites import CipherSuiteError, chosen_suites

CLIENT_AUTH: Final = ("none", "requested", "required")
EXTENSIONS: Final = {"pem": PEM, "p12": PKCS12, "pfx": PKCS12, "jks": JKS}
"""How ZooKeeper tells the type of a store by the end of its name."""


@dataclass(frozen=True)
class TlsConfig:
    """All that makes a context."""

    key_store: StoreConfig | None
    trust_store: StoreConfig | None
    """None: the authorities of the system."""
    versions: tuple[str, ...]
    """At least one of `TLS_VERSIONS`."""
    ciphers: tuple[str, ...] = ()
    """OpenSSL's names of suites of TLS 1.2; none: its default."""
    client_auth: str = "none"
    checks_hostname: bool = True
    """Whether a server must have a certificate for the host that was connected to."""


def listener_tls(settings: BrokerSettings, listener_name: str) -> TlsConfig:
    """TLS of a listener, and of this broker as a client of that listener of other brokers.

    raises  InvalidValueError
    """

    def value(name: str) -> Any:
        return settings.of_listener(listener_name, name)

    for name in ("ssl.provider", "ssl.engine.factory.class"):
        if value(name):
            raise InvalidValueError(name, value(name), "Java classes cannot be loaded")
    client_auth = str(value("ssl.client.auth"))
    is_prefixed = f"listener.name.{listener_name.lower()}.ssl.client.auth" in settings.written
    protocols = {listener.name: listener.protocol for listener in settings.listeners}
    if protocols.get(listener_name) == SASL_SSL and not is_prefixed:
        client_auth = "none"  # KIP-684
    if client_auth not in CLIENT_AUTH:
        raise InvalidValueError("ssl.client.auth", client_auth, f"served: {', '.join(CLIENT_AUTH)}")
    versions = tuple(value("ssl.enabled.protocols") or TLS_VERSIONS)
    versions, ciphers = chosen_versions("ssl", versions, value("ssl.cipher.suites"))
    key_store = key_store_config(value)
    if key_store is None:
        allowed = f"the listener {listener_name} needs a key store"
        raise InvalidValueError("ssl.keystore.location", None, allowed)
    SslPrincipalMapper(str(value("ssl.principal.mapping.rules")))
    return TlsConfig(
        key_store,
        trust_store_config(value),
        versions,
        ciphers,
        client_auth,
        checks_hostname(
            "ssl.endpoint.identification.algorithm", value("ssl.endpoint.identification.algorithm")
        ),
    )


def zookeeper_tls(settings: BrokerSettings) -> TlsConfig:
    """TLS to ZooKeeper.

    raises  InvalidValueError
    """
    raw = settings.raw
    stores: list[StoreConfig | None] = []
    for store in ("keystore", "truststore"):
        name = f"zookeeper.ssl.{store}.location"
        location = raw[name]
        if location is None:
            stores.append(None)
            continue
        written = raw[f"zookeeper.ssl.{store}.type"]
        kind = EXTENSIONS.get(str(location).rpartition(".")[2].lower(), JKS)
        stores.append(
            StoreConfig(
                checked_type(f"zookeeper.ssl.{store}.type", written or kind),
                name,
                str(location),
                text_of(raw[f"zookeeper.ssl.{store}.password"]),
            )
        )
    suites = raw["zookeeper.ssl.cipher.suites"] or ()
    enabled = zookeeper_tls_versions(settings)
    versions, ciphers = chosen_versions("zookeeper.ssl", enabled, suites)
    name = "zookeeper.ssl.endpoint.identification.algorithm"
    return TlsConfig(
        stores[0], stores[1], versions, ciphers, checks_hostname=checks_hostname(name, raw[name])
    )


def chosen_versions(
    prefix: str, versions: tuple[str, ...], suites: Any
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(versions, OpenSSL's names of suites of TLS 1.2).

    raises  InvalidValueError
    """
    name = f"{prefix}.enabled.protocols"
    for version in versions:
        if version not in TLS_VERSIONS:
            raise InvalidValueError(name, version, f"served: {', '.join(TLS_VERSIONS)}")
    if not suites:
        return versions, ()
    try:
        return chosen_suites(suites, versions)
    except CipherSuiteError as error:
        raise InvalidValueError(f"{prefix}.cipher.suites", ",".join(suites), str(error)) from None


def key_store_config(value: Callable[[str], Any]) -> StoreConfig | None:
    """The key store of `ssl.keystore.*`.

    raises  InvalidValueError for settings that exclude each other
    """
    kind = checked_type("ssl.keystore.type", value("ssl.keystore.type"))
    location, password = value("ssl.keystore.location"), value("ssl.keystore.password")
    key, chain = value("ssl.keystore.key"), value("ssl.keystore.certificate.chain")
    key_password = text_of(value("ssl.key.password"))
    if key is not None or chain is not None:
        for name, other in (("ssl.keystore.key", key), ("ssl.keystore.certificate.chain", chain)):
            if other is None:
                raise InvalidValueError(name, None, "a key and its certificates come together")
        check_inline("ssl.keystore", kind, location, password)
        return StoreConfig(
            kind,
            "ssl.keystore.key",
            key_password=key_password,
            key=text_of(key),
            certificates=text_of(chain),
        )
    return file_config("ssl.keystore", kind, location, password, key_password, needs_password=True)


def trust_store_config(value: Callable[[str], Any]) -> StoreConfig | None:
    """The trust store of `ssl.truststore.*`.

    raises  InvalidValueError for settings that exclude each other
    """
    kind = checked_type("ssl.truststore.type", value("ssl.truststore.type"))
    location, password = value("ssl.truststore.location"), value("ssl.truststore.password")
    certificates = value("ssl.truststore.certificates")
    if certificates is not None:
        check_inline("ssl.truststore", kind, location, password)
        return StoreConfig(kind, "ssl.truststore.certificates", certificates=text_of(certificates))
    return file_config("ssl.truststore", kind, location, password, None, needs_password=False)


def file_config(
    prefix: str,
    kind: str,
    location: Any,
    password: Any,
    key_password: str | None,
    *,
    needs_password: bool,
) -> StoreConfig | None:
    """A store in a file; None where there is none.

    raises  InvalidValueError
    """
    name = f"{prefix}.location"
    if location is None:
        if password is not None:
            raise InvalidValueError(name, None, f"{prefix}.password is set, but no file")
        return None
    if kind == PEM and password is not None:
        allowed = "a PEM store has no password"
        if needs_password:
            allowed += "; that of its key is ssl.key.password"
        raise InvalidValueError(f"{prefix}.password", "[hidden]", allowed)
    if kind != PEM and password is None and needs_password:
        raise InvalidValueError(f"{prefix}.password", None, f"a store of type {kind} needs it")
    return StoreConfig(kind, name, str(location), text_of(password), key_password)


def check_inline(prefix: str, kind: str, location: Any, password: Any) -> None:
    """Refuse PEM in the settings beside a file, a password or another type.

    raises  InvalidValueError
    """
    if kind != PEM:
        allowed = "keys and certificates in the settings need the type PEM"
        raise InvalidValueError(f"{prefix}.type", kind, allowed)
    if location is not None:
        allowed = "either a file or keys and certificates in the settings"
        raise InvalidValueError(f"{prefix}.location", location, allowed)
    if password is not None:
        allowed = "a PEM store has no password"
        raise InvalidValueError(f"{prefix}.password", "[hidden]", allowed)


def checked_type(name: str, value: Any) -> str:
    """raises  InvalidValueError"""
    kind = str(value).upper()
    if kind not in STORE_TYPES:
        raise InvalidValueError(name, value, f"served: {', '.join(STORE_TYPES)}")
    return kind


def checks_hostname(name: str, value: Any) -> bool:
    """raises  InvalidValueError"""
    text = str(value or "").lower()
    if text not in ("", "https"):
        raise InvalidValueError(name, value, "Expected https, or nothing")
    return bool(text)


def text_of(value: Any) -> str | None:
    """A password as text."""
    return None if value is None else str(value)
