"""The flags of `odradek reassign-partitions`, and which of them go together.

Source: Kafka 3.9's ReassignPartitionsCommandOptions and validateAndParseArgs, whose checks come in
this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.options import Flag, Options, OptionsError

WHAT_IT_DOES: Final = "This tool helps to move topic partitions between replicas."

FLAGS: Final = (
    *command_line.CLIENT_FLAGS,
    Flag("generate", "Print a new placement of topics on brokers; nothing is moved."),
    Flag("execute", "Start to move replicas as the file says."),
    Flag(
        "verify",
        "Print how far the moves of the file are; when no partition moves any more, the throttles "
        "are removed.",
    ),
    Flag("cancel", "Cancel the moves of the file that are under way."),
    Flag("list", "Print all partitions whose replicas are moving."),
    Flag(
        "reassignment-json-file",
        'The moves: {"version": 1, "partitions": [{"topic": "orders", "partition": 1, "replicas": '
        '[1, 2, 3], "log_dirs": ["any", "/data/2", "any"]}]}; log_dirs is optional, and each '
        "is `any` or a path.",
        "file",
    ),
    Flag(
        "topics-to-move-json-file",
        'With --generate: the topics: {"version": 1, "topics": [{"topic": "orders"}]}.',
        "file",
    ),
    Flag("broker-list", "With --generate: the brokers to use.", "id,id"),
    Flag("disable-rack-aware", "With --generate: do not spread replicas over racks."),
    Flag(
        "throttle",
        "With --execute: the bound on traffic between brokers, for each broker.",
        "bytes per s",
    ),
    Flag(
        "replica-alter-log-dirs-throttle",
        "With --execute: the bound on traffic between log directories, for each broker.",
        "bytes per s",
    ),
    Flag(
        "timeout",
        "With --execute and --cancel: how long to wait until moves between log directories can "
        "start (default: 10000).",
        "ms",
    ),
    Flag(
        "additional",
        "With --execute: also while other replicas move; it also changes their throttle.",
    ),
    Flag("preserve-throttles", "With --verify and --cancel: leave the throttles."),
)
REQUIRED: Final = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
PERMITTED: Final = {
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse and check the command line.

    raises  OptionsError; HelpRequested for --help
    """
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    if options.has("version"):
        return options
    actions = [action for action in REQUIRED if options.has(action)]
    if len(actions) != 1:
        names = ", ".join(f"--{action}" for action in REQUIRED)
        raise OptionsError(f"Command must include exactly one action: {names}", shows_help=True)
    if not options.has("bootstrap-server"):
        raise OptionsError("Please specify --bootstrap-server", shows_help=True)
    (action,) = actions
    for name in REQUIRED[action]:
        if not options.has(name):
            raise OptionsError(f'Missing required argument "[{name}]"', shows_help=True)
    allowed = (action, "bootstrap-server", "command-config", *REQUIRED[action], *PERMITTED[action])
    for name in options.names:
        if name not in allowed:
            raise OptionsError(
                f'Option "[{name}]" can\'t be used with action "[{action}]"', shows_help=True
            )
    return options
