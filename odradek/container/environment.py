"""From the environment of a container to the settings of its broker, as public images take it.

`inputs` says which files and commands the environment refers to; `container_config` makes the
settings of it, of their texts, and of a settings file.  The names are in `names.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.broker.settings.checks import unknown_name_warning
from odradek.container.names import (
    BITNAMI_PREFIX,
    FROM_FILES,
    OWN,
    PREFIX,
    REFUSED,
    RENAMED,
    SERVICE,
    WITHOUT_EFFECT,
    EnvironmentRefused,
    bitnami_name,
    is_setting,
    setting_name,
)
from odradek.container.new_topics import NewTopic, new_topics
from odradek.container.sasl import USER_VARIABLES, NewScramUser, jaas_settings, scram_users

SECRETS: Final = "/etc/kafka/secrets/"
BITNAMI_CERTIFICATES: Final = "/opt/bitnami/kafka/config/certs/"
PEM_FILES: Final[Mapping[str, str]] = {
    "ssl.keystore.key": "kafka.keystore.key",
    "ssl.keystore.certificate.chain": "kafka.keystore.pem",
    "ssl.truststore.certificates": "kafka.truststore.pem",
}
"""Settings of PEM, whose texts Bitnami's image reads from these files of its certificates."""
LISTENER_CLIENT_AUTH: Final = re.compile(r"KAFKA_TLS_(\w+)_CLIENT_AUTH")
"""Bitnami's variable for a listener with TLS."""

LOCATIONS: Final[Mapping[str, str]] = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
"""Variables with the name of a file of `SECRETS`."""
CREDENTIALS: Final[Mapping[str, str]] = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
"""Variables with the name of a file of `SECRETS` that contains a password."""
COMMANDS: Final = ("HOSTNAME_COMMAND", "PORT_COMMAND", "BROKER_ID_COMMAND", "RACK_COMMAND")
COMMAND_SETTINGS: Final[Mapping[str, str]] = {
    "BROKER_ID_COMMAND": "broker.id",
    "RACK_COMMAND": "broker.rack",
}
CLUSTER_IDS: Final = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
LOG_LEVELS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ALL", "TRACE", "DEBUG"), "DEBUG"),
    **{"INFO": "INFO", "WARN": "WARN"},
    **dict.fromkeys(("ERROR", "FATAL", "OFF"), "ERROR"),
}
"""log4j's levels -> those of `odradek start`."""

WITH_HOSTS: Final = re.compile(r"://[^,]*:")
LISTENER_SETTINGS: Final = frozenset(
    {"listeners", "advertised.listeners", "listener.security.protocol.map"}
    | {"inter.broker.listener.name", "security.inter.broker.protocol"}
)
EMPTY_IS_UNSET: Final = LISTENER_SETTINGS | {"log.dirs", "process.roles", "zookeeper.connect"}
"""Settings for which an empty variable is one that is not set, as in Apache's scripts."""
COORDINATION: Final = frozenset({"zookeeper.connect", "process.roles"})

CONFLUENT_DATA: Final = "/var/lib/kafka/data"
BITNAMI_DATA: Final = "/bitnami/kafka/data"
WURSTMEISTER_DATA: Final = "/kafka/kafka-logs-{hostname}"
ONE_BROKER: Final[Mapping[str, str]] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""What config/server.properties of Apache Kafka has, on which two of the images are based."""
STOP_IN_TIME: Final[Mapping[str, str]] = {"controlled.shutdown.retry.backoff.ms": "1000"}
"""`compose down` kills after 10 s, before three attempts at Kafka's default of 5 s have ended."""

WURSTMEISTER: Final = frozenset(
    {"KAFKA_ADVERTISED_HOST_NAME", "KAFKA_CREATE_TOPICS", "HOSTNAME_COMMAND", "PORT_COMMAND"}
    | {"BROKER_ID_COMMAND", "RACK_COMMAND"}
)
BITNAMI: Final = frozenset({"ALLOW_PLAINTEXT_LISTENER", "KAFKA_KRAFT_CLUSTER_ID", "BITNAMI_DEBUG"})


