"""The entries of DescribeConfigs for a topic, a broker, and the default for all brokers.

Every entry contains the source of its value and its synonyms, by descending precedence.  Synonyms
before the first one with the entry's own name are left out, as in Kafka's ConfigHelper: with
log.retention.hours set and log.retention.ms not set, retention.ms has no synonyms, and its source
is the default although its value is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from itertools import dropwhile
from typing import Final, NamedTuple

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.definitions import BROKER, TOPIC, broker_definition, is_dynamic
from odradek.broker.settings.dynamic import is_hidden
from odradek.broker.settings.synonyms import TOPIC_SYNONYMS, all_synonyms
from odradek.broker.settings.topic_config import topic_values
from odradek.broker.settings.types import ConfigType, Definition, value_text

UNKNOWN_TYPE: Final = 0

TYPE_NUMBERS: Final = {config_type: number for number, config_type in enumerate(ConfigType, 1)}
"""The numbers of the protocol: 1 boolean, 2 string, …, 9 password."""


class ConfigSource(IntEnum):
    """The source of a value."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class Synonym(NamedTuple):
    """A value in force, or one of lower precedence."""

    name: str
    value: str | None
    """None: hidden."""
    source: ConfigSource


class DescribedConfig(NamedTuple):
    name: str
    value: str | None
    """None: not set, or hidden."""
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    config_type: int
    documentation: str | None


def describe_topic(
    settings: BrokerSettings, overrides: Mapping[str, str], requested: Collection[str] | None
) -> Iterator[DescribedConfig]:
    """All settings of a topic, or the requested ones, sorted by name; each is made when asked for.

    overrides  as stored; an unknown name has no value in the result
    requested  None or empty: all
    """
    values = topic_values(settings, overrides)
    names = chosen([*TOPIC, *(name for name in overrides if name not in TOPIC)], requested)

    def described(name: str) -> DescribedConfig:
        definition = TOPIC.get(name)
        hidden = definition is None or definition.is_sensitive
        value = None if hidden else value_text(values[name])
        synonyms: tuple[Synonym, ...] = ()
        if name in overrides:
            synonyms = (Synonym(name, value, ConfigSource.TOPIC_CONFIG),)
        if name in TOPIC_SYNONYMS:
            synonyms += broker_synonyms(settings, TOPIC_SYNONYMS[name], hidden=hidden)
        return entry(name, value, synonyms, definition, is_read_only=False)

    return map(described, names)


def describe_broker(
    settings: BrokerSettings, requested: Collection[str] | None
) -> Iterator[DescribedConfig]:
    """All settings of this broker, or the requested ones, as `describe_topic`.

    Internal ones only if they are set.
    """
    shown = {name for name, definition in BROKER.items() if not definition.is_internal}

    def described(name: str) -> DescribedConfig:
        hidden = is_hidden(name)
        synonyms = broker_synonyms(settings, name, hidden=hidden)
        if hidden:
            value = None
        elif name in shown:
            value = value_text(settings.raw[name])
        else:
            value = settings.written[name]
        return broker_entry(name, value, synonyms)

    return map(described, chosen(shown.union(settings.written), requested))


def describe_default(
    settings: BrokerSettings, requested: Collection[str] | None
) -> Iterator[DescribedConfig]:
    """The dynamic settings for all brokers, as `describe_topic`."""

    def described(name: str) -> DescribedConfig:
        hidden = is_hidden(name)
        synonyms = tuple(
            synonym
            for synonym in broker_synonyms(settings, name, hidden=hidden)
            if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        )
        value = None if hidden else settings.dynamic.default[name]
        return broker_entry(name, value, synonyms)

    return map(described, chosen(settings.dynamic.default, requested))


def chosen(names: Iterable[str], requested: Collection[str] | None) -> list[str]:
    """The requested names, sorted."""
    if not requested:
        return sorted(names)
    names_requested = frozenset(requested)
    return sorted(name for name in names if name in names_requested)


def broker_entry(name: str, value: str | None, synonyms: tuple[Synonym, ...]) -> DescribedConfig:
    definition = broker_definition(name)
    described = entry(name, value, synonyms, definition, is_read_only=not is_dynamic(name))
    # A name with a listener's prefix has the type of the bare one, but no text of its own.
    return described if name in BROKER else described._replace(documentation=None)


def entry(
    name: str,
    value: str | None,
    synonyms: tuple[Synonym, ...],
    definition: Definition | None,
    *,
    is_read_only: bool,
) -> DescribedConfig:
    """The entry of a setting; its source is that of the first synonym."""
    return DescribedConfig(
        name,
        value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_read_only,
        definition is None or definition.is_sensitive,
        synonyms,
        UNKNOWN_TYPE if definition is None else TYPE_NUMBERS[definition.type],
        None if definition is None else definition.documentation,
    )


def broker_synonyms(settings: BrokerSettings, name: str, *, hidden: bool) -> tuple[Synonym, ...]:
    """The values of a broker's setting and its synonyms at each level, by descending precedence."""
    names = all_synonyms(name)
    synonyms = [
        Synonym(synonym, None if hidden else texts[synonym], source)
        for texts, source in (
            (settings.dynamic.broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (settings.dynamic.default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (settings.static, ConfigSource.STATIC_BROKER_CONFIG),
            (default_texts(), ConfigSource.DEFAULT_CONFIG),
        )
        for synonym in names
        if synonym in texts
    ]
    return tuple(dropwhile(lambda synonym: synonym.name != name, synonyms))


@lru_cache(maxsize=1)
def default_texts() -> dict[str, str]:
    """The defaults of a broker as text, without settings that have none."""
    texts = {name: value_text(definition.default) for name, definition in BROKER.items()}
    return {name: text for name, text in texts.items() if text is not None}


def describe_loggers(
    levels: Mapping[str, str], requested: Collection[str] | None
) -> Iterator[DescribedConfig]:
    """The levels of all loggers, or of the requested ones, sorted by name (KIP-412)."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return (
        DescribedConfig(name, levels[name], source, False, False, (), UNKNOWN_TYPE, "")
        for name in chosen(levels, requested)
    )
