"""The flags of `odradek console-producer`, and the client properties that they set.

Source: Kafka 3.9's ConsoleProducer.ProducerConfig, whose checks come in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.console.properties import load_properties, parse_pairs
from odradek.tools.options import INT32_MAX, INT64_MAX, Flag, Options, OptionsError

WHAT_IT_DOES: Final = "This tool helps to read data from standard input and publish it to Kafka."
LINE_READER: Final = "kafka.tools.ConsoleProducer$LineMessageReader"

FLAGS: Final = (
    command_line.BOOTSTRAP_SERVER,
    Flag(
        "broker-list",
        "The old name of --bootstrap-server, which takes precedence.",
        "host:port,host:port",
    ),
    Flag("topic", "The topic to write to.", "name"),
    Flag("sync", "Wait for the acknowledgement of a record before reading the next line."),
    Flag(
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip without a value.",
        "codec",
        may_lack_value=True,
    ),
    Flag("batch-size", "Bytes of a batch; --max-partition-memory-bytes takes precedence.", "bytes"),
    Flag("message-send-max-retries", "How often a failed request is retried.", "number"),
    Flag("retry-backoff-ms", "Time before a retry.", "ms"),
    Flag("timeout", "How long a record waits for others to share its batch.", "ms"),
    Flag("request-required-acks", "Required acknowledgements: all or -1, 1, 0.", "acks"),
    Flag("request-timeout-ms", "Timeout of a request.", "ms"),
    Flag("metadata-expiry-ms", "Time after which metadata is refreshed.", "ms"),
    Flag("max-block-ms", "How long a line may wait for its topic or for memory.", "ms"),
    Flag("max-memory-bytes", "Memory for records that are not sent yet.", "bytes"),
    Flag("max-partition-memory-bytes", "Bytes of a batch.", "bytes"),
    Flag("line-reader", f"The class that reads lines; only {LINE_READER} is supported.", "class"),
    Flag("socket-buffer-size", "Bytes of the socket's send buffer.", "bytes"),
    Flag(
        "property",
        "How a line is parsed; may be repeated: parse.key, parse.headers, ignore.error (true or "
        "false), key.separator (a tab), headers.delimiter (a tab), headers.separator (a comma), "
        "headers.key.separator (a colon), null.marker (the text for null). With both keys and "
        "headers a line is `header:value,header:value<tab>key<tab>value`.",
        "name=value",
    ),
    Flag("reader-config", "A file of such properties; --property takes precedence.", "file"),
    Flag("producer-property", "A property of the producer; may be repeated.", "name=value"),
    Flag(
        "producer.config",
        "A file of such properties; --producer-property takes precedence.",
        "file",
    ),
    Flag("command-config", "The name of --producer.config in newer releases of Kafka.", "file"),
    *command_line.HELP_FLAGS,
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
    """Parse and check the command line.

    raises  OptionsError; HelpRequested for --help
    """
    options = command_line.parse(
        FLAGS, arguments, WHAT_IT_DOES, may_be_empty=True, wrong_shows_help=True
    )
    if options.has("version"):
        return options
    if not options.has("bootstrap-server") and not options.has("broker-list"):
        raise OptionsError("Missing required option(s) [bootstrap-server]", shows_help=True)
    if not options.has("topic"):
        raise OptionsError('Missing required argument "[topic]"', shows_help=True)
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
