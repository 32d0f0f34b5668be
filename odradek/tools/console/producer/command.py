"""`odradek console-producer`: the flags, lines and exit codes of `kafka-console-producer.sh` 3.9.

Exit codes: 0 when all lines were read (a failed delivery is reported on stderr only, as in Kafka's
tool); 1 for an invalid property or line, or with --sync for a failed delivery; 2 for an invalid
command line; 130 after Ctrl-C, when the lines that were read are delivered (Kafka drops them).
Differs from Kafka: with --sync a batch does not wait for --timeout, since it has one record only.
Source: Kafka 3.9's ConsoleProducer.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from odradek.tools import options as command_line
from odradek.tools.console.errors import AuthenticationError, ConsoleError, exception_line, log
from odradek.tools.console.library import LibraryMissingError, build, library, missing_topic_reason
from odradek.tools.console.producer.line_reader import (
    LineReader,
    LineRecord,
    interruptible,
    lines_of,
)
from odradek.tools.console.properties import (
    PRODUCER,
    check_properties,
    for_library,
    load_properties,
    parse_pairs,
    unknown_properties,
)
from odradek.tools.options import INT32_MAX, INT64_MAX, Options, OptionsError, read_flags, refuse

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


POLL_S: Final = 0.2
"""Bound on the delay of the report of a failed delivery, and of the end after Ctrl-C."""
CALLBACK: Final = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback"
REQUEST_SIZE_MAX: Final = "1048576"
OVERHEAD_BYTES: Final = 61 + 21
"""Size of a batch of one record without key, value and headers."""


def main(arguments: Sequence[str]) -> int:
    try:
        return _run(parse_options(arguments))
    except OptionsError as error:
        return refuse(error, FLAGS)
    except (ConsoleError, LibraryMissingError) as error:
        print(error, file=sys.stderr)
    return 1


def _run(options: Options) -> int:
    topic = options.required("topic")
    properties = producer_properties(options)
    check_properties(PRODUCER, properties)
    configs = for_library(PRODUCER, properties)
    for name in unknown_properties(PRODUCER, properties):
        log("WARN", f"The configuration '{name}' is unknown and has no effect", PRODUCER)
    sender = RecordSender(topic, properties, configs, is_sync=options.has("sync"))
    try:
        reader = open_reader(options)
        # A process may be started without standard input.
        if sys.stdin is not None:
            with interruptible(sys.stdin.buffer) as file:
                _send_lines(sender, reader, lines_of(file))
    finally:
        sender.close()
    return 0


def open_reader(options: Options) -> LineReader:
    """The line reader that the options select.

    raises  ConsoleError
    """
    name = options.value("line-reader")
    if name not in (None, LINE_READER):
        raise ConsoleError(
            "java.lang.ClassNotFoundException",
            f"{name}\nCaused by: Java classes cannot be loaded; --line-reader can only be "
            f"{LINE_READER}",
        )
    return LineReader(reader_properties(options))


def _send_lines(sender: RecordSender, reader: LineReader, lines: Iterator[str]) -> None:
    shows_prompt = sys.stdin.isatty() and sys.stdout.isatty()
    if reader.is_plain and not shows_prompt:
        for line in lines:
            sender.send(LineRecord(None, line, []))
        return
    number = 0
    while True:
        if shows_prompt:
            print(">", end="", flush=True)
        try:
            line = next(lines)
        except StopIteration:
            return
        number += 1
        sender.send(reader.read(line, number))


class RecordSender:
    """Sends records to one topic and reports failed deliveries."""

    def __init__(
        self, topic: str, properties: dict[str, str], configs: dict[str, Any], *, is_sync: bool
    ) -> None:
        """
        properties  of Kafka's producer
        configs     the same for librdkafka
        is_sync     wait for the delivery of each record
        raises      ConsoleError, LibraryMissingError
        """
        self.is_sync = is_sync
        self._topic = topic
        self._max_block_ms = int(properties["max.block.ms"])
        self._request_size_max = int(properties.get("max.request.size", REQUEST_SIZE_MAX))
        self._buffer_memory = int(properties["buffer.memory"])
        self._has_topic = False
        self._failure: str | None = None
        self._producer = build(PRODUCER, {**configs, "on_delivery": self._delivered})
        self._produce = self._producer.produce
        self._library_error: type[Exception] = library().KafkaException
        self._is_closed = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        """Report failed deliveries while the main thread waits for a line."""
        while not self._is_closed.is_set():
            # It concerns a later connection: records that it keeps back fail in time.
            with suppress(AuthenticationError, self._library_error):
                self._producer.poll(POLL_S)

    def send(self, record: LineRecord) -> None:
        """Enqueue a record, and with `is_sync` deliver it; without, report a failure on stderr.

        raises  ConsoleError for a failure with `is_sync`
        """
        reason = None if self._has_topic else self._find_topic()
        reason = reason or self._too_large(record) or self._enqueue(record)
        if reason is not None:
            self._fail(record.key, record.value, reason)
        elif self.is_sync:
            self._flush()
        if self._failure is not None:
            raise ConsoleError("java.util.concurrent.ExecutionException", self._failure)

    def _enqueue(self, record: LineRecord) -> str | None:
        deadline: float | None = None
        while True:
            try:
                self._produce(
                    self._topic, value=record.value, key=record.key, headers=record.headers
                )
            except BufferError:
                now = time.monotonic()
                deadline = now + self._max_block_ms / 1000 if deadline is None else deadline
                if now >= deadline:
                    return (
                        "org.apache.kafka.clients.producer.BufferExhaustedException: Failed to "
                        "allocate memory within the configured max blocking time "
                        f"{self._max_block_ms} ms."
                    )
                self._producer.poll(0.01)
            except self._library_error as error:
                return exception_line(error.args[0])
            else:
                return None

    def _flush(self) -> None:
        """Deliver what is queued."""
        is_over = False
        while not is_over:
            # A fatal error is raised once; then each record fails with it.
            with suppress(self._library_error):
                is_over = not self._producer.flush(POLL_S)

    def _find_topic(self) -> str | None:
        reason = missing_topic_reason(self._producer, self._topic, self._max_block_ms)
        self._has_topic = reason is None
        if self._has_topic and not self.is_sync:
            # Not before: the first connection may be refused, which ends the main thread.
            self._polling.start()
        return reason

    def _too_large(self, record: LineRecord) -> str | None:
        characters = len(record.key or "") + len(record.value or "")
        largest_bytes = min(self._request_size_max, self._buffer_memory)
        if not record.headers and characters * 4 + 100 <= largest_bytes:
            return None
        size_bytes = OVERHEAD_BYTES + _field_bytes(record.key) + _field_bytes(record.value)
        size_bytes += _varint_bytes(len(record.headers))
        for key, value in record.headers:
            size_bytes += _field_bytes(key)
            size_bytes += 1 if value is None else _varint_bytes(len(value)) + len(value)
        reason = (
            f"org.apache.kafka.common.errors.RecordTooLargeException: The message is {size_bytes} "
            "bytes when serialized which is larger than "
        )
        if size_bytes > self._request_size_max:
            return (
                f"{reason}{self._request_size_max}, which is the value of the max.request.size "
                "configuration."
            )
        if size_bytes > self._buffer_memory:
            return (
                f"{reason}the total memory buffer you have configured with the buffer.memory "
                "configuration."
            )
        return None

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._fail(message.key(), message.value(), exception_line(error))

    def _fail(self, key: str | bytes | None, value: str | bytes | None, reason: str) -> None:
        if self.is_sync:
            self._failure = reason
            return
        log(
            "ERROR",
            f"Error when sending message to topic {self._topic} with key: {_size_of(key)}, "
            f"value: {_size_of(value)} with error:",
            CALLBACK,
        )
        print(reason, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Deliver all queued records; `delivery.timeout.ms` bounds the time of each."""
        self._is_closed.set()
        if self._polling.is_alive():
            self._polling.join()
        try:
            self._flush()
        except AuthenticationError:
            self._producer.purge()
            raise
        finally:
            # Threads of librdkafka that outlive the interpreter crash now and then.
            with suppress(AuthenticationError):
                self._producer.close()


def _size_of(value: str | bytes | None) -> str:
    if value is None:
        return "null"
    return f"{len(value.encode() if isinstance(value, str) else value)} bytes"


def _field_bytes(value: str | None) -> int:
    if value is None:
        return 1
    size_bytes = len(value.encode())
    return _varint_bytes(size_bytes) + size_bytes


def _varint_bytes(length: int) -> int:
    """The size of a length as a varint: zigzag doubles it, and a byte holds seven bits."""
    return max((2 * length).bit_length() + 6, 7) // 7
