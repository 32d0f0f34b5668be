"""The flags of `odradek configs`, and which of them go together.

Source: Kafka 3.9's ConfigCommand.ConfigCommandOptions, whose checks come in this order.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.errors import ToolError
from odradek.tools.options import (
    Options,
    OptionsError,
    action_of,
    exclude,
    java_integer,
    read_flags,
)

WHAT_IT_DOES: Final = (
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, "
    "ip or client-metrics"
)
TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
LOGGERS: Final = "broker-loggers"
IPS: Final = "ips"
CLIENT_METRICS: Final = "client-metrics"
ENTITY_TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, LOGGERS, CLIENT_METRICS)
WITH_DEFAULT: Final = (USERS, CLIENTS, BROKERS, IPS)
ENTITY_FLAGS: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": LOGGERS,
    "ip": IPS,
}
DEFAULT_FLAGS: Final = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": IPS,
}
CONNECTIONS: Final = ("bootstrap-server", "bootstrap-controller", "zookeeper")

FLAGS: Final = (*command_line.CLIENT_FLAGS, *read_flags("configs"))


class ConfigsError(ToolError):
    """The request makes no sense; the message is all that Kafka's tool prints."""


def entity_types(options: Options) -> list[str]:
    """The types of --entity-type, then those of the flags for one type."""
    flags = {**ENTITY_FLAGS, **DEFAULT_FLAGS}
    return options.values("entity-type") + [
        kind for flag, kind in flags.items() if options.has(flag)
    ]


def entity_names(options: Options) -> list[str]:
    """The names of entities; an empty name is the default of the type.

    raises  OptionsError for a flag of one entity that was given twice
    """
    names = []
    for flag in options.names:
        if flag in ("entity-name", "entity-default"):
            names += options.values(flag)
    names += [options.value(flag) or "" for flag in ENTITY_FLAGS if options.has(flag)]
    return names + ["" for flag in DEFAULT_FLAGS if options.has(flag)]


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    action_of(options, ("describe", "alter"))
    exclude(options, "describe", ("add-config", "delete-config"))
    types = entity_types(options)
    _check_types(options, types)
    names = entity_names(options)
    _check_connection(options)
    _check_ids(options, types, names)
    if options.has("alter"):
        _check_alter(options, types, names)
    elif LOGGERS in types and not any(names):
        raise OptionsError(f"an entity name must be specified with --describe of {','.join(types)}")
    return options


def _check_types(options: Options, types: Sequence[str]) -> None:
    repeated = [kind for index, kind in enumerate(types) if kind in types[:index]]
    if repeated:
        raise OptionsError(f"Duplicate entity type(s) specified: {','.join(repeated)}")
    allowed: Sequence[str] = ENTITY_TYPES
    connection = "--bootstrap-server or --bootstrap-controller"
    if not options.has("bootstrap-server") and not options.has("bootstrap-controller"):
        allowed, connection = (USERS, BROKERS), "--zookeeper"
    for kind in types:
        if kind not in allowed:
            raise OptionsError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(allowed)} "
                f"with a {connection} argument"
            )
    if not types:
        raise OptionsError("At least one entity type must be specified")
    if len(types) > 1 and sorted(types) != [CLIENTS, USERS]:
        raise OptionsError(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")
    named = any(options.has(flag) for flag in ("entity-name", "entity-type", "entity-default"))
    if named and any(options.has(flag) for flag in (*ENTITY_FLAGS, *DEFAULT_FLAGS)):
        raise OptionsError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            "flags"
        )


def _check_connection(options: Options) -> None:
    connections = [name for name in CONNECTIONS if options.has(name)]
    if not connections:
        raise OptionsError(
            "One of the required --bootstrap-server, --boostrap-controller, or --zookeeper "
            "arguments must be specified"
        )
    if len(connections) > 1:
        raise OptionsError(
            "Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be "
            "specified"
        )
    if options.has("all") and options.has("zookeeper"):
        raise OptionsError("--bootstrap-server must be specified for --all")
    if options.has("zk-tls-config-file") and not options.has("zookeeper"):
        raise OptionsError(
            "Only the --zookeeper option can be used with the --zk-tls-config-file option."
        )


def _check_ids(options: Options, types: Sequence[str], names: Sequence[str]) -> None:
    if IPS in types:
        for name in filter(None, names):
            try:
                socket.getaddrinfo(name, None)
            except (OSError, UnicodeError):
                raise OptionsError(
                    "The entity name for ips must be a valid IP or resolvable host, but it is: "
                    f"{name}"
                ) from None
    if not any(names) or not (BROKERS in types or LOGGERS in types):
        return
    for flag in ("entity-name", "broker", "broker-logger"):
        broker_id = options.value(flag)
        if broker_id is not None and java_integer(broker_id) is None:
            raise OptionsError(
                f"The entity name for {types[0]} must be a valid integer broker id, but it is: "
                f"{broker_id}"
            )


def _check_alter(options: Options, types: Sequence[str], names: Sequence[str]) -> None:
    if any(kind in WITH_DEFAULT for kind in types):
        if not names:
            raise OptionsError(
                "an entity-name or default entity must be specified with --alter of users, "
                "clients, brokers or ips"
            )
    elif not any(names):
        raise OptionsError(f"an entity name must be specified with --alter of {','.join(types)}")
    if options.has("add-config") and options.has("add-config-file"):
        raise OptionsError("Only one of --add-config or --add-config-file must be specified")
    if not any(options.has(flag) for flag in ("add-config", "add-config-file", "delete-config")):
        raise OptionsError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified "
            "with --alter"
        )
