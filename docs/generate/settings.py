"""The reference of settings, from the definitions that the broker itself reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from docs.generate.markdown import table
from odradek.broker.settings.definitions import tables
from odradek.broker.settings.rules import rule_text
from odradek.broker.settings.types import Definition, UpdateMode, value_text

INTRODUCTION: Final = """\
# Settings

The names, types, defaults and bounds are those of Apache Kafka 3.9 in ZooKeeper mode: a
`server.properties` of Apache Kafka starts Odradek as it is. `odradek start FILE --override
KEY=VALUE` sets one value on the command line. Unknown names are logged and have no effect; an
invalid value stops the start with one line that names setting, value and bounds.

This page is generated from the definitions in `broker/settings/definitions`. A few settings are
accepted and have no effect: [Not done](not-done.md) lists them.
"""
UPDATES: Final = {
    UpdateMode.READ_ONLY: "at a restart",
    UpdateMode.PER_BROKER: "per broker",
    UpdateMode.CLUSTER_WIDE: "cluster-wide",
}
TITLES: Final = {
    "network": "Listeners, sockets, requests",
    "log": "Logs",
    "replication": "Replication",
    "groups": "Consumer groups",
    "transactions": "Transactions",
    "security": "Security",
    "tls": "TLS",
    "quotas": "Quotas",
    "coordination": "Coordination",
    "tiered": "Tiered storage",
}


def render() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for name, title in TITLES.items():
        definitions: Iterable[Definition] = getattr(tables, name).TABLE
        parts.append(f"## {title}\n\n{_table(definitions)}")
    parts.append(
        "## Dynamic only\n\nSet with IncrementalAlterConfigs while the broker runs.\n\n"
        + _table(tables.DYNAMIC_ONLY.values())
    )
    parts.append(
        "## Topics\n\nA topic's own value comes before the broker's default.\n\n"
        + _table(tables.TOPIC.values())
    )
    return "\n".join(parts)


def documented(page: str, definitions: Mapping[str, Definition]) -> set[str]:
    """Those of the definitions that have a row on the page."""
    return {name for name in definitions if f"| `{name}` |" in page}


def _table(definitions: Iterable[Definition]) -> str:
    shown = sorted((row for row in definitions if not row.is_internal), key=lambda row: row.name)
    unique = [next(rows) for _, rows in groupby(shown, key=lambda row: row.name)]
    heads = ("setting", "type", "default", "allowed", "changes", "meaning")
    return table(heads, map(_row, unique))


def _row(definition: Definition) -> tuple[str, ...]:
    default = value_text(definition.default)
    return (
        f"`{definition.name}`",
        definition.type.lower() + (f" ({definition.unit})" if definition.unit else ""),
        "not set" if default is None else f"`{default}`" if default else "empty",
        "" if definition.rule is None else f"`{rule_text(definition.rule)}`",
        UPDATES[definition.update_mode],
        definition.documentation,
    )
