"""The flags of `odradek consumer-perf-test`, and the properties of its consumer.

Source: Kafka 3.9's ConsumerPerformance, which checks some values after it has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.console.errors import ConsoleError
from odradek.tools.console.properties import load_properties
from odradek.tools.options import INT32_MAX, INT64_MAX, Options, OptionsError, read_flags

WHAT_IT_DOES: Final = "This tool is used to verify the consumer performance."
TIMEOUT_MS: Final = 10_000
REPORT_MS: Final = 5_000
FETCH_BYTES: Final = 1 << 20
SOCKET_BYTES: Final = 2 << 20
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"

FLAGS: Final = (*command_line.HELP_FLAGS, *read_flags("consumer-perf-test"))


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(
        FLAGS, arguments, WHAT_IT_DOES, may_be_empty=True, wrong_shows_help=True
    )
    if not options.has("bootstrap-server"):
        raise OptionsError("Missing required option(s) [bootstrap-server]", shows_help=True)
    command_line.require(options, "topic", "messages")
    return options


def text_of(options: Options, name: str) -> str:
    """The only value of a required option.

    raises  ConsoleError when it was given twice
    """
    try:
        return options.value(name) or ""
    except OptionsError as error:
        raise ConsoleError("joptsimple.MultipleArgumentsForOptionException", str(error)) from error


def number_of(options: Options, name: str, default: int, largest: int = INT64_MAX) -> int:
    """The value of an option that is a number.

    raises  ConsoleError with the exception of Java's parser
    """
    if options.values(name) == [""]:
        return default
    try:
        return options.number_or(name, default, largest)
    except OptionsError as error:
        raise ConsoleError("joptsimple.OptionArgumentConversionException", str(error)) from error


def report_interval_ms(options: Options) -> int:
    """The interval of --show-detailed-stats.

    raises  ConsoleError for one that is not positive
    """
    interval_ms = number_of(options, "reporting-interval", REPORT_MS)
    if interval_ms <= 0:
        raise ConsoleError(
            "java.lang.IllegalArgumentException", "Reporting interval must be greater than 0."
        )
    return interval_ms


def consumer_properties(options: Options, group: str) -> dict[str, str]:
    """The properties of the consumer: flags before --consumer.config.

    group   the group without --group
    raises  ConsoleError for an unreadable file and for an invalid number
    """
    path = options.value("consumer.config")
    properties = {} if path is None else load_properties(path)
    properties.setdefault("client.id", "perf-consumer-client")
    reset = "latest" if options.has("from-latest") else "earliest"
    fetch_bytes = number_of(options, "fetch-size", FETCH_BYTES, INT32_MAX)
    socket_bytes = number_of(options, "socket-buffer-size", SOCKET_BYTES, INT32_MAX)
    return properties | {
        "bootstrap.servers": text_of(options, "bootstrap-server"),
        "group.id": options.value("group") or group,
        "receive.buffer.bytes": str(socket_bytes),
        "max.partition.fetch.bytes": str(fetch_bytes),
        "auto.offset.reset": reset,
        "check.crcs": "false",
    }
