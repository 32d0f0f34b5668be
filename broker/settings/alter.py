"""Decides what AlterConfigs and IncrementalAlterConfigs store.

Nothing is written here: a decision is the settings to be stored for a topic, for this broker or for
all brokers, or the error of that resource.
Source: KIP-133, KIP-226, KIP-339, KIP-412; Kafka's ConfigAdminManager, ZkAdminManager,
RuntimeLoggerManager.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.definitions import BROKER, TOPIC
from odradek.broker.settings.dynamic import (
    DEFAULT_ENTITY,
    THREAD_COUNTS,
    DynamicSettings,
    check_names_and_values,
    check_thread_count,
)
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.password_encoder import encoding, is_password
from odradek.broker.settings.topic_config import check_overrides
from odradek.broker.settings.types import (
    LIST,
    Definition,
    InvalidValueError,
    SettingsError,
    value_text,
)
from odradek.controller.image.image import HASHED_PARTITION_COUNT
from odradek.protocol.errors import BrokerError, ErrorCode


class ConfigResourceType(IntEnum):
    """The types of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """The operations on one setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One setting of an alter request."""

    name: str
    value: str | None
    operation: int = ConfigOperation.SET
    """A `ConfigOperation`, or any other number that a client sent."""


class LoggerChange(NamedTuple):
    """A new level of a logger."""

    name: str
    level: str | None
    """None: that of its parent."""


class StoredConfigs(NamedTuple):
    """All settings that an entity will have."""

    entity_type: str
    """`topics` or `brokers`."""
    entity_name: str
    """A topic, a broker's id, or `<default>`."""
    settings: dict[str, str]


ConfigDecision = StoredConfigs | tuple[LoggerChange, ...]

INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
LOG_LEVELS: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
ROOT_LOGGER: Final = "root"
FIXED_LISTENERS: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map")
"""Settings that Kafka changes while it runs, and that take a restart here."""
CONNECTION_LIMITS: Final = ("max.connections", "max.connection.creation.rate")
"""Limits that take effect for all listeners together, and for each without its own one."""
VALUE_BYTES_MAX: Final = 2**15 - 1
"""The bound of a string of the protocol."""
CHANGES_MAX: Final = 1_000
"""The settings that a resource may have, 3 us each: each description and change walks all.
There are 300 settings, but a broker may have others.  Differs from Kafka: it has no bound."""


def invalid_request(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)


def check_changes(changes: Sequence[ConfigChange]) -> None:
    """Refuse a setting that is listed twice or has no value, and too many of them.

    raises  BrokerError(INVALID_REQUEST)
    """
    if len(changes) > CHANGES_MAX:
        raise invalid_request(f"A request may change {CHANGES_MAX} configs of a resource at most")
    names = [change.name for change in changes]
    if len(dict.fromkeys(names)) != len(names):
        raise invalid_request("Error due to duplicate config keys")
    empty = [
        change.name
        for change in changes
        if change.value is None and change.operation != ConfigOperation.DELETE
    ]
    if empty:
        raise invalid_request(f"Null value not supported for : {', '.join(empty)}")


def check_broker_name(name: str, broker_id: int) -> None:
    """Refuse the settings of another broker.

    raises  BrokerError(INVALID_REQUEST)
    """
    if not INTEGER.fullmatch(name):
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    if int(name) != broker_id:
        raise invalid_request(f"Unexpected broker id, expected {broker_id}, but received {name}")


