"""The flags of `odradek console-consumer`, and the client properties that they set.

Source: Kafka 3.9's ConsoleConsumerOptions, whose checks come in this order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.console.errors import ConsoleError
from odradek.tools.console.properties import load_properties, parse_pairs
from odradek.tools.options import INT64_MAX, Options, OptionsError, read_flags

WHAT_IT_DOES: Final = (
    "This tool helps to read data from Kafka topics and outputs it to standard output."
)
EARLIEST: Final = -2
LATEST: Final = -1
_OFFSET: Final = re.compile(r"\+?\d+")

FLAGS: Final = (
    command_line.BOOTSTRAP_SERVER,
    *command_line.HELP_FLAGS,
    *read_flags("console-consumer"),
)


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse the command line; `check_values` checks the values.

    raises  OptionsError; HelpRequested for --help
    """
    return command_line.parse(FLAGS, arguments, WHAT_IT_DOES, wrong_shows_help=True)


def check_values(options: Options) -> None:
    """Check that the options are consistent.

    raises  OptionsError; ConsoleError for a value that is given twice or is not a number
    """
    try:
        _check_source(options)
        idle_ms(options)
    except OptionsError as error:
        if error.shows_help:
            raise
        raise option_error(error) from error


def option_error(error: OptionsError) -> ConsoleError:
    """The exception of joptsimple with which Kafka's tool ends for an invalid value."""
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
    command_line.require(options, "bootstrap-server")


def included(options: Options) -> str | None:
    """The regular expression of --include, or else of --whitelist.

    raises  OptionsError when the option is given twice
    """
    pattern = options.value("include")
    return pattern if pattern is not None else options.value("whitelist")


def consumer_properties(options: Options, new_group: str) -> dict[str, str]:
    """Kafka's consumer properties, by precedence: flags, --consumer-property, --consumer.config.

    new_group  the group id when none is given; offsets are not committed then
    raises     OptionsError for conflicting options, ConsoleError for an unreadable file
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
    """The first offset to read, EARLIEST or LATEST.

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
    """The longest wait for a record; None: no limit.

    raises  OptionsError
    """
    timeout_ms = options.number("timeout-ms", INT64_MAX)
    return None if timeout_ms is None or timeout_ms < 0 else timeout_ms


def formatter_properties(options: Options) -> dict[str, str]:
    """The properties of the formatter: --property before --formatter-config.

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
