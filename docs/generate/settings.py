"""The reference of settings, from the definitions that the broker itself reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.broker.settings import definitions
from odradek.broker.settings.rules import rule_text
from odradek.broker.settings.types import Definition, UpdateMode, value_text

INTRODUCTION: Final = """\
# Settings

The names, types, defaults and bounds are those of Apache Kafka 3.9 in ZooKeeper mode: a
`server.properties` of Apache Kafka starts Odradek as it is. `odradek start FILE --override
KEY=VALUE` sets one value on the command line. Unknown names are logged and have no effect; an
invalid value stops the start with one line that names setting, value and bounds.

This page is generated from the definitions in `broker/settings/definitions.tsv`. A few settings are
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
    """The page: a heading with an anchor for each setting, by which the search finds it."""
    taken: set[str] = set()
    parts = [INTRODUCTION]
    for name, title in TITLES.items():
        table = definitions.SUBJECTS[name].values()
        parts.append(f"## {title}\n\n{_entries(table, taken)}")
    parts.append(
        "## Dynamic only\n\nSet with IncrementalAlterConfigs while the broker runs.\n\n"
        + _entries(definitions.DYNAMIC_ONLY.values(), taken)
    )
    parts.append(
        "## Topics\n\nA topic's own value comes before the broker's default.\n\n"
        + _entries(definitions.TOPIC.values(), taken)
    )
    return "\n".join(parts)


def documented(page: str, table: Mapping[str, Definition]) -> set[str]:
    """Names of the settings that have an entry on the page."""
    return {name for name in table if f"### `{name}` {{: #" in page}


def _entries(table: Iterable[Definition], taken: set[str]) -> str:
    """Entries in the order of names.

    taken  anchors of the page; those of the entries are added
    """
    shown = sorted((row for row in table if not row.is_internal), key=lambda row: row.name)
    return "\n".join(_entry(row, taken) for row in shown)


def _entry(definition: Definition, taken: set[str]) -> str:
    anchor = definition.name if definition.name not in taken else f"topic-{definition.name}"
    assert anchor not in taken, anchor
    taken.add(anchor)
    default = value_text(definition.default)
    facts = [
        definition.type.lower() + (f" ({definition.unit})" if definition.unit else ""),
        "not set" if default is None else f"default `{default}`" if default else "empty by default",
        f"changes {UPDATES[definition.update_mode]}",
    ]
    if definition.rule is not None:
        facts.insert(2, f"allowed `{rule_text(definition.rule)}`")
    heading = f"### `{definition.name}` {{: #{anchor} }}"
    return f"{heading}\n\n{definition.documentation}\n\n{' · '.join(facts)}\n{{: .facts }}\n"
