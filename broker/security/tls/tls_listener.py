"""TLS of one listener: its contexts, which are exchanged while it runs, and its principals."""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final

from cryptography import x509

from odradek.broker.security.kafka_principal import ANONYMOUS, USER, KafkaPrincipal
from odradek.broker.security.tls.contexts import Stores, client_context, read_stores, server_context
from odradek.broker.security.tls.distinguished_name import distinguished_name
from odradek.broker.security.tls.principal_mapper import SslPrincipalMapper
from odradek.broker.security.tls.tls_config import TlsConfig, listener_tls
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime.certificate_stores import StoreConfig, StoreError

PRINCIPALS_MAX: Final = 1_024

logger = logging.getLogger("odradek.security")


@dataclass(frozen=True)
class TlsState:
    """What a configuration and the files that it names have made; replaced as a whole."""

    config: TlsConfig
    stamps: tuple[tuple[int, int], ...]
    """Time of change and inode of each file."""
    stores: Stores
    server: SSLContext
    client: SSLContext


class TlsListener:
    """What connections of one listener share."""

    def __init__(self, settings: BrokerSettings, name: str) -> None:
        """raises  InvalidValueError, StoreError"""
        self.name = name
        self.state = loaded(listener_tls(settings, name))
        rules = settings.of_listener(name, "ssl.principal.mapping.rules")
        self._mapper = SslPrincipalMapper(str(rules))
        self._refused: object = None
        """A configuration and the stamps of its files that could not be used, or settings that
        make no configuration."""
        self._principals: OrderedDict[bytes, KafkaPrincipal] = OrderedDict()
        """By certificate, the least recently used first."""

    def refresh(self, settings: BrokerSettings) -> None:
        """Read the stores again if others are named, or their files have changed; what cannot be
        used is logged once, and the present certificates stay.

        Called in a thread, one call at a time.
        """
        seen: object = None
        try:
            config = listener_tls(settings, self.name)
            seen = config, file_stamps(config)
            if seen in ((self.state.config, self.state.stamps), self._refused):
                return
            state = loaded(config)
            check_exchange(settings, self.state.stores, state.stores)
        except (StoreError, InvalidValueError) as error:
            seen = seen or str(error)
            if seen != self._refused:
                self._refused = seen
                logger.warning("listener %s keeps its certificates: %s", self.name, error)
            return
        self.state = state
        logger.info("listener %s has read its certificates again", self.name)

    def check(self, settings: BrokerSettings) -> None:
        """Refuse settings that `refresh` could not use.

        Reads files: for a thread.
        raises  InvalidValueError, StoreError
        """
        check_exchange(
            settings, self.state.stores, loaded(listener_tls(settings, self.name)).stores
        )

    def principal_of(self, certificate: bytes | None) -> KafkaPrincipal:
        """Who a client is by its certificate in DER; ANONYMOUS without.

        raises  NoMatchingRule
        """
        if certificate is None:
            return ANONYMOUS
        principal = self._principals.get(certificate)
        if principal is None:
            subject = x509.load_der_x509_certificate(certificate).subject
            principal = KafkaPrincipal(USER, self._mapper.name_of(distinguished_name(subject)))
            self._principals[certificate] = principal
            if len(self._principals) > PRINCIPALS_MAX:
                self._principals.popitem(last=False)
        else:
            self._principals.move_to_end(certificate)
        return principal


def check_exchange(settings: BrokerSettings, before: Stores, after: Stores) -> None:
    """Refuse a certificate for another name, unless the settings allow it.

    Source: Kafka's SslFactory.CertificateEntries.ensureCompatible.
    raises  StoreError
    """
    old, new = before.subject, after.subject
    if old is None or new is None:
        return
    if not settings.raw["ssl.allow.dn.changes"] and old.name.lower() != new.name.lower():
        raise StoreError(
            f"Keystore DistinguishedName does not match: existing={old.name}, new={new.name}; "
            "ssl.allow.dn.changes would allow it"
        )
    missing = [name for name in old.alternatives if name not in new.alternatives]
    if missing and not settings.raw["ssl.allow.san.changes"]:
        raise StoreError(
            f"Keystore SubjectAltNames do not match: the new one lacks {', '.join(missing)}; "
            "ssl.allow.san.changes would allow it"
        )


def loaded(config: TlsConfig) -> TlsState:
    """Read the stores, and make the contexts.

    cost    some milliseconds
    raises  StoreError, InvalidValueError
    """
    stamps = file_stamps(config)
    stores = read_stores(config)
    return TlsState(
        config, stamps, stores, server_context(config, stores), client_context(config, stores)
    )


def file_stamps(config: TlsConfig) -> tuple[tuple[int, int], ...]:
    """What tells changed files; a file that is missing has a stamp, too."""
    return tuple(
        stamp(store) for store in (config.key_store, config.trust_store) if store is not None
    )


def stamp(store: StoreConfig) -> tuple[int, int]:
    """Time of change in nanoseconds, and inode; (0, 0) without a file."""
    if store.location is None:
        return 0, 0
    try:
        status = os.stat(store.location)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_ino
