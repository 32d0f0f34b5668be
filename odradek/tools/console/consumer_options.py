"""The flags of `odradek console-consumer`, and the properties that they stand for.

Source: Kafka 3.9's ConsoleConsumerOptions, whose checks come in this order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.console.errors import ConsoleError
from odradek.tools.console.formatters import DEFAULT_FORMATTER
from odradek.tools.console.properties import load_properties, parse_pairs
from odradek.tools.options import INT64_MAX, Flag, HelpRequested, Options, OptionsError

WHAT_IT_DOES: Final = (
    "This tool helps to read data from Kafka topics and outputs it to standard output."
)
EARLIEST: Final = -2
LATEST: Final = -1
_OFFSET: Final = re.compile(r"\+?\d+")

FLAGS: Final = (
    Flag("bootstrap-server", "Brokers to reach the cluster by.", "host:port,host:port"),
    Flag("topic", "The topic to read.", "name"),
    Flag("include", "Read all topics whose whole name matches.", "regular expression"),
    Flag("whitelist", "The old name of --include, which wins.", "regular expression"),
    Flag("partition", "Read only this partition, from its end unless --offset is given.", "number"),
    Flag("offset", "With --partition: earliest, latest, or the number to begin at.", "offset"),
    Flag("from-beginning", "Where no offset is committed, begin with the first record."),
    Flag("group", "The consumer group; without it a new one that commits nothing.", "id"),
    Flag("max-messages", "Stop after so many records.", "number"),
    Flag("timeout-ms", "Stop when there is no record for so long.", "ms"),
    Flag("isolation-level", "read_uncommitted (which holds without) or read_committed.", "level"),
    Flag("skip-message-on-error", "Go on after a record that cannot be printed."),
    Flag("key-deserializer", "How keys become text: a class of Kafka's.", "class"),
    Flag("value-deserializer", "How values become text: a class of Kafka's.", "class"),
    Flag("formatter", f"What prints records; {DEFAULT_FORMATTER} without.", "class"),
    Flag(
        "property",
        "What is printed, may be given again: print.timestamp, print.partition, print.offset, "
        "print.headers, print.key, print.value (true or false), key.separator (a tab), "
        "line.separator, headers.separator (a comma), null.literal, key.deserializer, "
        "value.deserializer, headers.deserializer.",
        "name=value",
    ),
    Flag("formatter-config", "A properties file of the same; --property wins.", "file"),
    Flag("consumer-property", "A property of the consumer; may be given again.", "name=value"),
    Flag("consumer.config", "A properties file of the same; --consumer-property wins.", "file"),
    Flag("command-config", "What newer releases of Kafka call --consumer.config.", "file"),
    Flag("enable-systest-events", "Print `shutdown_complete` at the end."),
    Flag("version", "Print the version of Kafka whose tool this one equals."),
    Flag("help", "Print this text."),
)


def help_text() -> str:
    """All flags."""
    return command_line.help_text(FLAGS)


def parse_options(arguments: Sequence[str]) -> Options:
    """The options that are known.

    raises  OptionsError; asking for help is one
    """
    try:
        options = command_line.scan(FLAGS, arguments)
    except OptionsError as error:
        raise OptionsError(str(error), shows_help=True) from error
    if not arguments:
        raise OptionsError(WHAT_IT_DOES, shows_help=True)
    if options.has("help"):
        raise HelpRequested(WHAT_IT_DOES)
    return options


def check_values(options: Options) -> None:
    """Whether the options make sense together.

    raises  OptionsError; ConsoleError for a value that is given twice or is no number
    """
    try:
        _check_source(options)
        idle_ms(options)
    except OptionsError as error:
        if error.shows_help:
            raise
        raise option_error(error) from error


def option_error(error: OptionsError) -> ConsoleError:
    """What Kafka's tool ends with where it looks at a value."""
    is_repeated = str(error).startswith("Found multiple")
    kind = (
        "MultipleArgumentsForOptionException"
        if is_repeated
        else "OptionArgumentConversionException"
    )
    return ConsoleError(f"joptsimple.{kind}", str(error), exit_code=error.exit_code)


