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
        "Whether clients are required or requested to authenticate with a certificate, or "
        "neither."),
    Definition("ssl.protocol", STRING, "TLSv1.3", None, MEDIUM, PER_BROKER,
        "The TLS version of new contexts."),
    Definition("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", None, MEDIUM, PER_BROKER,
        "The TLS versions enabled for connections."),
    Definition("ssl.cipher.suites", LIST, "", None, MEDIUM, PER_BROKER,
        "The cipher suites enabled for connections; the library's default when empty."),
    Definition("ssl.provider", STRING, None, None, MEDIUM, PER_BROKER,
        "The provider of TLS; the platform's default when not set."),
    Definition("ssl.keystore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "The format of the key store."),
    Definition("ssl.keystore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "The file with the broker's key and certificate."),
    Definition("ssl.keystore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The password of the key store."),
    Definition("ssl.keystore.key", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The private key in PEM format, instead of a file."),
    Definition("ssl.keystore.certificate.chain", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The certificate chain in PEM format, instead of a file."),
    Definition("ssl.key.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The password of the private key in the key store."),
    Definition("ssl.truststore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "The format of the trust store."),
    Definition("ssl.truststore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "The file with the trusted certificates."),
    Definition("ssl.truststore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The password of the trust store."),
    Definition("ssl.truststore.certificates", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The trusted certificates in PEM format, instead of a file."),
    Definition("ssl.keymanager.algorithm", STRING, "SunX509", None, MEDIUM, PER_BROKER,
        "The algorithm of Java's key managers."),
    Definition("ssl.trustmanager.algorithm", STRING, "PKIX", None, MEDIUM, PER_BROKER,
        "The algorithm of Java's trust managers."),
    Definition("ssl.endpoint.identification.algorithm", STRING, "https", None, LOW, PER_BROKER,
        "How a server's host name is verified by its certificate; empty disables it."),
    Definition("ssl.secure.random.implementation", STRING, None, None, LOW, PER_BROKER,
        "The random number generator for TLS."),
    Definition("ssl.engine.factory.class", CLASS, None, None, LOW, PER_BROKER,
        "The class that creates TLS engines."),
    Definition("ssl.principal.mapping.rules", STRING, "DEFAULT", None, LOW, READ_ONLY,
        "The rules that map the distinguished names of certificates to short names; the first "
        "match applies."),
    Definition("ssl.allow.dn.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether the distinguished name may change when a key store is replaced."),
    Definition("ssl.allow.san.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether the subject alternative names may change when a key store is replaced."),
)
# fmt: on
