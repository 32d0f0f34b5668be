"""Kafka's formatters and deserializers, by class name: they turn records into bytes for stdout.

A formatter appends its output to a list.  Output that precedes a failure is printed, as in Kafka.
Source: org.apache.kafka.tools.consumer of Kafka 3.9 and their old names under kafka.tools;
org.apache.kafka.common.serialization, and `toString` of the Java types.
Differs from Kafka: ByteArrayDeserializer returns the bytes unchanged; Java prints an address.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from odradek.tools.console.errors import ConsoleError, log

Deserializer = Callable[[bytes], bytes]

SERIALIZATION: Final = "org.apache.kafka.common.serialization."
_EXCEPTION: Final = "org.apache.kafka.common.errors.SerializationException"
_INT64_MASK: Final = 2**64 - 1
_ENCODINGS: Final = ("key.deserializer.encoding", "value.deserializer.encoding")


def find_deserializer(name: str, configs: Mapping[str, str], *, is_key: bool) -> Deserializer:
    """The deserializer for a class name.

    configs  properties without their prefix: `deserializer.encoding` of the StringDeserializer
    raises   ConsoleError for an unknown class
    """
    kind = name.removeprefix(SERIALIZATION) if name.startswith(SERIALIZATION) else ""
    if kind == "StringDeserializer":
        own = _ENCODINGS[0] if is_key else _ENCODINGS[1]
        return _string(configs.get(own, configs.get("deserializer.encoding", "UTF-8")))
    deserializer = _DESERIALIZERS.get(kind)
    if deserializer is None:
        raise ConsoleError("java.lang.ClassNotFoundException", name)
    return deserializer


def _string(encoding: str) -> Deserializer:
    try:
        b"".decode(encoding)
    except LookupError as error:
        raise ConsoleError("java.io.UnsupportedEncodingException", encoding) from error
    return lambda data: data.decode(encoding, "replace").encode("utf-8", "replace")


def _number(kind: str, code: str, text: Callable[[float], str] = str) -> Deserializer:
    size_bytes = struct.calcsize(code)

    def deserialize(data: bytes) -> bytes:
        if len(data) != size_bytes:
            raise ConsoleError(
                _EXCEPTION, f"Size of data received by {kind}Deserializer is not {size_bytes}"
            )
        return text(struct.unpack(code, data)[0]).encode()

    return deserialize


def double_text(value: float) -> str:
    """Format like Java's `Double.toString`: decimal from 10^-3 to 10^7, else with an exponent."""
    return _decimal(value, repr(value))


def float_text(value: float) -> str:
    """Format like Java's `Float.toString`: the fewest digits that identify the 32-bit number."""
    if value != value or value in (float("inf"), float("-inf")):
        return _decimal(value, "")
    packed = struct.pack(">f", value)
    for digits in range(9):
        text = f"{value:.{digits}e}"
        try:
            if struct.pack(">f", float(text)) == packed:
                return _decimal(value, text)
        except OverflowError:
            continue
    raise AssertionError("nine digits are enough for 32 bits")


def _decimal(value: float, text: str) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if text.startswith("-") else ""
    mantissa, _, written_exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0.0"
    leading_zeros = len(whole + fraction) - len(digits)
    exponent = int(written_exponent or 0) + len(whole) - 1 - leading_zeros
    digits = digits.rstrip("0") or "0"
    if not -3 <= exponent < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    digits = digits.ljust(exponent + 1, "0")
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :] or '0'}"


def _boolean(data: bytes) -> bytes:
    if len(data) != 1:
        raise ConsoleError(_EXCEPTION, "Size of data received by BooleanDeserializer is not 1")
    if data[0] > 1:
        raise ConsoleError(
            _EXCEPTION, f"Unexpected byte received by BooleanDeserializer: {data[0]}"
        )
    return b"true" if data[0] else b"false"


def _uuid(data: bytes) -> bytes:
    """Parse as Java's UUID.fromString: five hexadecimal numbers, of which the low bits count."""
    parts = data.decode("utf-8", "replace").split("-")
    try:
        if len(parts) != 5:
            raise ValueError
        part1, part2, part3, part4, part5 = (int(part, 16) & _INT64_MASK for part in parts)
    except ValueError:
        raise ConsoleError(_EXCEPTION, "Error parsing data into UUID") from None
    high = (part1 & 0xFFFFFFFF) << 32 | (part2 & 0xFFFF) << 16 | part3 & 0xFFFF
    low = (part4 & 0xFFFF) << 48 | part5 & 0xFFFFFFFFFFFF
    return str(UUID(int=high << 64 | low)).encode()


def _bytes(data: bytes) -> bytes:
    """Printable ASCII unchanged, other bytes as \\xXX."""
    return b"".join(
        bytes([byte]) if 0x20 <= byte <= 0x7E and byte != 0x5C else b"\\x%02X" % byte
        for byte in data
    )


def _void(data: bytes) -> bytes:
    del data
    raise ConsoleError(
        "java.lang.IllegalArgumentException", "Data should be null for a VoidDeserializer."
    )


_DESERIALIZERS: Final[Mapping[str, Deserializer]] = {
    "ByteArrayDeserializer": bytes,
    "BytesDeserializer": _bytes,
    "ByteBufferDeserializer": lambda data: (
        b"java.nio.HeapByteBuffer[pos=0 lim=%d cap=%d]" % (len(data), len(data))
    ),
    "BooleanDeserializer": _boolean,
    "ShortDeserializer": _number("Short", ">h"),
    "IntegerDeserializer": _number("Integer", ">i"),
    "LongDeserializer": _number("Long", ">q"),
    "FloatDeserializer": _number("Float", ">f", float_text),
    "DoubleDeserializer": _number("Double", ">d", double_text),
    "UUIDDeserializer": _uuid,
    "VoidDeserializer": _void,
}


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