class Inputs(NamedTuple):
    """What has to be read before `container_config` can be called."""

    files: Mapping[str, str]
    """Variable -> path."""
    commands: Mapping[str, str]
    """Variable -> a line for bash, whose output is the value."""


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """What a container starts with."""

    settings: Mapping[str, str]
    """Names and texts, as in server.properties."""
    variables: Mapping[str, str]
    """Setting -> the variable that it is from, for lines about wrong values."""
    cluster_id: str | None
    """The id that an empty data directory is formatted with."""
    topics: tuple[NewTopic, ...]
    users: tuple[NewScramUser, ...]
    """Users of SCRAM that are stored before the start."""
    log_level: str
    """One of DEBUG, INFO, WARN and ERROR."""
    warnings: tuple[str, ...]


def inputs(environment: Mapping[str, str], certificates: str = BITNAMI_CERTIFICATES) -> Inputs:
    """The files and commands that the environment refers to.

    certificates  the folder of those in Bitnami's convention
    """
    files = {
        variable: SECRETS + environment[variable]
        for variable in CREDENTIALS
        if environment.get(variable)
    }
    for variable in FROM_FILES:
        if path := environment.get(f"{variable}_FILE"):
            files[f"{variable}_FILE"] = path
    if environment.get("KAFKA_TLS_TYPE", "").upper() == "PEM" and _has_tls(environment):
        files.update({name: certificates + file for name, file in PEM_FILES.items()})
        if own := environment.get("KAFKA_TLS_TRUSTSTORE_FILE"):
            files["ssl.truststore.certificates"] = own
    commands = {name: environment[name] for name in COMMANDS if environment.get(name)}
    return Inputs(files, commands)


def _has_tls(environment: Mapping[str, str]) -> bool:
    """Whether a listener may have TLS."""
    names = ("LISTENER_SECURITY_PROTOCOL_MAP", "LISTENERS", "ADVERTISED_LISTENERS")
    return any("SSL" in environment.get(f"{BITNAMI_PREFIX}{name}", "") for name in names)


def container_config(
    environment: Mapping[str, str],
    texts: Mapping[str, str],
    *,
    mounted: Mapping[str, str] | None,
    default: Mapping[str, str],
    hostname: str,
    certificates: str = BITNAMI_CERTIFICATES,
) -> ContainerConfig:
    """The settings of the broker and what else its start needs.

    texts         variable -> what its file contains, or its command printed; see `inputs`
    mounted       the settings file that the user has put into the container; variables take
                  precedence
    default       the settings of a broker alone: used where nothing says which coordination there
                  is
    certificates  as of `inputs`
    raises        EnvironmentRefused
    """
    environment = _with_texts(environment, texts)
    reading = _Reading(environment)
    reading.read_variables()
    reading.read_files(texts, certificates)
    reading.read_host_name()
    reading.check_plaintext()
    given = reading.settings
    has_users = any(name in environment for name in USER_VARIABLES)
    if has_users:
        given.update({**jaas_settings(environment, {**(mounted or {}), **given}), **given})
    settings = {**(mounted or {}), **given}
    if mounted is None:
        settings = {**_defaults(environment, given, default, hostname), **given}
    _derive_listeners(settings)
    return ContainerConfig(
        settings,
        reading.variables,
        reading.cluster_id(),
        new_topics(environment),
        scram_users(environment, settings) if has_users else (),
        reading.log_level(),
        tuple(reading.warnings),
    )


