"""The flags of `odradek topics`, and which of them go together.

Source: Kafka 3.9's TopicCommand.TopicCommandOptions, whose checks come in this order; `--zookeeper`
and its line are those of Kafka 2.8, the last release that had it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.options import (
    Options,
    OptionsError,
    action_of,
    cannot_be_used,
    exclude,
    read_flags,
    require,
)

ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
WHAT_IT_DOES: Final = "This tool helps to create, delete, describe, or change a topic."

FLAGS: Final = (*command_line.CLIENT_FLAGS, *read_flags("topics"))

ALLOWED_WITH: Final = (
    ("config", ("alter", "create")),
    ("delete-config", ("alter",)),
    ("partitions", ("alter", "create")),
    ("replication-factor", ("create",)),
    ("replica-assignment", ("alter", "create")),
    *((report, ("describe",)) for report in REPORTS),
    ("topics-with-overrides", ("describe",)),
    ("if-exists", ("alter", "delete", "describe")),
    ("if-not-exists", ("create",)),
    ("exclude-internal", ("list", "describe")),
)

EXCLUDES: Final = {
    "replica-assignment": ("partitions", "replication-factor"),
    **dict.fromkeys(REPORTS, ("topics-with-overrides",)),
    "delete-config": ("bootstrap-server", "zookeeper"),
}
"""Options that an option excludes, besides actions; `replica-assignment` only with --create."""


def parse_options(arguments: Sequence[str]) -> Options:
    if not arguments:
        raise OptionsError("Create, delete, describe, or change a topic.", shows_help=True)
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    action = action_of(options, ACTIONS, "--list, --describe, --create, --alter or --delete")
    _check_connection(options)
    _check_required(options, action)
    _check_together(options, action)
    return options


def _check_connection(options: Options) -> None:
    if options.has("bootstrap-server") and options.has("zookeeper"):
        raise OptionsError(
            "Only one of --bootstrap-server or --zookeeper must be specified", shows_help=True
        )
    if not options.has("bootstrap-server") and not options.has("zookeeper"):
        raise OptionsError("--bootstrap-server must be specified")


def _check_required(options: Options, action: str) -> None:
    is_named = options.has("topic") or options.has("topic-id")
    if action == "describe" and options.has("if-exists") and not is_named:
        raise OptionsError("--topic or --topic-id is required to describe a topic", shows_help=True)
    if action not in ("list", "describe"):
        require(options, "topic")
    if action == "alter":
        if options.has("config"):
            raise OptionsError(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option '
                '"[alter]" (the kafka-configs CLI supports altering topic configs with a '
                "--bootstrap-server option)",
                shows_help=True,
            )
        require(options, "partitions")


def _check_together(options: Options, action: str) -> None:
    for name, allowed in ALLOWED_WITH:
        if not options.has(name):
            continue
        if action not in allowed:
            raise cannot_be_used(name, action)
        if name != "replica-assignment" or action == "create":
            exclude(options, name, EXCLUDES.get(name, ()))
