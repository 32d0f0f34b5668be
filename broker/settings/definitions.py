"""All settings of Kafka 3.9 by name: a broker's, those that are only dynamic, and a topic's.

They are the rows of definitions.tsv.  Its columns: subject; name; type; default, `-` where there is
none; what is allowed, as `rule_text` formats it; importance; when a broker's setting may change;
`internal` where DescribeConfigs does not show it; meaning.
Source: Kafka 3.9, KafkaConfig, DynamicConfig, LogConfig.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from odradek.broker.settings.rules import Value, parse_rule
from odradek.broker.settings.types import (
    READ_ONLY,
    ConfigType,
    Definition,
    Importance,
    UpdateMode,
    split_list,
)

_NOT_SET: Final = "-"
_FROM_TEXT: Final[Mapping[ConfigType, Callable[[str], Value]]] = {
    ConfigType.BOOLEAN: "true".__eq__,
    **dict.fromkeys((ConfigType.INT, ConfigType.SHORT, ConfigType.LONG), int),
    ConfigType.DOUBLE: float,
    ConfigType.LIST: split_list,
}
"""How a default is read; other types are texts."""


# Differs from Kafka 3.9, as Kafka 4 does: by default the consumer protocol is served, too
# (group.coordinator.rebalance.protocols), and groups may migrate (group.consumer.migration.policy).


def _read_tables() -> dict[str, dict[str, Definition]]:
    """The definitions by subject and name.  Every start reads them, in less than 1 ms."""
    text = Path(__file__).with_name("definitions.tsv").read_text(encoding="utf-8")
    rows = text.splitlines()[1:]
    # A look into a dict costs a third of a call of an enumeration.
    types = {item.value: item for item in ConfigType}
    importances = {item.value: item for item in Importance}
    update_modes = {item.value: item for item in UpdateMode}
    tables: dict[str, dict[str, Definition]] = {}
    for row in rows:
        subject, name, kind, value, rule, importance, changes, internal, meaning = row.split("\t")
        config_type = types[kind]
        default = None if value == _NOT_SET else _FROM_TEXT.get(config_type, str)(value)
        tables.setdefault(subject, {})[name] = Definition(
            name,
            config_type,
            default,
            parse_rule(rule, config_type is ConfigType.LIST),
            importances[importance],
            update_modes[changes],
            meaning,
            bool(internal),
        )
    return tables


_TABLES: Final = _read_tables()

DYNAMIC_ONLY: Final = _TABLES.pop("dynamic")
"""Settings that can be set only while the broker runs."""

TOPIC: Final = _TABLES.pop("topic")
"""Settings that a topic may override."""

SUBJECTS: Final[Mapping[str, Mapping[str, Definition]]] = _TABLES
"""The settings of server.properties, by subject."""

BROKER: Final = {name: row for table in SUBJECTS.values() for name, row in table.items()}
"""The settings of server.properties."""

LISTENER_PREFIX: Final = "listener.name."

MECHANISM_SETTINGS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Settings with a listener and a mechanism as prefix: `listener.name.sasl_ssl.plain.…`."""


def is_dynamic(name: str) -> bool:
    """Whether a broker setting, by its exact name, can change while the broker runs (KIP-226)."""
    definition = BROKER.get(name)
    return definition is not None and definition.update_mode is not READ_ONLY


def without_listener(name: str) -> str | None:
    """`max.connections` for `listener.name.internal.max.connections`; None without the prefix."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    _listener, dot, rest = name[len(LISTENER_PREFIX) :].partition(".")
    return rest if dot else None


def base_name(name: str) -> str:
    """The name without the prefix of a listener, or of a listener and a mechanism."""
    rest = without_listener(name)
    if rest is None:
        return name
    for setting in MECHANISM_SETTINGS:
        if rest.endswith(setting):
            return setting
    return rest


def broker_definition(name: str) -> Definition | None:
    """The definition of a broker's setting, also with a listener's prefix; None if unknown."""
    definition = BROKER.get(name) or DYNAMIC_ONLY.get(name)
    return definition or BROKER.get(base_name(name))
