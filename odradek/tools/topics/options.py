"""The flags of `odradek topics`, and which of them go together.

Source: Kafka 3.9's TopicCommand.TopicCommandOptions, whose checks come in this order; `--zookeeper`
and its line are those of Kafka 2.8, the last release that had it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.options import Flag, HelpRequested, Options, OptionsError

ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
WHAT_IT_DOES: Final = "This tool helps to create, delete, describe, or change a topic."

FLAGS: Final = (
    *command_line.CLIENT_FLAGS,
    Flag(
        "zookeeper",
        "Find the brokers in their ZooKeeper (for scripts written for Kafka before 3.0); the "
        "requests go to the brokers.",
        "host:port,host:port/chroot",
    ),
    Flag("list", "Print the names of the topics."),
    Flag("describe", "Print topics with their partitions and settings."),
    Flag("create", "Create a topic."),
    Flag("alter", "Add partitions to topics."),
    Flag("delete", "Delete topics."),
    Flag(
        "topic",
        "The topic; for everything but --create a regular expression that has to match the whole "
        "name, in which a comma stands for `or`.",
        "name",
    ),
    Flag("topic-id", "The topic to describe, by its id.", "id"),
    Flag(
        "config",
        "A setting of the topic to create; may be repeated.",
        "name=value",
    ),
    Flag("delete-config", "Kept for old scripts; refused together with a connection.", "name"),
    Flag(
        "partitions",
        "The number of partitions, with --create (the cluster has a default) and --alter. Adding "
        "partitions changes the partition of some keys.",
        "number",
    ),
    Flag("replication-factor", "Copies of each partition; the cluster has a default.", "number"),
    Flag(
        "replica-assignment",
        "The brokers of each partition, the preferred leader first: 0:1,1:2 puts partition 0 on "
        "brokers 0 and 1, and partition 1 on brokers 1 and 2.",
        "brokers",
    ),
    Flag("if-exists", "With --alter, --delete and --describe: a missing topic is not an error."),
    Flag("if-not-exists", "With --create: an existing topic is not an error."),
    Flag("exclude-internal", "With --list and --describe: leave internal topics out."),
    Flag("topics-with-overrides", "With --describe: only topics that override settings."),
    Flag(
        "under-replicated-partitions",
        "With --describe: only partitions with a replica not in sync.",
    ),
    Flag("under-min-isr-partitions", "With --describe: only partitions below min.insync.replicas."),
    Flag(
        "at-min-isr-partitions", "With --describe: only partitions exactly at min.insync.replicas."
    ),
    Flag("unavailable-partitions", "With --describe: only partitions without a live leader."),
    Flag(
        "partition-size-limit-per-response",
        "With --describe: the bound on partitions in one response.",
        "number",
    ),
)

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
    """Parse and check the command line.

    raises  OptionsError; HelpRequested for --help
    """
    options = command_line.scan(FLAGS, arguments)
    if not arguments:
        raise OptionsError("Create, delete, describe, or change a topic.", shows_help=True)
    if options.has("help"):
        raise HelpRequested(WHAT_IT_DOES)
    if options.has("version"):
        return options
    actions = [action for action in ACTIONS if options.has(action)]
    if len(actions) != 1:
        raise OptionsError(
            "Command must include exactly one action: "
            "--list, --describe, --create, --alter or --delete",
            shows_help=True,
        )
    _check_connection(options)
    _check_required(options, actions[0])
    _check_together(options, actions[0])
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
    if action not in ("list", "describe") and not options.has("topic"):
        raise OptionsError('Missing required argument "[topic]"', shows_help=True)
    if action == "alter":
        if options.has("config"):
            raise OptionsError(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option '
                '"[alter]" (the kafka-configs CLI supports altering topic configs with a '
                "--bootstrap-server option)",
                shows_help=True,
            )
        if not options.has("partitions"):
            raise OptionsError('Missing required argument "[partitions]"', shows_help=True)


def _check_together(options: Options, action: str) -> None:
    for name, allowed in ALLOWED_WITH:
        if not options.has(name):
            continue
        if action not in allowed:
            raise _cannot_be_used(name, action)
        if name == "replica-assignment" and action != "create":
            continue
        for other in EXCLUDES.get(name, ()):
            if options.has(other):
                raise _cannot_be_used(name, other)


def _cannot_be_used(name: str, other: str) -> OptionsError:
    return OptionsError(
        f'Option "[{name}]" can\'t be used with option "[{other}]"', shows_help=True
    )