def applied(
    stored: Mapping[str, str],
    changes: Iterable[ConfigChange],
    definitions: Mapping[str, Definition],
) -> dict[str, str]:
    """Stored settings after the operations of IncrementalAlterConfigs.

    raises  BrokerError: INVALID_CONFIG for APPEND and SUBTRACT on a setting that is not a list,
            or is one of more than `VALUE_BYTES_MAX` then,
            UNKNOWN_SERVER_ERROR for them on an unknown name, and for other operations;
            INVALID_REQUEST for more settings than `CHANGES_MAX`
    """
    settings = dict(stored)
    for name, value, operation in changes:
        if operation == ConfigOperation.DELETE:
            settings.pop(name, None)
            continue
        assert value is not None, "changes without a value were refused before"
        if operation == ConfigOperation.SET:
            settings[name] = value
            continue
        definition = definitions.get(name)
        if definition is None or operation not in (
            ConfigOperation.APPEND,
            ConfigOperation.SUBTRACT,
        ):
            # Kafka fails with an unexpected exception in both cases, and clients see this error.
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if definition.type is not LIST:
            verb = "append" if operation == ConfigOperation.APPEND else "subtract"
            message = f"Config value {verb} is not allowed for config key: {name}"
            raise BrokerError(ErrorCode.INVALID_CONFIG, message)
        before = items(settings.get(name, value_text(definition.default) or ""))
        present = dict.fromkeys(before)
        text = ",".join(
            [*before, *(item for item in items(value) if item not in present)]
            if operation == ConfigOperation.APPEND
            else without(before, items(value))
        )
        if len(text.encode()) > VALUE_BYTES_MAX:
            # Differs from Kafka: it stores the value, and fails to describe it.
            message = f"The value of config {name} would have more than {VALUE_BYTES_MAX} bytes"
            raise BrokerError(ErrorCode.INVALID_CONFIG, message)
        settings[name] = text
    if len(settings) > max(CHANGES_MAX, len(stored)):
        raise invalid_request(f"A resource may have {CHANGES_MAX} configs at most")
    return settings


def items(text: str) -> list[str]:
    """The texts between commas, unchanged; empty ones at the end are dropped."""
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def without(before: list[str], removed: list[str]) -> list[str]:
    """`before` without `removed`, each removed once."""
    counts = Counter(removed)
    left = []
    for item in before:
        if counts[item]:
            counts[item] -= 1
        else:
            left.append(item)
    return left


def decide_topic(
    settings: BrokerSettings,
    name: str,
    stored: Mapping[str, str] | None,
    changes: Sequence[ConfigChange],
    *,
    replaces: bool,
) -> dict[str, str]:
    """The new overrides of a topic.

    stored    None: there is no such topic
    replaces  the changes replace everything that is stored (AlterConfigs)
    raises    BrokerError
    """
    if not name:
        raise invalid_request("Default topic resources are not allowed.")
    kept = {key: text for key, text in (stored or {}).items() if key == HASHED_PARTITION_COUNT}
    former = {key: text for key, text in (stored or {}).items() if key not in kept}
    overrides = applied({} if replaces else former, changes, TOPIC)
    if stored is None:
        message = f"The topic '{name}' does not exist."
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    try:
        check_overrides(settings, overrides)
    except SettingsError as error:
        resource = f"ConfigResource(type=TOPIC, name='{name}')"
        message = f"Invalid config value for resource {resource}: {error}"
        raise BrokerError(ErrorCode.INVALID_CONFIG, message) from error
    return {**overrides, **kept}


def decide_broker(
    settings: BrokerSettings, changes: Sequence[ConfigChange], *, per_broker: bool, replaces: bool
) -> dict[str, str]:
    """The new dynamic settings of this broker, or of all brokers.

    replaces  the changes replace everything that is stored (AlterConfigs)
    raises    BrokerError
    """
    for change in changes:
        if change.operation not in tuple(ConfigOperation):
            raise invalid_request(f"Unknown operations type {change.operation}")
    stored = settings.dynamic.broker if per_broker else settings.dynamic.default
    texts = applied({} if replaces else stored, changes, BROKER)
    try:
        check_names_and_values(texts, per_broker=per_broker)
        if per_broker:
            dynamic = DynamicSettings(settings.dynamic.default, texts)
        else:
            dynamic = DynamicSettings(texts, settings.dynamic.broker)
        check_step(settings, make_settings(settings.static, dynamic))
    except SettingsError as error:
        raise invalid_request(str(error)) from error
    return texts


def check_step(before: BrokerSettings, after: BrokerSettings) -> None:
    """Refuse a change that a running broker cannot apply.

    raises  InvalidValueError
    """
    was: Mapping[str, Any] = before.raw
    becomes: Mapping[str, Any] = after.raw
    for name in THREAD_COUNTS:
        check_thread_count(name, was[name], becomes[name])
    for limit in CONNECTION_LIMITS:
        for listener in after.listeners:
            if (
                after.of_listener(listener.name, limit)
                == 0
                != before.of_listener(listener.name, limit)
            ):
                allowed = "Value must be at least 1 for each listener while the broker runs"
                raise InvalidValueError(limit, 0, allowed)
    for name in FIXED_LISTENERS:
        # Differs from Kafka: it binds and unbinds listeners while it runs.  A stored value that is
        # not in force may be deleted.
        if name in after.dynamic.broker and becomes[name] != was[name]:
            allowed = "it cannot change while the broker runs: set it in the settings file, restart"
            raise InvalidValueError(name, becomes[name], allowed)
    for name, local, whole in (
        ("ms", becomes["log.local.retention.ms"], after.log_retention_ms),
        ("bytes", becomes["log.local.retention.bytes"], after.log_retention_bytes),
    ):
        key = f"log.local.retention.{name}"
        if whole <= -1 or local == -2:
            continue
        if local == -1:
            allowed = f"Value must not be -1 as log.retention.{name} value is set as {whole}."
            raise InvalidValueError(key, local, allowed)
        if local > whole:
            allowed = f"Value must not be more than log.retention.{name} property value: {whole}"
            raise InvalidValueError(key, local, allowed)


