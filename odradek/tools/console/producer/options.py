"""The flags of `odradek console-producer`, and the client properties that they set.

Source: Kafka 3.9's ConsoleProducer.ProducerConfig, whose checks come in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.console.properties import load_properties, parse_pairs
from odradek.tools.options import INT32_MAX, INT64_MAX, Options, OptionsError, read_flags

WHAT_IT_DOES: Final = "This tool helps to read data from standard input and publish it to Kafka."
LINE_READER: Final = "kafka.tools.ConsoleProducer$LineMessageReader"

FLAGS: Final = (
    command_line.BOOTSTRAP_SERVER,
    *command_line.HELP_FLAGS,
    *read_flags("console-producer"),
)

PROPERTIES: Final = (
    ("linger.ms", "timeout", INT64_MAX, "1000"),
    ("acks", "request-required-acks", None, "-1"),
    ("request.timeout.ms", "request-timeout-ms", INT32_MAX, "1500"),
    ("retries", "message-send-max-retries", INT32_MAX, "3"),
    ("retry.backoff.ms", "retry-backoff-ms", INT64_MAX, "100"),
    ("send.buffer.bytes", "socket-buffer-size", INT32_MAX, "102400"),
    ("buffer.memory", "max-memory-bytes", INT64_MAX, "33554432"),
    ("batch.size", "batch-size", INT32_MAX, "16384"),
    ("batch.size", "max-partition-memory-bytes", INT32_MAX, "16384"),
    ("metadata.max.age.ms", "metadata-expiry-ms", INT64_MAX, "300000"),
    ("max.block.ms", "max-block-ms", INT64_MAX, "60000"),
)
"""Property, flag, largest number (None: not a number), default."""


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(
        FLAGS, arguments, WHAT_IT_DOES, may_be_empty=True, wrong_shows_help=True
    )
    if not options.has("bootstrap-server") and not options.has("broker-list"):
        raise OptionsError("Missing required option(s) [bootstrap-server]", shows_help=True)
    command_line.require(options, "topic")
    options.value("topic")
    if not _are_addresses(servers_of(options)):
        raise OptionsError(
            "Please provide valid host:port like host1:9091,host2:9092\n ", shows_help=True
        )
    return options


def servers_of(options: Options) -> str:
    """The value of --bootstrap-server, or else of --broker-list.

    raises  OptionsError when the option is given twice
    """
    servers, old = options.value("bootstrap-server"), options.value("broker-list")
    return (servers if servers is not None else old) or ""


def _are_addresses(servers: str) -> bool:
    parts = servers.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return all(part.rpartition(":")[2].isdecimal() and ":" in part for part in parts)


def producer_properties(options: Options) -> dict[str, str]:
    """Kafka's producer properties, by precedence: flags, --producer-property, --producer.config.

    raises  OptionsError for an invalid number, ConsoleError for an unreadable file
    """
    path = options.value("producer.config") or options.value("command-config")
    properties = load_properties(path) if path is not None else {}
    properties.update(parse_pairs(options.values("producer-property")))
    properties["bootstrap.servers"] = servers_of(options)
    codec = options.value("compression-codec")
    properties["compression.type"] = "none" if codec is None else codec or "gzip"
    properties.setdefault("client.id", "console-producer")
    for name, flag, largest, default in PROPERTIES:
        number = None if largest is None else options.number(flag, largest)
        given = options.value(flag) if largest is None or number is None else str(number)
        if given is not None:
            properties[name] = given
        else:
            properties.setdefault(name, default)
    return properties


def reader_properties(options: Options) -> dict[str, str]:
    """The properties of the line reader: --property before --reader-config.

    raises  OptionsError, ConsoleError
    """
    path = options.value("reader-config")
    properties = load_properties(path) if path is not None else {}
    return {**properties, **parse_pairs(options.values("property"))}
