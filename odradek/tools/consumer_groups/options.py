"""The flags of `odradek consumer-groups`, and which of them go together.

Source: Kafka 3.9's ConsumerGroupCommandOptions, whose checks come in this order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.options import (
    HelpRequested,
    Options,
    OptionsError,
    VersionRequested,
    action_of,
    exclude,
    read_flags,
    require,
)
from odradek.tools.run import KAFKA_VERSION

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
TIMEOUT_MS: Final = 5_000
WHAT_IT_DOES: Final = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group "
    "info, or reset consumer group offsets."
)
NOTHING_IS_DONE: Final = (
    "WARN: No action will be performed as the --execute option is missing.In a future major "
    "release, the default behavior of this command will be to prompt the user before executing the "
    "reset rather than doing a dry run. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)
"""The text is Kafka's, with its missing blank."""

FLAGS: Final = (*command_line.CLIENT_FLAGS, *read_flags("consumer-groups"))

# In the order of the hash map in which Kafka's tool checks them.
ONLY_WITH: Final = (
    ("members", ("describe",)),
    ("offsets", ("describe",)),
    ("state", ("describe", "list")),
    ("verbose", ("describe",)),
    ("type", ("list",)),
)
SCOPES: Final = ("all-groups", "group")
LEVELS: Final = ("reset-offsets", "describe", "delete", "list")
SCENARIOS: Final = (
    "to-offset",
    "to-current",
    "to-datetime",
    "from-file",
    "by-duration",
    "to-earliest",
    "to-latest",
    "shift-by",
)
REPORTS: Final = ("members", "offsets", "state")
CHECKED_SCENARIOS: Final = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)
"""In the order in which Kafka checks each against the others."""


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse and check the command line; warn on stderr of a reset without --execute.

    raises  OptionsError; HelpRequested for --help
    """
    options = command_line.scan(FLAGS, arguments)
    if not options.has("help") and not options.has("version"):
        _check_available(options)
    if not arguments:
        raise usage(WHAT_IT_DOES)
    if options.has("help"):
        raise HelpRequested(WHAT_IT_DOES)
    if options.has("version"):
        raise VersionRequested(KAFKA_VERSION)
    require(options, "bootstrap-server")
    if options.has("describe"):
        _check_describe(options)
    if options.has("delete"):
        _check_scope(options, "delete", SCOPES)
        if options.has("topic"):
            raise usage(
                "The consumer does not support topic-specific offset deletion from a consumer "
                "group."
            )
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise usage(f"Option [delete-offsets] takes the following options: {_named(SCOPES)}")
    if options.has("reset-offsets"):
        _check_reset(options)
    exclude(options, "group", ("all-groups", "list"))
    exclude(options, "topic", ("describe", "list"))
    action_of(options, ACTIONS)
    return options


def usage(message: str) -> OptionsError:
    """An error whose message is followed by the help text."""
    return OptionsError(message, shows_help=True)


def _check_available(options: Options) -> None:
    wrong = [
        name
        for name, others in ONLY_WITH
        if options.has(name) and not any(options.has(other) for other in others)
    ]
    if wrong:
        raise OptionsError(
            f"Option(s) [{', '.join(wrong)}] are unavailable given other options on the command "
            "line"
        )


def _check_describe(options: Options) -> None:
    _check_scope(options, "describe", LEVELS)
    if sum(options.has(report) for report in REPORTS) > 1:
        raise usage(f"Option [describe] takes at most one of these options: {_named(REPORTS)}")
    if options.has("state") and options.value("state"):
        raise usage("Option [describe] does not take a value for [state]")


def _check_reset(options: Options) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        print(NOTHING_IS_DONE, file=sys.stderr)
    _check_scope(options, "reset-offsets", SCOPES)
    for scenario in CHECKED_SCENARIOS:
        exclude(options, scenario, [other for other in SCENARIOS if other != scenario])


def _check_scope(options: Options, action: str, choices: Iterable[str]) -> None:
    if not options.has("group") and not options.has("all-groups"):
        raise usage(f"Option [{action}] takes one of these options: {_named(choices)}")


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in names)
