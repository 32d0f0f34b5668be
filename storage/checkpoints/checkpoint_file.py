"""The small text checkpoints of a data directory: a version, a count, one line per entry.

    0                          version, always 0
    2                          how many lines follow
    orders 0 1200              topic, partition, offset
    orders 1 40

There are four of them in the root of each directory of log.dirs; a partition's leader epochs have
the same head.  A file of 0 bytes holds no entries (Kafka makes it so at the first start).  Anything
else that a Kafka broker could not have written is refused: reading half a file as a whole one would
move a recovery point or a high watermark.

Source: Kafka's CheckpointFile, OffsetCheckpointFile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from odradek.runtime.files import FileSystem

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"

PartitionName = tuple[str, int]
"""Topic and partition; equal to the `TopicPartition` of the packages above."""

_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,18})\Z")
_OFFSET_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1


class CorruptCheckpoint(Exception):
    """The bytes are not a checkpoint; the message names the file and what is wrong."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """Version, count and the lines, each ended by a newline."""
    entries = list(lines)
    return "\n".join(("0", str(len(entries)), *entries, "")).encode()


def decode_lines(data: bytes) -> list[str]:
    """The entry lines after version and count; none for 0 bytes.

    raises  CorruptCheckpoint when the version is unknown, the count is wrong, the last line is cut
            or the text is not UTF-8
    """
    if not data:
        return []
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"not UTF-8 at byte {error.start}") from None
    lines = text.split("\n")
    if lines.pop():
        raise CorruptCheckpoint("the last line is cut short")
    if lines[0] != "0":
        raise CorruptCheckpoint(f"unknown version {lines[0][:40]!r}, expected '0'")
    if len(lines) < 2:
        raise CorruptCheckpoint("the line with the number of entries is missing")
    count = decode_number(lines[1], maximum=_PARTITION_MAX)
    if count != len(lines) - 2:
        raise CorruptCheckpoint(f"{count} entries announced, {len(lines) - 2} found")
    return lines[2:]


def decode_number(text: str, *, maximum: int = _OFFSET_MAX) -> int:
    """A decimal number in 0..maximum, written as Kafka writes it; else CorruptCheckpoint."""
    if _NUMBER.match(text) is None or (number := int(text)) > maximum:
        raise CorruptCheckpoint(f"{text[:40]!r} is not a number from 0 to {maximum}")
    return number


def encode_offsets(offsets: Mapping[PartitionName, int]) -> bytes:
    """The bytes of an offset checkpoint, lines in the order of the mapping."""
    return encode_lines(
        f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
    )


def decode_offsets(data: bytes) -> dict[PartitionName, int]:
    """Offset per (topic, partition).

    raises  CorruptCheckpoint; also when a partition is named twice
    """
    offsets: dict[PartitionName, int] = {}
    for line in decode_lines(data):
        fields = line.split(" ")
        if len(fields) != 3 or not fields[0]:
            raise CorruptCheckpoint(f"expected topic, partition and offset, found {line[:300]!r}")
        key = (fields[0], decode_number(fields[1], maximum=_PARTITION_MAX))
        if key in offsets:
            raise CorruptCheckpoint(f"{key[0]}-{key[1]} is named twice")
        offsets[key] = decode_number(fields[2])
    return offsets


def read_offsets(files: FileSystem, path: str) -> dict[PartitionName, int]:
    """The checkpoint at `path`; empty when there is no file.

    raises  CorruptCheckpoint, with the path in its message; OSError
    """
    if not files.exists(path):
        return {}
    try:
        return decode_offsets(files.read(path))
    except CorruptCheckpoint as error:
        raise CorruptCheckpoint(f"malformed checkpoint {path}: {error}") from None
