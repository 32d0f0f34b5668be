"""Settings that change while a broker runs (KIP-226): for one broker, or as a default for all.

A broker's own value takes precedence over the default for all, and that over server.properties.
Source: Kafka's DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.broker.settings.definitions import (
    BROKER,
    broker_definition,
    is_dynamic,
    without_listener,
)
from odradek.broker.settings.synonyms import unit_synonyms
from odradek.broker.settings.types import PER_BROKER, InvalidValueError, SettingsError, parse_value


class DynamicSettings(NamedTuple):
    """Names and texts of both levels."""

    default: Mapping[str, str]
    """For all brokers."""
    broker: Mapping[str, str]
    """For this one."""


DEFAULT_ENTITY: Final = "<default>"
"""The name of all brokers among the entities of stored settings."""
NO_DYNAMIC_SETTINGS: Final = DynamicSettings(MappingProxyType({}), MappingProxyType({}))

LISTENER_ONLY: Final = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
"""Settings that change only for a listener, by its prefix."""

CLUSTER_WIDE_OF_LISTENER: Final = (
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
)
"""Settings of a listener that may be part of the default for all brokers."""

THREAD_COUNTS: Final = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "log.cleaner.threads",
)
"""Numbers of threads, which one change may at most double or halve."""


def overlaid(static: Mapping[str, str], dynamic: DynamicSettings) -> dict[str, str]:
    """Names and texts in force.  A dynamic setting removes its synonyms in other units."""
    written = dict(static)
    for level in (dynamic.default, dynamic.broker):
        for name, text in level.items():
            for synonym in unit_synonyms(name):
                written.pop(synonym, None)
            written[name] = text
    return written


def check_names_and_values(texts: Mapping[str, str], *, per_broker: bool) -> None:
    """Refuse settings that cannot be dynamic at this level; unknown names pass.

    raises  SettingsError
    """
    fixed = [name for name in texts if name in BROKER and not is_dynamic(name)]
    if fixed:
        raise SettingsError(f"Cannot update these configs dynamically: {', '.join(fixed)}")
    bare = [name for name in texts if name in LISTENER_ONLY]
    if bare:
        raise SettingsError(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: {', '.join(bare)}"
        )
    for name, text in texts.items():
        # Differs from Kafka: a read-only setting with a listener's prefix is checked, too.
        definition = broker_definition(name)
        if definition is not None:
            parse_value(definition, text)
    misplaced = [] if per_broker else [name for name in texts if is_for_one_broker(name)]
    if misplaced:
        raise SettingsError(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"{', '.join(misplaced)}"
        )


def is_for_one_broker(name: str) -> bool:
    """Whether a setting cannot be part of the default for all brokers."""
    rest = without_listener(name)
    if rest is not None:
        return rest not in CLUSTER_WIDE_OF_LISTENER
    definition = BROKER.get(name)
    return definition is not None and definition.update_mode is PER_BROKER


def usable(stored: Mapping[str, str], *, per_broker: bool) -> tuple[dict[str, str], list[str]]:
    """The stored settings of a level that can be used, and a warning for each other one."""
    kept: dict[str, str] = {}
    warnings: list[str] = []
    for name, text in stored.items():
        try:
            check_names_and_values({name: text}, per_broker=per_broker)
        except SettingsError as error:
            warnings.append(f"The dynamic setting {name} is left out: {error}")
        else:
            kept[name] = text
    return kept, warnings


def check_thread_count(name: str, before: int, after: int) -> None:
    """Refuse a change that more than doubles or halves a number of threads.

    raises  InvalidValueError
    """
    if after == before:
        return
    if after < 1:
        raise InvalidValueError(name, after, "value should be at least 1")
    if after < before // 2:
        allowed = f"value should be at least half the current value {before}"
        raise InvalidValueError(name, after, allowed)
    if after > before * 2:
        allowed = f"value should not be greater than double the current value {before}"
        raise InvalidValueError(name, after, allowed)


def is_hidden(name: str) -> bool:
    """Whether the value of a broker's setting is never shown: of passwords and unknown settings."""
    definition = broker_definition(name)
    return definition is None or definition.is_sensitive
