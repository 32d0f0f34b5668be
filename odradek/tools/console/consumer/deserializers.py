"""Kafka's deserializers, by class name; they return text as bytes.

Source: org.apache.kafka.common.serialization of Kafka 3.9, and `toString` of the Java types.
Differs from Kafka: ByteArrayDeserializer returns the bytes unchanged; Java prints an address.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from odradek.tools.console.errors import ConsoleError

Deserializer = Callable[[bytes], bytes]

PACKAGE: Final = "org.apache.kafka.common.serialization."
_EXCEPTION: Final = "org.apache.kafka.common.errors.SerializationException"
_INT64_MASK: Final = 2**64 - 1
_ENCODINGS: Final = ("key.deserializer.encoding", "value.deserializer.encoding")


def find_deserializer(name: str, configs: Mapping[str, str], *, is_key: bool) -> Deserializer:
    """The deserializer for a class name.

    configs  properties without their prefix: `deserializer.encoding` of the StringDeserializer
    raises   ConsoleError for an unknown class
    """
    kind = name.removeprefix(PACKAGE) if name.startswith(PACKAGE) else ""
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
