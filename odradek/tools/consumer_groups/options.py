"""The flags of `odradek consumer-groups`, and which of them go together.

Source: Kafka 3.9's ConsumerGroupCommandOptions, whose checks come in this order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.options import Flag, HelpRequested, Options, OptionsError

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

FLAGS: Final = (
    *command_line.CLIENT_FLAGS,
    Flag("timeout", "Timeout of one step in milliseconds (default: 5000).", "number"),
    Flag(
        "list",
        "Print the names of the groups; with --state and --type also these, and only the groups "
        "that have one of those named.",
    ),
    Flag(
        "describe", "Print the offsets of groups, or their members (--members) or state (--state)."
    ),
    Flag("delete", "Delete groups that have no members, and their offsets."),
    Flag("reset-offsets", "Change the offsets of groups that have no members."),
    Flag("delete-offsets", "Delete the offsets of a group for some topics."),
    Flag("group", "The group; may be repeated.", "name"),
    Flag("all-groups", "Every group."),
    Flag(
        "topic",
        "With --reset-offsets and --delete-offsets: a topic, or some of its partitions; may "
        "be repeated.",
        "name or name:0,1,2",
    ),
    Flag("all-topics", "With --reset-offsets: every partition with a committed offset."),
    Flag("offsets", "With --describe: offsets and lag of each partition; this is the default."),
    Flag("members", "With --describe: the members of the group."),
    Flag(
        "state",
        "With --describe: state, coordinator and assignor of the group. With --list: the state of "
        "each group, or only groups in one of these states.",
        "state,state",
        may_lack_value=True,
    ),
    Flag(
        "type",
        "With --list: the type of each group, or only groups of one of these types.",
        "classic,consumer",
        may_lack_value=True,
    ),
    Flag("verbose", "With --describe --members: the partitions of each member."),
    Flag("to-earliest", "Reset to the log start offset."),
    Flag("to-latest", "Reset to the log end offset."),
    Flag("to-current", "Reset to the committed offset, or to the latest where there is none."),
    Flag("to-offset", "Reset to an offset, or to the nearest one in the log.", "offset"),
    Flag("shift-by", "Move the offset by a number of records, back if negative.", "number"),
    Flag(
        "to-datetime",
        "Reset to the first record at or after a time, which is UTC unless it has a zone.",
        "YYYY-MM-DDTHH:mm:SS.sss",
    ),
    Flag(
        "by-duration",
        "Reset to the first record that is at most this old.",
        "PnDTnHnMnS",
    ),
    Flag(
        "from-file",
        "Reset to the offsets in a file of comma-separated values: topic, partition, offset in "
        "each line, or group, topic, partition, offset for several groups.",
        "path",
    ),
    Flag("dry-run", "With --reset-offsets: only print the new offsets; this is the default."),
    Flag("execute", "With --reset-offsets: commit the new offsets."),
    Flag("export", "With --reset-offsets: print the new offsets as comma-separated values."),
)

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
        return options
    if not options.has("bootstrap-server"):
        raise usage('Missing required argument "[bootstrap-server]"')
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
    _check_alone(options, "group", ("all-groups",))
    _check_alone(options, "group", ("list",))
    _check_alone(options, "topic", ("describe", "list"))
    if len([action for action in ACTIONS if options.has(action)]) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise usage(f"Command must include exactly one action: {actions}")
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
        _check_alone(options, scenario, [other for other in SCENARIOS if other != scenario])


def _check_scope(options: Options, action: str, choices: Iterable[str]) -> None:
    if not options.has("group") and not options.has("all-groups"):
        raise usage(f"Option [{action}] takes one of these options: {_named(choices)}")


def _check_alone(options: Options, name: str, others: Iterable[str]) -> None:
    for other in others:
        if options.has(name) and options.has(other):
            raise usage(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in names)
