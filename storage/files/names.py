"""Names of files and folders in a log directory.

A segment's files carry its base offset in 20 digits; a producer snapshot the offset it reaches to
(exclusive).  A partition's folder is `<topic>-<partition>`; three endings mark one that is not
served: `.<unique>-delete` (to be removed), `.<unique>-future` (a copy on its way from another
directory), `.<unique>-stray` (a replica that is not assigned to this broker, or whose topic is
unknown).

Source: Kafka's LogFileUtils, LocalLog.parseTopicPartitionName.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

DELETED: Final = ".deleted"
"""Taken out of the log, removed after file.delete.delay.ms or at the next start."""
CLEANED: Final = ".cleaned"
"""Being written by the cleaner."""
SWAP: Final = ".swap"
"""Written completely by the cleaner, about to replace what it was made of."""
NOT_A_FILE: Final = ".not-a-file"
"""A folder or the like that had the name of an index or a snapshot."""

DELETE_FOLDER: Final = "-delete"
FUTURE_FOLDER: Final = "-future"
STRAY_FOLDER: Final = "-stray"

CLUSTER_METADATA_FOLDER: Final = "__cluster_metadata-0"
"""A log directory that a KRaft broker used has it; it is not a partition that is served."""

FOLDER_NAME_MAX: Final = 255
PARTITION_MAX: Final = 2**31 - 1
_DIGITS: Final = 20
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
"""Source: Kafka's Topic.containsValidPattern."""
BASE_OFFSET_MAX: Final = 2**63 - 2**40
"""A segment that begins later can take no records: its name is damage, or not ours."""


class PartitionFolder(NamedTuple):
    """The parts of a folder's name."""

    topic: str
    """Shortened where the whole name would pass 255 characters (never without a suffix)."""
    partition: int
    suffix: str
    """Empty, `-delete`, `-future` or `-stray`."""


def file_name(offset: int, suffix: str) -> str:
    """`00000000000000000042.log`."""
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """(offset, everything after its digits), None for files that are not a segment's."""
    digits = name[:_DIGITS]
    if len(name) <= _DIGITS or name[_DIGITS] != "." or not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return (offset, name[_DIGITS:]) if offset <= BASE_OFFSET_MAX else None


def folder_name(topic: str, partition: int) -> str:
    """The folder of a partition that is served."""
    return f"{topic}-{partition}"


def suffixed_folder_name(topic: str, partition: int, unique: str, suffix: str) -> str:
    """The folder of a partition that is not served; a long topic is shortened.

    unique  hexadecimal digits without dashes, so that a deleted topic can be created again at once
    """
    assert suffix in (DELETE_FOLDER, FUTURE_FOLDER, STRAY_FOLDER), "an unknown kind of folder"
    ending = f"-{partition}.{unique}{suffix}"
    return topic[: FOLDER_NAME_MAX - len(ending)] + ending


def parse_folder_name(name: str) -> PartitionFolder | None:
    """The parts of the name, None when it is not that of a partition's folder.

    Differs from Kafka, which takes a name that no topic can have, and cannot read the checkpoint
    that it writes of it.
    """
    for suffix in (DELETE_FOLDER, FUTURE_FOLDER, STRAY_FOLDER):
        if name.endswith(suffix):
            stem, dot, unique = name[: -len(suffix)].rpartition(".")
            if not dot or not unique:
                return None
            break
    else:
        stem, suffix = name, ""
    topic, dash, number = stem.rpartition("-")
    if not dash or not _TOPIC.fullmatch(topic) or not (number.isascii() and number.isdigit()):
        return None
    # Kafka's `toInt` fails, and the start with it.
    if int(number) > PARTITION_MAX:
        return None
    return PartitionFolder(topic, int(number), suffix)
