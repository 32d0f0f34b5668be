"""Settings: TLS of listeners.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import one_of
from odradek.broker.settings.types import (
    BOOLEAN,
    CLASS,
    LIST,
    LOW,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    STRING,
    Definition,
)

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("ssl.client.auth", STRING, "none", one_of("required", "requested", "none"), MEDIUM,
        PER_BROKER,
        "Whether clients must, may or need not show a certificate."),
    Definition("ssl.protocol", STRING, "TLSv1.3", None, MEDIUM, PER_BROKER,
        "TLS version that contexts are made with."),
    Definition("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", None, MEDIUM, PER_BROKER,
        "TLS versions that may be used."),
    Definition("ssl.cipher.suites", LIST, "", None, MEDIUM, PER_BROKER,
        "Cipher suites that may be used; the library's own choice when empty."),
    Definition("ssl.provider", STRING, None, None, MEDIUM, PER_BROKER,
        "Provider of TLS; the platform's own when not set."),
    Definition("ssl.keystore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "Format of the key store."),
    Definition("ssl.keystore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "File with the broker's key and certificate."),
    Definition("ssl.keystore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the key store."),
    Definition("ssl.keystore.key", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Private key in PEM form, instead of a file."),
    Definition("ssl.keystore.certificate.chain", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Certificates in PEM form, instead of a file."),
    Definition("ssl.key.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the private key in the key store."),
    Definition("ssl.truststore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "Format of the trust store."),
    Definition("ssl.truststore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "File with the certificates that are trusted."),
    Definition("ssl.truststore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the trust store."),
    Definition("ssl.truststore.certificates", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Trusted certificates in PEM form, instead of a file."),
    Definition("ssl.keymanager.algorithm", STRING, "SunX509", None, MEDIUM, PER_BROKER,
        "Algorithm of Java's key managers."),
    Definition("ssl.trustmanager.algorithm", STRING, "PKIX", None, MEDIUM, PER_BROKER,
        "Algorithm of Java's trust managers."),
    Definition("ssl.endpoint.identification.algorithm", STRING, "https", None, LOW, PER_BROKER,
        "How a server's name is checked against its certificate; empty does not check."),
    Definition("ssl.secure.random.implementation", STRING, None, None, LOW, PER_BROKER,
        "Generator of random numbers for TLS."),
    Definition("ssl.engine.factory.class", CLASS, None, None, LOW, PER_BROKER,
        "Class that makes TLS engines."),
    Definition("ssl.principal.mapping.rules", STRING, "DEFAULT", None, LOW, READ_ONLY,
        "Rules that make short names of certificates' names; the first that fits counts."),
    Definition("ssl.allow.dn.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether a key store that replaces another may carry another distinguished name."),
    Definition("ssl.allow.san.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether a key store that replaces another may carry other alternative names."),
)
# fmt: on