def _with_texts(environment: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    """The environment with the values of `_FILE` variables, and the outputs of commands put in."""
    read = dict(environment)
    for variable in FROM_FILES:
        if (text := texts.get(f"{variable}_FILE")) is not None:
            read[variable] = text.rstrip("\n")
            del read[f"{variable}_FILE"]
    for command in ("HOSTNAME_COMMAND", "PORT_COMMAND"):
        if command in texts:
            place = f"_{{{command}}}"
            read = {
                name: value.replace(place, texts[command].strip())
                if name.startswith(PREFIX)
                else value
                for name, value in read.items()
            }
    if "HOSTNAME_COMMAND" in texts and not any(
        read.get(name) for name in ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_LISTENERS")
    ):
        read["KAFKA_ADVERTISED_HOST_NAME"] = texts["HOSTNAME_COMMAND"].strip()
    return read


def _derive_listeners(settings: dict[str, str]) -> None:
    """Listen on every interface at the advertised ports, when `listeners` is not set."""
    advertised = settings.get("advertised.listeners")
    if (
        advertised
        and not settings.get("listeners")
        and settings.get("process.roles") != "controller"
    ):
        settings["listeners"] = WITH_HOSTS.sub("://0.0.0.0:", advertised)


def _defaults(
    environment: Mapping[str, str],
    given: Mapping[str, str],
    default: Mapping[str, str],
    hostname: str,
) -> dict[str, str]:
    """Settings below those of the variables; with a file there are none."""
    if not given and not any(name in environment for name in BITNAMI):
        return dict(default)
    is_bitnami = any(name.startswith(BITNAMI_PREFIX) or name in BITNAMI for name in environment)
    is_wurstmeister = any(name in environment for name in WURSTMEISTER)
    settings = dict(STOP_IN_TIME)
    if COORDINATION.isdisjoint(given):
        settings.update(default)
        if not LISTENER_SETTINGS.isdisjoint(given):
            settings = {
                name: text for name, text in settings.items() if name not in LISTENER_SETTINGS
            }
    if is_bitnami or is_wurstmeister:
        settings.update(ONE_BROKER)
    if not COORDINATION.isdisjoint(given) or is_bitnami or is_wurstmeister:
        settings["log.dirs"] = (
            BITNAMI_DATA
            if is_bitnami
            else WURSTMEISTER_DATA.format(hostname=hostname)
            if is_wurstmeister
            else CONFLUENT_DATA
        )
    for names in (("broker.id", "node.id"), ("log.dirs", "log.dir")):
        if any(name in given for name in names):
            settings = {name: text for name, text in settings.items() if name not in names}
    return settings


class _Reading:
    """The settings of an environment, gathered rule by rule."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.settings: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.warnings: list[str] = []

    def _set(self, name: str, text: str, variable: str) -> None:
        """raises  EnvironmentRefused when another variable has given another value"""
        other = self.variables.get(name)
        if other is not None and self.settings[name] != text:
            raise EnvironmentRefused(variable, name, f"{other} has another value; remove one")
        self.settings[name] = text
        self.variables[name] = variable

    def read_variables(self) -> None:
        """Each variable that is one setting; unknown ones become warnings."""
        for variable in sorted(self._environment):
            text = self._environment[variable]
            if not variable.startswith(PREFIX) or variable in OWN or variable in WITHOUT_EFFECT:
                continue
            if variable in REFUSED and text:
                raise EnvironmentRefused(variable, *REFUSED[variable])
            if SERVICE.fullmatch(variable) or text.startswith("tcp://"):
                continue
            listener = LISTENER_CLIENT_AUTH.fullmatch(variable)
            if variable in RENAMED:
                name = RENAMED[variable]
            elif listener is not None:
                name = f"listener.name.{listener[1].lower()}.ssl.client.auth"
            elif variable.startswith(BITNAMI_PREFIX):
                name = bitnami_name(variable.removeprefix(BITNAMI_PREFIX))
            else:
                name = setting_name(variable.removeprefix(PREFIX))
            if not is_setting(name):
                self.warnings.append(f"{variable}: {unknown_name_warning(name)}")
            elif text.strip() or name not in EMPTY_IS_UNSET:
                self._set(name, text, variable)

    def read_files(self, texts: Mapping[str, str], certificates: str) -> None:
        """Key stores, passwords from files, and the outputs of commands."""
        for variable, name in LOCATIONS.items():
            if file := self._environment.get(variable):
                self._set(name, SECRETS + file, variable)
        for variable, name in CREDENTIALS.items():
            if variable in texts:
                self._set(name, texts[variable].rstrip("\n"), variable)
        for variable, name in COMMAND_SETTINGS.items():
            if variable in texts and name not in self.settings:
                self._set(name, texts[variable].strip(), variable)
        self._read_stores(texts, certificates)
        protocol = self._environment.get("KAFKA_ZOOKEEPER_PROTOCOL", "PLAINTEXT")
        if protocol != "PLAINTEXT":
            allowed = "expected PLAINTEXT; KAFKA_CFG_ZOOKEEPER_SSL_* are the settings of TLS"
            raise EnvironmentRefused("KAFKA_ZOOKEEPER_PROTOCOL", "zookeeper.protocol", allowed)

    def _read_stores(self, texts: Mapping[str, str], certificates: str) -> None:
        """Bitnami's KAFKA_TLS_TYPE and KAFKA_CERTIFICATE_PASSWORD."""
        kind = self._environment.get("KAFKA_TLS_TYPE", "")
        if password := self._environment.get("KAFKA_CERTIFICATE_PASSWORD"):
            # A store of PEM has no password, its key may have one.
            for name in CREDENTIALS.values():
                if kind.upper() != "PEM" or name == "ssl.key.password":
                    self._set(name, password, "KAFKA_CERTIFICATE_PASSWORD")
        if kind.upper() == "PEM":
            self._set("ssl.truststore.type", "PEM", "KAFKA_TLS_TYPE")
            for name in PEM_FILES:
                if name in texts:
                    self._set(name, texts[name], "KAFKA_TLS_TYPE")
            self.settings.pop("ssl.truststore.location", None)
        elif kind:
            self._set("ssl.truststore.type", kind, "KAFKA_TLS_TYPE")
            for store in ("keystore", "truststore"):
                path = f"{certificates}kafka.{store}.{kind.lower()}"
                if f"ssl.{store}.location" not in self.settings:
                    self._set(f"ssl.{store}.location", path, "KAFKA_TLS_TYPE")

    def read_host_name(self) -> None:
        """KAFKA_ADVERTISED_HOST_NAME and its port, which Kafka had before listeners."""
        variable = "KAFKA_ADVERTISED_HOST_NAME"
        host = self._environment.get(variable, "")
        own_port = self._port("KAFKA_PORT") or "9092"
        port = self._port("KAFKA_ADVERTISED_PORT") or own_port
        listed = LISTENER_SETTINGS.intersection(self.settings) - {"security.inter.broker.protocol"}
        if not host:
            if self._environment.get("KAFKA_ADVERTISED_PORT"):
                allowed = f"it needs {variable}, or use KAFKA_ADVERTISED_LISTENERS"
                raise EnvironmentRefused("KAFKA_ADVERTISED_PORT", "advertised.port", allowed)
        elif listed:
            by = self.variables[min(listed)]
            self.warnings.append(f"{variable} has no effect, because {by} is set")
        else:
            bound = self._environment.get("KAFKA_HOST_NAME", "")
            self._set("listeners", f"PLAINTEXT://{bound}:{own_port}", variable)
            self._set("advertised.listeners", f"PLAINTEXT://{host}:{port}", variable)

    def _port(self, variable: str) -> str:
        """The port of a variable; empty where it is not set, or set for a link of containers."""
        text = self._environment.get(variable, "").strip()
        if text.startswith("tcp://"):
            return ""
        if text and not (text.isascii() and text.isdecimal() and len(text) <= 5):
            raise EnvironmentRefused(variable, "port", f"expected a port, not {text[:100]!r}")
        return text

    def check_plaintext(self) -> None:
        """Bitnami's ALLOW_PLAINTEXT_LISTENER: `no` refuses listeners without encryption."""
        variable = "ALLOW_PLAINTEXT_LISTENER"
        if self._environment.get(variable, "yes").lower() not in ("no", "false", "0"):
            return
        listed = self.settings.get("listeners") or self.settings.get("advertised.listeners", "")
        protocols = dict(
            pair.strip().split(":", 1)
            for pair in self.settings.get("listener.security.protocol.map", "").split(",")
            if ":" in pair
        )
        names = [item.strip().partition("://")[0] for item in listed.split(",")]
        if any(protocols.get(name, name or "PLAINTEXT") == "PLAINTEXT" for name in names):
            allowed = "a listener is PLAINTEXT, which needs yes"
            raise EnvironmentRefused(variable, "listeners", allowed)

    def cluster_id(self) -> str | None:
        """The id of the cluster, by whichever of its variables.

        raises  EnvironmentRefused when they differ
        """
        given = {
            name: self._environment[name] for name in CLUSTER_IDS if self._environment.get(name)
        }
        if len(set(given.values())) > 1:
            allowed = f"{' and '.join(given)} have different values; remove one"
            raise EnvironmentRefused(next(iter(given)), "cluster.id", allowed)
        return next(iter(given.values()), None)

    def log_level(self) -> str:
        """raises  EnvironmentRefused"""
        variable = "KAFKA_LOG4J_ROOT_LOGLEVEL"
        text = self._environment.get(variable) or "INFO"
        if text.upper() not in LOG_LEVELS:
            allowed = f"expected one of {', '.join(LOG_LEVELS)}, not {text[:100]!r}"
            raise EnvironmentRefused(variable, "log4j.rootLogger", allowed)
        return LOG_LEVELS[text.upper()]
