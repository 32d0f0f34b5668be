"""What AlterConfigs and IncrementalAlterConfigs make of stored settings.

Nothing is written here: a decision gives the settings that are to be stored for a topic, for this
broker or for all brokers, or raises the error of that resource.
Source: KIP-133, KIP-226, KIP-339, KIP-412; Kafka's ConfigAdminManager, ZkAdminManager,
RuntimeLoggerManager.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.definitions.tables import BROKER, TOPIC, broker_definition
from odradek.broker.settings.dynamic import (
    THREAD_COUNTS,
    DynamicSettings,
    check_names_and_values,
    check_thread_count,
)
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.topic_config import check_overrides
from odradek.broker.settings.types import (
    LIST,
    Definition,
    InvalidValueError,
    SettingsError,
    value_text,
)
from odradek.protocol.errors import BrokerError, ErrorCode


class ResourceType(IntEnum):
    """What has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """What is done to one setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One setting of a request."""

    name: str
    value: str | None
    operation: int = Operation.SET
    """Of `Operation`, or whatever else a client sent."""


class LoggerChange(NamedTuple):
    """The level that a logger is to have."""

    name: str
    level: str | None
    """None: as the logger above it."""


class Stored(NamedTuple):
    """Settings to be stored, all that the entity is to have."""

    entity_type: str
    """`topics` or `brokers`."""
    entity_name: str
    """A topic, a broker's number, or `<default>`."""
    settings: dict[str, str]


Decision = Stored | tuple[LoggerChange, ...]

DEFAULT_ENTITY: Final = "<default>"
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
LOG_LEVELS: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
ROOT_LOGGER: Final = "root"


def invalid_request(message: str) -> BrokerError:
    """The commonest error here."""
    return BrokerError(ErrorCode.INVALID_REQUEST, message)


def repeated(resources: Sequence[tuple[int, str]]) -> list[bool]:
    """Whether each (type, name) stands in the request more than once."""
    counts: dict[tuple[int, str], int] = {}
    for resource in resources:
        counts[resource] = counts.get(resource, 0) + 1
    return [counts[resource] > 1 for resource in resources]


def check_changes(changes: Sequence[Change]) -> None:
    """No setting twice, no setting without a value.

    raises  BrokerError(INVALID_REQUEST)
    """
    names = [change.name for change in changes]
    if len(dict.fromkeys(names)) != len(names):
        raise invalid_request("Error due to duplicate config keys")
    empty = [
        change.name
        for change in changes
        if change.value is None and change.operation != Operation.DELETE
    ]
    if empty:
        raise invalid_request(f"Null value not supported for : {', '.join(empty)}")


def check_broker_name(name: str, broker_id: int) -> None:
    """A broker changes its own settings only.

    raises  BrokerError(INVALID_REQUEST)
    """
    if not INTEGER.fullmatch(name):
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    if int(name) != broker_id:
        raise invalid_request(f"Unexpected broker id, expected {broker_id}, but received {name}")


def applied(
    stored: Mapping[str, str], changes: Iterable[Change], definitions: Mapping[str, Definition]
) -> dict[str, str]:
    """Stored settings after the operations of IncrementalAlterConfigs.

    raises  BrokerError: INVALID_CONFIG for APPEND and SUBTRACT on what is no list,
            UNKNOWN_SERVER_ERROR for them on a name that is none, and for other operations
    """
    settings = dict(stored)
    for name, value, operation in changes:
        if operation == Operation.DELETE:
            settings.pop(name, None)
            continue
        assert value is not None, "changes without a value were refused before"
        if operation == Operation.SET:
            settings[name] = value
            continue
        definition = definitions.get(name)
        if definition is None or operation not in (Operation.APPEND, Operation.SUBTRACT):
            # A slip of Kafka's that clients see: neither is foreseen there.
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if definition.type is not LIST:
            verb = "append" if operation == Operation.APPEND else "subtract"
            message = f"Config value {verb} is not allowed for config key: {name}"
            raise BrokerError(ErrorCode.INVALID_CONFIG, message)
        before = items(settings.get(name, value_text(definition.default) or ""))
        settings[name] = ",".join(
            [*before, *(item for item in items(value) if item not in before)]
            if operation == Operation.APPEND
            else without(before, items(value))
        )
    return settings


def items(text: str) -> list[str]:
    """What stands between commas, as it stands there; empty ones at the end are dropped."""
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def without(before: list[str], taken: list[str]) -> list[str]:
    """`before` less `taken`, each one taken once."""
    left = list(before)
    for item in taken:
        if item in left:
            left.remove(item)
    return left


