"""`odradek configs`: the flags, lines and exit codes of `kafka-configs.sh` 3.9.

Exit codes: 0 success; 1 failure; 2 an invalid command line.  The reason is on stderr.
Differs from Kafka: no stack trace is printed but its first line; --zookeeper finds the brokers,
which get the requests; messages do not repeat configs that may be secrets.
Source: Kafka 3.9's ConfigCommand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.tools.client import Client
from odradek.tools.client_config import InvalidPropertiesError, read_properties
from odradek.tools.configs.options import (
    BROKERS,
    CLIENT_METRICS,
    CLIENTS,
    FLAGS,
    LOGGERS,
    TOPICS,
    USERS,
    ConfigsError,
    entity_names,
    entity_types,
    parse_options,
)
from odradek.tools.configs.quotas import (
    QUOTA_TYPES,
    alter_entity,
    credential_lines,
    quota_entries,
    quota_line,
)
from odradek.tools.configs.resources import (
    RESOURCE_TYPES,
    SOURCES,
    ConfigEntry,
    Resource,
    alter,
    describe,
    replace,
)
from odradek.tools.errors import ToolError, refused
from odradek.tools.options import Options
from odradek.tools.run_command import client_of, run_command

FORMAT_VERSION: Final = "message.format.version"
_OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
_COMMA: Final = re.compile("," + _OUTSIDE_BRACKETS)
_EQUALS: Final = re.compile(r"\s*=\s*" + _OUTSIDE_BRACKETS, re.ASCII)
_SECRET: Final = re.compile(r"password|secret|jaas|keystore\.key|SCRAM-", re.IGNORECASE)
_VALUE: Final = re.compile(r"^((?:--add-config=)?[\w.-]+)\s*=.*", re.DOTALL)
_KEY: Final = re.compile(r"[a-zA-Z0-9._-]*")


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, partial(_run, arguments))


def _run(arguments: Sequence[str], options: Options) -> int:
    try:
        _act(options)
    except ConfigsError as error:
        print(error, file=sys.stderr)
        return 1
    except ToolError as error:
        given = " ".join(without_secrets(arguments))
        print(f"Error while executing config command with args '{given}'", file=sys.stderr)
        print(error, file=sys.stderr)
        return 1
    return 0


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """The command line without values of --add-config, if a name in them is that of a secret."""
    return [
        _VALUE.sub(r"\1=[hidden]", word) if _SECRET.search(word) else word for word in arguments
    ]


def _act(options: Options) -> None:
    kinds, names = entity_types(options), entity_names(options)
    if not options.has("bootstrap-server") and not options.has("zookeeper"):
        raise ConfigsError("Only --bootstrap-server is supported by this tool")
    has_quotas = kinds[0] in QUOTA_TYPES
    with client_of(options) as client:
        if options.has("describe"):
            if has_quotas:
                _describe_quotas(client, kinds, names)
            else:
                _describe(client, kinds[0], names, every=options.has("all"))
            return
        if len(names) != len(kinds):
            raise ConfigsError("An entity name must be specified for every entity type")
        added = parse_added(options)
        deleted = [name.strip() for name in options.list_of("delete-config")]
        if has_quotas:
            alter_entity(client, kinds, names, added, deleted)
        else:
            _alter(client, kinds[0], names[0], added, deleted)
    if names[0]:
        print(f"Completed updating config for {kinds[0][:-1]} {names[0]}.")
    else:
        print(f"Completed updating default config for {kinds[0]} in the cluster.")


def _describe(client: Client, kind: str, names: Sequence[str], *, every: bool) -> None:
    for name in names[:1] or _all_names(client, kind):
        if name:
            print(f"{'All' if every else 'Dynamic'} configs for {kind[:-1]} {name} are:")
        else:
            print(f"Default configs for {kind} in the cluster are:")
        resource = Resource(RESOURCE_TYPES[kind], name)
        for entry in describe(client, resource, with_synonyms=True, every=every):
            print(_line(entry))


def _describe_quotas(client: Client, kinds: Sequence[str], names: Sequence[str]) -> None:
    if len(names) > len(kinds):
        raise ConfigsError("More entity names specified than entity types")
    for entry in quota_entries(client, kinds, names):
        print(quota_line(entry))
    if USERS in kinds and CLIENTS not in kinds and "" not in names:
        for line in credential_lines(client, names):
            print(line)


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{SOURCES.get(source, 'UNKNOWN')}:{name}={_text(value)}"
        for source, name, value in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _all_names(client: Client, kind: str) -> list[str]:
    """Every entity of a type, sorted; the default of brokers is the last."""
    if kind == CLIENT_METRICS:
        # Brokers in ZooKeeper mode do not list them.
        raise refused(ErrorCode.UNSUPPORTED_VERSION)
    if kind == TOPICS:
        return sorted(topic.name for topic in client.metadata().topics if topic.name is not None)
    brokers = sorted(broker.node_id for broker in client.metadata([]).brokers)
    return [*map(str, brokers), ""]


def _alter(
    client: Client, kind: str, name: str, added: dict[str, str], deleted: Sequence[str]
) -> None:
    resource = Resource(RESOURCE_TYPES[kind], name)
    if kind == LOGGERS:
        valid = [entry.name for entry in describe(client, resource)]
        unknown = [config for config in (*deleted, *added) if config not in valid]
        if unknown:
            raise ConfigsError(f"Invalid broker logger(s): {','.join(unknown)}")
        alter(client, resource, added, deleted)
    else:
        before = {entry.name: entry.value for entry in describe(client, resource)}
        unknown = [config for config in deleted if config not in before]
        if unknown:
            raise ConfigsError(f"Invalid config(s): {','.join(unknown)}")
        if kind == BROKERS:
            replace(client, resource, _merged(before, added, deleted))
        else:
            alter(client, resource, added, deleted)


def _merged(
    before: dict[str, str | None], added: dict[str, str], deleted: Sequence[str]
) -> dict[str, str]:
    """All dynamic configs of a broker after the change; Kafka's tool replaces them as a whole."""
    after = {name: value for name, value in {**before, **added}.items() if name not in deleted}
    sensitive = [name for name, value in after.items() if value is None]
    if sensitive:
        raise ConfigsError(
            "All sensitive broker config entries must be specified for --alter, missing entries: "
            f"Set({', '.join(sensitive)})"
        )
    return {name: value for name, value in after.items() if value is not None}


