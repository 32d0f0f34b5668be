"""Makes the settings of a broker: from a file, from texts, and with dynamic settings.

`load_settings` reads a file, `make_settings` parses and checks names and texts, `with_dynamic`
replaces what can change while a broker runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from odradek.bounded_files import read_file, system_error_text
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.checks import check_settings, ineffective_names, unknown_names
from odradek.broker.settings.definitions import BROKER, base_name, broker_definition
from odradek.broker.settings.dynamic import NO_DYNAMIC_SETTINGS, DynamicSettings, overlaid, usable
from odradek.broker.settings.listeners import parse_counts, parse_listeners, parse_protocol_map
from odradek.broker.settings.password_encoder import decoded
from odradek.broker.settings.quorum_config import (
    QuorumConfig,
    quorum_config,
    with_controller_protocols,
)
from odradek.broker.settings.rules import Value
from odradek.broker.settings.types import (
    LONG_MAX,
    InvalidValueError,
    SettingsError,
    parse_value,
    shown_text,
    split_list,
)
from odradek.runtime.java_properties import PropertiesError, parse_properties
from odradek.runtime.own_address import is_own_address

WITHOUT_FILE: Final = MappingProxyType(
    {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "data"}
)
"""The settings of a broker that is started without a file.

Differs from Kafka, whose defaults are every interface and a folder under /tmp: a broker that is
started to try it is not open to the network, and its records survive a restart of the machine.
"""
FILE_BYTES_MAX: Final = 4 << 20
JAVA_OPTIONS: Final = "KAFKA_OPTS"
"""The environment's variable that has the options of Java in Kafka's scripts."""
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


def load_settings(path: str | None, overrides: Sequence[str]) -> BrokerSettings:
    """Read a settings file; the command line's `key=value` takes precedence.

    path    a .properties file; None: `WITHOUT_FILE` and defaults
    raises  SettingsError, whose text is one line
    """
    written: dict[str, str] = {}
    if path is None:
        written.update(WITHOUT_FILE)
    else:
        try:
            written = parse_properties(read_file(path, FILE_BYTES_MAX))
        except (OSError, PropertiesError) as error:
            reason = system_error_text(error) if isinstance(error, OSError) else f"{path}: {error}"
            raise SettingsError(f"Cannot read the settings in {reason}") from error
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"Invalid override {override}: Expected key=value")
        written[name.strip()] = text
        if path is None and name.strip() == "log.dir":
            del written["log.dirs"]
    check_text(written)
    java_options = os.environ.get(JAVA_OPTIONS)
    if java_options:
        # Imported only where such options are set.
        from odradek.broker.settings.sasl import with_jaas_file

        try:
            written = with_jaas_file(
                written,
                java_options,
                lambda path: read_file(path, FILE_BYTES_MAX).decode(errors="replace"),
            )
        except OSError as error:
            reason = system_error_text(error)
            raise SettingsError(f"Cannot read the JAAS file in {JAVA_OPTIONS}: {reason}") from error
    return make_settings(written, warnings=unknown_names(written) + ineffective_names(written))


def check_text(written: Mapping[str, str]) -> None:
    """Refuse what no path, log line or znode can contain.

    raises  InvalidValueError
    """
    for name, text in written.items():
        for part in (name, text):
            if "\0" in part or any("\ud800" <= character <= "\udfff" for character in part):
                allowed = "Expected text without NUL and lone surrogates"
                definition = broker_definition(name)
                is_secret = definition is not None and definition.is_sensitive
                shown = "[hidden]" if is_secret else text
                raise InvalidValueError(shown_text(name), shown, allowed)


def make_settings(
    static: Mapping[str, str],
    dynamic: DynamicSettings = NO_DYNAMIC_SETTINGS,
    *,
    warnings: Iterable[str] = (),
) -> BrokerSettings:
    """Parse and check the settings.

    static    names and texts; unknown names have no effect
    dynamic   must be usable, see `with_dynamic`
    warnings  what the operator should read about where they come from
    raises    InvalidValueError
    """
    static = with_node_id(static)
    written = overlaid(static, dynamic)
    values = {name: definition.default for name, definition in BROKER.items()}
    for name, text in written.items():
        definition = BROKER.get(name)
        if definition is not None:
            values[name] = parse_value(definition, text)
        elif (definition := BROKER.get(base_name(name))) is not None:
            parse_value(definition._replace(name=name), text)
    attributes = effective_values(written, values)
    attributes["static"] = MappingProxyType(static)
    attributes["dynamic"] = dynamic
    attributes["written"] = MappingProxyType(written)
    attributes["warnings"] = tuple(warnings)
    settings = BrokerSettings(values, attributes)
    check_settings(settings)
    return settings


def with_dynamic(settings: BrokerSettings, dynamic: DynamicSettings) -> BrokerSettings:
    """Replace the dynamic settings of a broker.

    A stored setting that cannot be used (written by hand or by a later version) is left out with a
    warning; where settings of the two levels exclude each other, a whole level is.  So a running
    broker keeps running (Kafka: DynamicBrokerConfig.fromPersistentProps).

    dynamic  everything that is stored, passwords encoded; `settings.dynamic` lacks what was left
             out before
    """
    decoded_broker, warnings = decoded(settings.raw, dynamic.broker)
    default, default_warnings = usable(dynamic.default, per_broker=False)
    broker, broker_warnings = usable(decoded_broker, per_broker=True)
    warnings += [*default_warnings, *broker_warnings]
    for tried in (
        DynamicSettings(default, broker),
        DynamicSettings({}, broker),
        DynamicSettings(default, {}),
    ):
        try:
            return make_settings(settings.static, tried, warnings=warnings)
        except InvalidValueError as error:
            warnings.append(f"Dynamic settings are left out: {error}")
    return make_settings(settings.static, warnings=warnings)


def with_node_id(written: Mapping[str, str]) -> dict[str, str]:
    """Set `broker.id` and `node.id` to the same value when one of them is given (KIP-500)."""
    completed = dict(written)
    if "broker.id" in completed:
        completed.setdefault("node.id", completed["broker.id"])
    elif "node.id" in completed:
        completed["broker.id"] = completed["node.id"]
    return completed


def effective_values(written: Mapping[str, str], raw: Mapping[str, Value]) -> dict[str, Any]:
    """The attributes that combine or parse further than the value of one setting.

    raises  InvalidValueError
    """
    values: dict[str, Any] = dict(raw)
    protocols = with_controller_protocols(
        written,
        parse_protocol_map(
            "listener.security.protocol.map", values["listener.security.protocol.map"]
        ),
    )
    quorum = quorum_config(written, values, protocols, is_own_address)
    listeners = parse_listeners("listeners", values["listeners"], protocols, ports_differ=True)
    advertised = values["advertised.listeners"]
    advertised_listeners = (
        listeners
        if advertised is None
        else parse_listeners("advertised.listeners", advertised, protocols, ports_differ=False)
    )
    of_controller = () if quorum is None else quorum.controller_listeners
    folders = values["log.dir"] if values["log.dirs"] is None else values["log.dirs"]
    log_dirs = tuple(os.path.abspath(folder) for folder in split_list(folders) if folder)
    return {
        "quorum": quorum,
        "listeners": tuple(
            listener for listener in listeners if listener.name not in of_controller
        ),
        "advertised_listeners": tuple(
            listener for listener in advertised_listeners if listener.name not in of_controller
        ),
        "inter_broker_listener_name": inter_broker_listener(written, values, protocols),
        "max_connections_per_ip_overrides": parse_counts(
            "max.connections.per.ip.overrides", values["max.connections.per.ip.overrides"]
        ),
        "log_dirs": log_dirs,
        "metadata_log_dir": log_dirs[0] if log_dirs else "",
        **coordination_values(written, values, quorum),
        **log_times(values),
    }


def coordination_values(
    written: Mapping[str, str], values: Mapping[str, Any], quorum: QuorumConfig | None
) -> dict[str, Any]:
    """The attributes that say where the coordination service is, and how long it may be away."""
    session_timeout_ms = values["zookeeper.session.timeout.ms"]
    connection_timeout_ms = values["zookeeper.connection.timeout.ms"]
    if quorum is None:
        return {
            "zookeeper_connect": values["zookeeper.connect"] or None,
            "zookeeper_connection_timeout_ms": session_timeout_ms
            if connection_timeout_ms is None
            else connection_timeout_ms,
        }
    connect = None if quorum.coordinates else quorum.coordinator.address
    attributes = {
        "zookeeper_connect": connect,
        "zookeeper_session_timeout_ms": session_timeout_ms
        if "zookeeper.session.timeout.ms" in written
        else values["broker.session.timeout.ms"],
        "zookeeper_connection_timeout_ms": values["initial.broker.registration.timeout.ms"]
        if connection_timeout_ms is None
        else connection_timeout_ms,
    }
    if values["metadata.log.dir"] is not None:
        attributes["metadata_log_dir"] = os.path.abspath(values["metadata.log.dir"])
    return attributes


def log_times(values: Mapping[str, Any]) -> dict[str, int]:
    """Times of logs that can be given in several units, in milliseconds."""
    retention_ms = values["log.retention.ms"]
    if retention_ms is None and values["log.retention.minutes"] is not None:
        retention_ms = values["log.retention.minutes"] * MINUTE_MS
    if retention_ms is None:
        retention_ms = values["log.retention.hours"] * HOUR_MS
    roll_ms, jitter_ms = values["log.roll.ms"], values["log.roll.jitter.ms"]
    flush_ms = values["log.flush.interval.ms"]
    difference_ms = values["log.message.timestamp.difference.max.ms"]
    before_ms = values["log.message.timestamp.before.max.ms"]
    after_ms = values["log.message.timestamp.after.max.ms"]
    return {
        "log_retention_ms": -1 if retention_ms < 0 else retention_ms,
        "log_roll_ms": values["log.roll.hours"] * HOUR_MS if roll_ms is None else roll_ms,
        "log_roll_jitter_ms": values["log.roll.jitter.hours"] * HOUR_MS
        if jitter_ms is None
        else jitter_ms,
        "log_flush_interval_ms": values["log.flush.scheduler.interval.ms"]
        if flush_ms is None
        else flush_ms,
        # The older setting has effect while its two successors have their defaults.
        "log_message_timestamp_before_max_ms": difference_ms
        if before_ms == LONG_MAX
        else before_ms,
        "log_message_timestamp_after_max_ms": difference_ms if after_ms == LONG_MAX else after_ms,
    }


def inter_broker_listener(
    written: Mapping[str, str], values: Mapping[str, Any], protocols: Mapping[str, str]
) -> str:
    """The name of the listener between brokers; by default that of its security protocol.

    raises  InvalidValueError
    """
    key = "inter.broker.listener.name"
    name = values[key]
    if name is None:
        return str(values["security.inter.broker.protocol"])
    if "security.inter.broker.protocol" in written:
        allowed = "It may not be set together with security.inter.broker.protocol"
        raise InvalidValueError(key, name, allowed)
    if name.upper() not in protocols:
        allowed = "Expected a name out of listener.security.protocol.map"
        raise InvalidValueError(key, name, allowed)
    return str(name.upper())
