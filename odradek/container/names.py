"""Names of environment variables: which settings they are, in the conventions of public images.

| convention | variables | settings |
|---|---|---|
| Apache, Confluent | `KAFKA_A_B` | `_` is a dot, `__` an underscore, `___` a dash |
| Bitnami | `KAFKA_CFG_A_B`, some names of its own | the same; `sasl_ssl` and `sasl_plaintext` |
| wurstmeister | `KAFKA_A_B`, some names of its own | the same |

Source: KafkaDockerWrapper and docker/ of Apache Kafka, confluentinc/kafka-images,
bitnami/containers (kafka), wurstmeister/kafka-docker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from odradek.broker.settings.checks import PLUGIN_PREFIXES, PLUGIN_SETTINGS
from odradek.broker.settings.definitions import BROKER, base_name
from odradek.broker.settings.types import SettingsError

PREFIX: Final = "KAFKA_"
BITNAMI_PREFIX: Final = "KAFKA_CFG_"
RENAMED: Final[Mapping[str, str]] = {
    "KAFKA_LOGS_DIRS": "log.dirs",
    "KAFKA_SEGMENT_BYTES": "log.segment.bytes",
    "KAFKA_MAX_MESSAGE_BYTES": "message.max.bytes",
    "KAFKA_ZOOKEEPER_CONNECT_TIMEOUT_MS": "zookeeper.connection.timeout.ms",
    "KAFKA_TLS_TYPE": "ssl.keystore.type",
    "KAFKA_TLS_CLIENT_AUTH": "ssl.client.auth",
    "KAFKA_TLS_TRUSTSTORE_FILE": "ssl.truststore.location",
}
"""Names of Bitnami's image for settings of Kafka."""
WITHOUT_EFFECT: Final = frozenset(
    {f"KAFKA_{name}" for name in ("VERSION", "HOME", "DEBUG", "LOG", "OPTS", "HEAP_OPTS")}
    | {f"KAFKA_{name}" for name in ("GC_LOG_OPTS", "JVM_PERFORMANCE_OPTS", "JMX_OPTS", "JMX_PORT")}
    | {f"KAFKA_{name}" for name in ("JMX_HOSTNAME", "LOG4J_OPTS", "LOG4J_LOGGERS")}
    | {f"KAFKA_{name}" for name in ("TOOLS_LOG4J_LOGLEVEL", "DATA_DIRS", "CUB_ZK_TIMEOUT")}
    | {f"KAFKA_{name}" for name in ("ENABLE_KRAFT", "SKIP_KRAFT_STORAGE_INIT", "VOLUME_DIR")}
    | {f"KAFKA_{name}" for name in ("BASE_DIR", "CONF_DIR", "CONF_FILE", "DATA_DIR")}
    | {f"KAFKA_{name}" for name in ("CERTS_DIR", "DAEMON_USER", "DAEMON_GROUP", "URL", "DIST_URL")}
)
"""Variables of a JVM, of log4j, and of the scripts of the images."""
OWN: Final = frozenset(
    {"KAFKA_CREATE_TOPICS", "KAFKA_CREATE_TOPICS_SEPARATOR", "KAFKA_LOG4J_ROOT_LOGLEVEL"}
    | {"KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_PORT", "KAFKA_HOST_NAME", "KAFKA_PORT"}
    | {"KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_MOUNTED_CONF_DIR"}
    | {"KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS", "KAFKA_BROKER_USER"}
    | {"KAFKA_BROKER_PASSWORD", "KAFKA_INTER_BROKER_USER", "KAFKA_INTER_BROKER_PASSWORD"}
    | {"KAFKA_CONTROLLER_USER", "KAFKA_CONTROLLER_PASSWORD", "KAFKA_CERTIFICATE_PASSWORD"}
    | {"KAFKA_ZOOKEEPER_PROTOCOL", "KAFKA_SSL_KEYSTORE_FILENAME", "KAFKA_SSL_TRUSTSTORE_FILENAME"}
    | {"KAFKA_SSL_KEYSTORE_CREDENTIALS", "KAFKA_SSL_KEY_CREDENTIALS"}
    | {"KAFKA_SSL_TRUSTSTORE_CREDENTIALS"}
)
"""Variables that are not one setting; `environment.py` reads them."""
REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "KAFKA_ADVERTISED_HOST": ("advertised.host", "removed; use KAFKA_ADVERTISED_LISTENERS"),
    "KAFKA_HOST": ("host", "removed; use KAFKA_LISTENERS"),
    "KAFKA_ZOOKEEPER_USER": ("zookeeper.user", "only KAFKA_ZOOKEEPER_PROTOCOL=PLAINTEXT is served"),
    "KAFKA_ZOOKEEPER_PASSWORD": (
        "zookeeper.password",
        "only KAFKA_ZOOKEEPER_PROTOCOL=PLAINTEXT is served",
    ),
}
"""variable -> (setting, what is allowed instead): without it clients would connect to another
address, or the broker without its identity."""
FROM_FILES: Final = (
    *("KAFKA_CERTIFICATE_PASSWORD", "KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS"),
    *("KAFKA_INTER_BROKER_USER", "KAFKA_INTER_BROKER_PASSWORD", "KAFKA_KRAFT_CLUSTER_ID"),
    *("KAFKA_CONTROLLER_USER", "KAFKA_CONTROLLER_PASSWORD", "KAFKA_TLS_TYPE"),
    *("KAFKA_TLS_CLIENT_AUTH", "KAFKA_OPTS", "KAFKA_CFG_SASL_ENABLED_MECHANISMS"),
)
"""With `_FILE` at the end they name a file with the value (Bitnami)."""
SERVICE: Final = re.compile(
    r"KAFKA_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP)(?:_\w+)?)"
)
"""Variables that Kubernetes and Docker's links set for a service of this name."""
_SETTINGS: Final[Mapping[str, str]] = {
    name.lower(): name for name in BROKER if name != name.lower()
}
"""Settings with capitals, which variables cannot express."""


class EnvironmentRefused(SettingsError):
    """A variable that a broker must not start with; the text is one line."""

    def __init__(self, variable: str, setting: str, allowed: str) -> None:
        """allowed  what may be written instead; it does not show a secret"""
        super().__init__(f"{variable} cannot be taken for {setting}: {allowed}")
        self.variable = variable


def setting_name(rest: str) -> str:
    """The setting of a variable, by the part after its prefix: `LOG_DIRS` is `log.dirs`."""
    name = rest.lower()
    for underscores, character in (("___", "-"), ("__", "\0"), ("_", ".")):
        name = name.replace(underscores, character)
    name = name.replace("\0", "_")
    return _SETTINGS.get(name, name)


def bitnami_name(rest: str) -> str:
    """The setting of a variable with Bitnami's prefix, by the part after it."""
    name = setting_name(rest)
    return name.replace("sasl.ssl", "sasl_ssl").replace("sasl.plaintext", "sasl_plaintext")


def is_setting(name: str) -> bool:
    """Whether Kafka, one of its plug-ins or Odradek has a setting of this name."""
    return base_name(name) in BROKER or name in PLUGIN_SETTINGS or name.startswith(PLUGIN_PREFIXES)
