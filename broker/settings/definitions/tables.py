"""All settings of Kafka 3.9 by name: a broker's, those that are only dynamic, and a topic's."""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.definitions import (
    coordination,
    dynamic_only,
    groups,
    log,
    network,
    quotas,
    replication,
    security,
    tiered,
    tls,
    topic,
    transactions,
)
from odradek.broker.settings.types import READ_ONLY, Definition

BROKER: Final[dict[str, Definition]] = {
    definition.name: definition
    for table in (
        network.TABLE,
        log.TABLE,
        replication.TABLE,
        groups.TABLE,
        transactions.TABLE,
        security.TABLE,
        tls.TABLE,
        quotas.TABLE,
        coordination.TABLE,
        tiered.TABLE,
    )
    for definition in table
}
"""The settings of server.properties."""

DYNAMIC_ONLY: Final[dict[str, Definition]] = {
    definition.name: definition for definition in dynamic_only.TABLE
}
"""Settings that can be set only while the broker runs."""

TOPIC: Final[dict[str, Definition]] = {definition.name: definition for definition in topic.TABLE}
"""Settings that a topic may override."""

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
