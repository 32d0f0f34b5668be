"""`odradek which-partition KEY --partitions N`: the partition that each client's partitioner takes.

The rows are those partitioners that look at nothing but the key.  Clients with different ones put
the records of a key into different partitions, so joins and per-key order break: librdkafka's
default differs from that of Java.
Source: Kafka's BuiltInPartitioner and Utils.murmur2; librdkafka's rdkafka_msg.c; kafka-python's
DefaultPartitioner.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.tools.options import INT32_MAX
from odradek.tools.run import run_tool

RANDOM: Final = "random"
_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_UINT32: Final = 0xFFFFFFFF
_FNV_PRIME: Final = 0x01000193
_FNV_OFFSET: Final = 0x811C9DC5


def murmur2(key: bytes) -> int:
    """The 32-bit MurmurHash2 of a key, with the seed of Kafka's clients; unsigned."""
    value = _SEED ^ len(key)
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _UINT32
        word = (word ^ word >> 24) * _MULTIPLIER & _UINT32
        value = (value * _MULTIPLIER & _UINT32) ^ word
    if whole < len(key):
        rest = int.from_bytes(key[whole:], "little")
        value = (value ^ rest) * _MULTIPLIER & _UINT32
    value = (value ^ value >> 13) * _MULTIPLIER & _UINT32
    return value ^ value >> 15


def fnv1a(key: bytes) -> int:
    """The 32-bit FNV-1a of a key, as a signed number without its sign: what Sarama made common."""
    value = _FNV_OFFSET
    for byte in key:
        value = (value ^ byte) * _FNV_PRIME & _UINT32
    return value if value < 1 << 31 else (1 << 32) - value


def by_murmur2(key: bytes, partitions: int) -> int:
    """The partition of Java's clients."""
    return (murmur2(key) & INT32_MAX) % partitions


def by_crc32(key: bytes, partitions: int) -> int | None:
    """The partition of librdkafka's default; None: an empty key gets a random one."""
    return zlib.crc32(key) % partitions if key else None


def by_fnv1a(key: bytes, partitions: int) -> int:
    """The partition of Sarama's clients."""
    return fnv1a(key) % partitions


class Partitioner(NamedTuple):
    """A partitioner of a client."""

    client: str
    name: str
    partition: Callable[[bytes, int], int | None]
    is_default: bool = False


PARTITIONERS: Final = (
    Partitioner("java", "murmur2", by_murmur2, is_default=True),
    Partitioner("librdkafka", "consistent_random", by_crc32, is_default=True),
    Partitioner("librdkafka", "murmur2_random", by_murmur2),
    Partitioner("librdkafka", "fnv1a_random", by_fnv1a),
    Partitioner("kafka-python", "DefaultPartitioner", by_murmur2, is_default=True),
)


def _key(text: str, *, is_hex: bool) -> bytes:
    try:
        return bytes.fromhex(text) if is_hex else text.encode("utf-8", "surrogateescape")
    except ValueError:
        raise argparse.ArgumentTypeError(f"KEY '{text}' is not in hexadecimal digits") from None


def _partitions(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:11]) <= INT32_MAX):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of partitions")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek which-partition",
        description="Print the partition that each client's partitioner takes for a key.",
        epilog="* the default of the client. A key is what the serializer makes of it: that of a "
        "Java Long 7 is --hex 0000000000000007.",
    )
    parser.add_argument("key", metavar="KEY", help="the key, as UTF-8")
    parser.add_argument(
        "--partitions", required=True, type=_partitions, metavar="N", help="partitions of the topic"
    )
    parser.add_argument("--hex", action="store_true", help="KEY is in hexadecimal digits")
    parser.add_argument(
        "--client",
        choices=sorted({row.client for row in PARTITIONERS}),
        help="print nothing but the number that the default of this client takes",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    parser = build_parser()
    options = parser.parse_args(list(arguments))
    try:
        key = _key(options.key, is_hex=options.hex)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))

    def act(_: Sequence[str]) -> int:
        for row in PARTITIONERS:
            number = row.partition(key, options.partitions)
            shown = RANDOM if number is None else str(number)
            if options.client is None:
                name = f"{row.name}{'*' if row.is_default else ''}"
                print(f"{row.client:14}{name:22}{shown}")
            elif row.client == options.client and row.is_default:
                print(shown)
        return 0

    return run_tool(act, arguments)
