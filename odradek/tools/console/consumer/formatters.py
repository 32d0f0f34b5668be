"""Kafka's formatters, by class name: they turn records into bytes for stdout.

A formatter appends its output to a list.  Output that precedes a failure is printed, as in Kafka.
Source: org.apache.kafka.tools.consumer of Kafka 3.9 and their old names under kafka.tools.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.tools.console.consumer.deserializers import Deserializer, find_deserializer
from odradek.tools.console.errors import ConsoleError, log

Formatter = Callable[[Any, list[bytes]], None]
"""(confluent_kafka.Message, output): appends bytes to `output`."""

PACKAGE: Final = "org.apache.kafka.tools.consumer."
DEFAULT_FORMATTER: Final = PACKAGE + "DefaultMessageFormatter"
_OLD_NAMES: Final = {
    "kafka.tools.DefaultMessageFormatter": DEFAULT_FORMATTER,
    "kafka.tools.LoggingMessageFormatter": PACKAGE + "LoggingMessageFormatter",
    "kafka.tools.NoOpMessageFormatter": PACKAGE + "NoOpMessageFormatter",
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": PACKAGE
    + "TransactionLogMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": PACKAGE
    + "OffsetsMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": PACKAGE
    + "GroupMetadataMessageFormatter",
}
_TIMESTAMPS: Final = (None, b"CreateTime:%d", b"LogAppendTime:%d")
"""Indexed by the timestamp type of librdkafka; 0: no timestamp."""


class UnknownFormatterError(Exception):
    """There is no such formatter; the message is the name."""


def find_formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    """The formatter for a class name.

    raises  UnknownFormatterError
    """
    if name in _OLD_NAMES:
        print(
            f"WARNING: {name} is deprecated and will be removed in the next major release. Please "
            f"use {_OLD_NAMES[name]} instead",
            file=sys.stderr,
        )
        name = _OLD_NAMES[name]
    kind = name.removeprefix(PACKAGE) if name.startswith(PACKAGE) else ""
    if kind in ("DefaultMessageFormatter", "LoggingMessageFormatter"):
        # The second one also logs, below the log level of the tools.
        return DefaultFormatter(properties)
    if kind == "NoOpMessageFormatter":
        return lambda record, output: None
    from odradek.tools.console.consumer.internal_topics import STORED_FORMATTERS

    if kind in STORED_FORMATTERS:
        return STORED_FORMATTERS[kind]
    raise UnknownFormatterError(name)


class DefaultFormatter:
    """Prints the columns that the `print.*` properties select."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """properties  of `--property`; missing ones have Kafka's defaults"""

        def prints(column: str, default: str) -> bool:
            return properties.get(f"print.{column}", default).strip().lower() == "true"

        null = properties.get("null.literal", "null").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._key_text = _text_of(properties, "key.deserializer", null)
        self._value_text = _text_of(properties, "value.deserializer", null)
        self._header_text = _text_of(properties, "headers.deserializer", null)
        choices: tuple[tuple[str, str, Formatter], ...] = (
            ("timestamp", "false", self._timestamp),
            ("partition", "false", self._partition),
            ("offset", "false", self._offset),
            ("headers", "false", self._headers),
            ("key", "false", self._key),
            ("value", "true", self._value),
        )
        columns = [column for name, default, column in choices if prints(name, default)]
        column_end = properties.get("key.separator", "\t").encode()
        line_end = properties.get("line.separator", "\n").encode()
        ends = [column_end] * (len(columns) - 1) + [line_end]
        self._columns = list(zip(columns, ends, strict=False))

    def __call__(self, record: Any, output: list[bytes]) -> None:
        """Append one line.

        raises  ConsoleError for a field that its deserializer rejects
        """
        for column, end in self._columns:
            column(record, output)
            output.append(end)

    def _timestamp(self, record: Any, output: list[bytes]) -> None:
        kind, time_ms = record.timestamp()
        template = _TIMESTAMPS[kind]
        output.append(b"NO_TIMESTAMP" if template is None else template % time_ms)

    def _partition(self, record: Any, output: list[bytes]) -> None:
        output.append(b"Partition:%d" % record.partition())

    def _offset(self, record: Any, output: list[bytes]) -> None:
        output.append(b"Offset:%d" % record.offset())

    def _headers(self, record: Any, output: list[bytes]) -> None:
        fields = record.headers()
        if not fields:
            output.append(b"NO_HEADERS")
            return
        for number, (key, value) in enumerate(fields):
            if number:
                output.append(self._headers_separator)
            output.append(key.encode() + b":")
            output.append(self._header_text(value))

    def _key(self, record: Any, output: list[bytes]) -> None:
        output.append(self._key_text(record.key()))

    def _value(self, record: Any, output: list[bytes]) -> None:
        output.append(self._value_text(record.value()))


def _text_of(
    properties: Mapping[str, str], name: str, null: bytes
) -> Callable[[bytes | None], bytes]:
    """The function that prints a field; null is replaced before deserialization, as in Kafka."""
    deserialize: Deserializer | None = None
    if name in properties:
        prefix = f"{name}."
        configs = {
            key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix)
        }
        try:
            deserialize = find_deserializer(
                properties[name], configs, is_key=name == "key.deserializer"
            )
        except ConsoleError as error:
            text = f"Unable to instantiate a deserializer from {properties[name]}"
            log("ERROR", text, DEFAULT_FORMATTER)
            print(error, file=sys.stderr)
    if deserialize is None:
        return lambda data: null if data is None else data
    convert = deserialize
    return lambda data: convert(null if data is None else data)
