"""The flags of `odradek reassign-partitions`, and which of them go together.

Source: Kafka 3.9's ReassignPartitionsCommandOptions and validateAndParseArgs, whose checks come in
this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.options import Options, OptionsError, action_of, read_flags, require

WHAT_IT_DOES: Final = "This tool helps to move topic partitions between replicas."

FLAGS: Final = (*command_line.CLIENT_FLAGS, *read_flags("reassign-partitions"))
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
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    action = action_of(options, REQUIRED)
    if not options.has("bootstrap-server"):
        raise OptionsError("Please specify --bootstrap-server", shows_help=True)
    require(options, *REQUIRED[action])
    allowed = (action, "bootstrap-server", "command-config", *REQUIRED[action], *PERMITTED[action])
    for name in options.names:
        if name not in allowed:
            raise OptionsError(
                f'Option "[{name}]" can\'t be used with action "[{action}]"', shows_help=True
            )
    return options