def parse_added(options: Options) -> dict[str, str]:
    """The configs of --add-config-file and --add-config.

    raises  OptionsError, ToolError for a file that cannot be read
    """
    added: dict[str, str] = {}
    path = options.value("add-config-file")
    if path is not None:
        try:
            added = read_properties(path)
        except FileNotFoundError as error:
            raise ToolError(f"{path} does not exist") from error
        except (OSError, InvalidPropertiesError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ToolError(f"{path}: {reason}") from error
    text = options.value("add-config")
    if text is not None:
        added |= parse_pairs(text)
    if FORMAT_VERSION in added:
        print(
            f"WARNING: The configuration {FORMAT_VERSION}={added[FORMAT_VERSION]} is specified. "
            "This configuration will be ignored if the version is newer than the "
            "inter.broker.protocol.version specified in the broker or if the "
            "inter.broker.protocol.version is 3.0 or newer. This configuration is deprecated and "
            "it will be removed in Apache Kafka 4.0."
        )
    for name in added:
        if not _KEY.fullmatch(name):
            raise ConfigsError(f"Invalid character found for config key: {name}")
    return added


def parse_pairs(text: str) -> dict[str, str]:
    """Parse `k=v,k=[v,v]`; square brackets are removed from values.

    raises  ConfigsError
    """
    parts = _COMMA.split(text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    pairs = [_EQUALS.split(part) for part in parts]
    if any(len(pair) != 2 for pair in pairs):
        raise ConfigsError(
            "requirement failed: Invalid entity config: all configs to be added must be in the "
            'format "key=val".'
        )
    return {name.strip(): value.replace("[", "").replace("]", "").strip() for name, value in pairs}