def _check_source(options: Options) -> None:
    topics = [text for text in (options.value("topic"), included(options)) if text is not None]
    if len(topics) != 1:
        deprecated = (
            "--whitelist is DEPRECATED use --include instead; ignored if --include specified."
            if options.has("whitelist")
            else ""
        )
        raise OptionsError(
            f"Exactly one of --include/--topic is required. {deprecated}", shows_help=True
        )
    if options.number("partition") is not None:
        if not options.has("topic"):
            raise OptionsError(
                "The topic is required when partition is specified.", shows_help=True
            )
        if options.has("from-beginning") and options.has("offset"):
            raise OptionsError(
                "Options from-beginning and offset cannot be specified together.", shows_help=True
            )
    elif options.has("offset"):
        raise OptionsError("The partition is required when offset is specified.", shows_help=True)
    if not options.has("bootstrap-server"):
        raise OptionsError('Missing required argument "[bootstrap-server]"', shows_help=True)


def included(options: Options) -> str | None:
    """The regular expression of the topics to read.

    raises  OptionsError when it is given twice
    """
    pattern = options.value("include")
    return pattern if pattern is not None else options.value("whitelist")


def consumer_properties(options: Options, new_group: str) -> dict[str, str]:
    """Kafka's properties: a flag before --consumer-property before --consumer.config.

    new_group  takes the place of a group that is given nowhere; it commits nothing then
    raises     OptionsError for what does not go together, ConsoleError for a file
    """
    path = options.value("consumer.config") or options.value("command-config")
    from_file = load_properties(path) if path is not None else {}
    extra = parse_pairs(options.values("consumer-property"))
    group = _group_of(options, from_file, extra)
    properties = {**from_file, **extra}
    reset = properties.get("auto.offset.reset")
    if reset is None:
        properties["auto.offset.reset"] = "earliest" if options.has("from-beginning") else "latest"
    elif options.has("from-beginning") and reset != "earliest":
        raise OptionsError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    properties["bootstrap.servers"] = options.value("bootstrap-server") or ""
    properties.setdefault("client.id", "console-consumer")
    level = options.value("isolation-level")
    if level is not None:
        properties["isolation.level"] = level
    properties.setdefault("isolation.level", "read_uncommitted")
    if group is None:
        properties.setdefault("enable.auto.commit", "false")
    properties["group.id"] = new_group if group is None else group
    return properties


def _group_of(options: Options, from_file: dict[str, str], extra: dict[str, str]) -> str | None:
    given = (options.value("group"), from_file.get("group.id"), extra.get("group.id"))
    groups = sorted({group for group in given if group is not None})
    if len(groups) > 1:
        raise OptionsError(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. Detected group ids: "
            + ", ".join(f"'{group}'" for group in groups),
            shows_help=True,
        )
    if groups and options.has("partition"):
        raise OptionsError(
            "Options group and partition cannot be specified together.", shows_help=True
        )
    return groups[0] if groups else None


def first_offset(options: Options) -> int:
    """Where reading a partition begins; EARLIEST and LATEST are less than 0.

    raises  OptionsError
    """
    text = options.value("offset")
    if text is None:
        return EARLIEST if options.has("from-beginning") else LATEST
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    offset = int(text) if _OFFSET.fullmatch(text) else INT64_MAX + 1
    if offset > INT64_MAX:
        raise OptionsError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long.",
            shows_help=True,
        )
    return offset


def idle_ms(options: Options) -> int | None:
    """How long to wait for a record; None without end.

    raises  OptionsError
    """
    timeout_ms = options.number("timeout-ms", INT64_MAX)
    return None if timeout_ms is None or timeout_ms < 0 else timeout_ms


def formatter_properties(options: Options) -> dict[str, str]:
    """What the formatter is told.

    raises  OptionsError, ConsoleError
    """
    path = options.value("formatter-config")
    properties = load_properties(path) if path is not None else {}
    for flag, name in (
        ("key-deserializer", "key.deserializer"),
        ("value-deserializer", "value.deserializer"),
    ):
        given = options.value(flag)
        if given:
            properties[name] = given
    properties.update(parse_pairs(options.values("property")))
    return properties