def decide_topic(
    settings: BrokerSettings,
    name: str,
    stored: Mapping[str, str] | None,
    changes: Sequence[Change],
    *,
    replaces: bool,
) -> dict[str, str]:
    """What a topic's overrides are to be.

    stored    None: there is no such topic
    replaces  the changes are all that is to be left (AlterConfigs)
    raises    BrokerError
    """
    if not name:
        raise invalid_request("Default topic resources are not allowed.")
    overrides = applied({} if replaces else stored or {}, changes, TOPIC)
    if stored is None:
        message = f"The topic '{name}' does not exist."
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    try:
        check_overrides(settings, overrides)
    except SettingsError as error:
        resource = f"ConfigResource(type=TOPIC, name='{name}')"
        message = f"Invalid config value for resource {resource}: {error}"
        raise BrokerError(ErrorCode.INVALID_CONFIG, message) from error
    return overrides


def decide_broker(
    settings: BrokerSettings, changes: Sequence[Change], *, per_broker: bool, replaces: bool
) -> dict[str, str]:
    """What the dynamic settings of this broker, or else of all brokers, are to be.

    replaces  the changes are all that is to be left (AlterConfigs)
    raises    BrokerError
    """
    for change in changes:
        if change.operation not in tuple(Operation):
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
    check_storable(texts)
    return texts


def check_step(before: BrokerSettings, after: BrokerSettings) -> None:
    """Whether a running broker can go from one to the other.

    raises  InvalidValueError
    """
    was: Mapping[str, Any] = before.raw
    becomes: Mapping[str, Any] = after.raw
    for name in THREAD_COUNTS:
        check_thread_count(name, was[name], becomes[name])
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


def check_storable(texts: Mapping[str, str]) -> None:
    """Secrets are stored encoded or not at all, and there is no encoder.

    raises  BrokerError(INVALID_CONFIG)
    """
    for name in texts:
        definition = broker_definition(name)
        if definition is not None and definition.is_sensitive:
            # Differs from Kafka: password.encoder.secret does not help; nothing here encodes.
            message = f"{name} cannot be stored: dynamic passwords are not served"
            raise BrokerError(ErrorCode.INVALID_CONFIG, message)


def decide_loggers(changes: Sequence[Change], loggers: Collection[str]) -> list[LoggerChange]:
    """Which loggers are to have which level (KIP-412).

    loggers  the names of those that are there
    raises   BrokerError
    """
    decided: list[LoggerChange] = []
    for logger, level, operation in changes:
        if operation not in (Operation.SET, Operation.DELETE):
            known = operation in tuple(Operation)
            verb = Operation(operation).name if known else f"Unknown operation type {operation}"
            what = f"{verb} operation" if known else verb
            raise invalid_request(f"{what} is not allowed for the BROKER_LOGGER resource")
        if logger not in loggers:
            message = f"Logger {logger} does not exist!"
            raise BrokerError(ErrorCode.INVALID_CONFIG, message)
        if operation == Operation.DELETE:
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
    """What a request says of one resource."""

    resource_type: int
    name: str
    changes: tuple[Change, ...]
    replaces: bool
    """The changes are all that is to be left (AlterConfigs)."""


def decide(
    settings: BrokerSettings,
    requested: Requested,
    *,
    broker_id: int,
    overrides_of: Callable[[str], Mapping[str, str] | None],
    loggers: Collection[str],
) -> Decision:
    """What is to be stored for one resource, or which loggers change.

    broker_id     this broker's, which may have been drawn at its start
    overrides_of  a topic's stored overrides, None where there is no such topic
    loggers       names of the loggers that are there
    raises        BrokerError
    """
    resource_type, name, changes, replaces = requested
    check_changes(changes)
    if resource_type == ResourceType.TOPIC:
        overrides = decide_topic(settings, name, overrides_of(name), changes, replaces=replaces)
        return Stored("topics", name, overrides)
    if resource_type == ResourceType.BROKER:
        if name:
            check_broker_name(name, broker_id)
        texts = decide_broker(settings, changes, per_broker=bool(name), replaces=replaces)
        return Stored("brokers", str(broker_id) if name else DEFAULT_ENTITY, texts)
    if resource_type == ResourceType.BROKER_LOGGER and not replaces:
        check_broker_name(name, broker_id)
        return tuple(decide_loggers(changes, loggers))
    if resource_type == ResourceType.CLIENT_METRICS:
        raise invalid_request(
            "AlterConfigs is only supported for topics and brokers, but resource type is "
            "CLIENT_METRICS"
        )
    raise invalid_request(f"Unknown resource type {resource_type}")