def check_encodable(settings: BrokerSettings, decision: ConfigDecision, name: str) -> None:
    """Refuse to store passwords where there is no secret to encode them with.

    name    that of the resource
    raises  BrokerError(INVALID_CONFIG)
    """
    if (
        isinstance(decision, StoredConfigs)
        and decision.entity_type == "brokers"
        and encoding(settings.raw) is None
        and any(map(is_password, decision.settings))
    ):
        message = (
            f"Invalid config value for resource ConfigResource(type=BROKER, name='{name}'): "
            "Password encoder secret not configured"
        )
        raise BrokerError(ErrorCode.INVALID_CONFIG, message)


def decide_loggers(changes: Sequence[ConfigChange], loggers: Collection[str]) -> list[LoggerChange]:
    """The new levels of loggers (KIP-412).

    loggers  the names of all loggers
    raises   BrokerError
    """
    decided: list[LoggerChange] = []
    for logger, level, operation in changes:
        if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            is_operation = operation in tuple(ConfigOperation)
            verb = (
                ConfigOperation(operation).name
                if is_operation
                else f"Unknown operation type {operation}"
            )
            what = f"{verb} operation" if is_operation else verb
            raise invalid_request(f"{what} is not allowed for the BROKER_LOGGER resource")
        if logger not in loggers:
            message = f"Logger {logger} does not exist!"
            raise BrokerError(ErrorCode.INVALID_CONFIG, message)
        if operation == ConfigOperation.DELETE:
            if logger == ROOT_LOGGER:
                raise invalid_request("Removing the log level of the root logger is not allowed")
            decided.append(LoggerChange(logger, None))
        elif level in LOG_LEVELS:
            decided.append(LoggerChange(logger, level))
        else:
            message = (
                f"Cannot set the log level of {logger} to {level} as it is not a supported log "
                f"level. Valid log levels are {', '.join(LOG_LEVELS)}"
            )
            raise BrokerError(ErrorCode.INVALID_CONFIG, message)
    return decided


class Requested(NamedTuple):
    """One resource of an alter request."""

    resource_type: int
    name: str
    changes: tuple[ConfigChange, ...]
    replaces: bool
    """The changes replace everything that is stored (AlterConfigs)."""


def decide(
    settings: BrokerSettings,
    requested: Requested,
    *,
    broker_id: int,
    overrides_of: Callable[[str], Mapping[str, str] | None],
    loggers: Collection[str],
) -> ConfigDecision:
    """Decide what is stored for one resource, or which loggers change.

    broker_id     of this broker; broker.id may be -1
    overrides_of  a topic's stored overrides, None where there is no such topic
    loggers       the names of all loggers
    raises        BrokerError
    """
    resource_type, name, changes, replaces = requested
    check_changes(changes)
    if resource_type == ConfigResourceType.TOPIC:
        overrides = decide_topic(settings, name, overrides_of(name), changes, replaces=replaces)
        return StoredConfigs("topics", name, overrides)
    if resource_type == ConfigResourceType.BROKER:
        if name:
            check_broker_name(name, broker_id)
        texts = decide_broker(settings, changes, per_broker=bool(name), replaces=replaces)
        return StoredConfigs("brokers", str(broker_id) if name else DEFAULT_ENTITY, texts)
    if resource_type == ConfigResourceType.BROKER_LOGGER and not replaces:
        check_broker_name(name, broker_id)
        return tuple(decide_loggers(changes, loggers))
    if resource_type == ConfigResourceType.CLIENT_METRICS:
        raise invalid_request(
            "AlterConfigs is only supported for topics and brokers, but resource type is "
            "CLIENT_METRICS"
        )
    raise invalid_request(f"Unknown resource type {resource_type}")
