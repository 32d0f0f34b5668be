"""`partition.metadata` in a partition's folder: the id of its topic (KIP-516).

    version: 0
    topic_id: kVSgfurUQFGGpHMTBqBPiw        22 characters of URL-safe base64, no newline at the end

A topic that is deleted and created again under the same name has another id, so a broker that was
offline meanwhile cannot take old data for new.

Source: Kafka's PartitionMetadataFile, PartitionMetadata.
"""

from __future__ import annotations

import base64
import re
from contextlib import closing
from typing import Final
from uuid import UUID

from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.files import FileSystem

PARTITION_METADATA_FILE = "partition.metadata"

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}\Z")
_SIZE_MAX: Final = 4 << 10
"""Bytes; there are 43."""


class CorruptPartitionMetadata(Exception):
    """The file does not hold a topic id; the message names the file."""


def encode_topic_id(topic_id: UUID) -> str:
    """22 characters, as Kafka prints topic ids."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode()[:22]


def decode_topic_id(text: str) -> UUID:
    """The topic id of its 22 characters; ValueError for anything else."""
    if _TOPIC_ID.match(text) is None:
        raise ValueError(f"{text!r} is not 22 characters of URL-safe base64")
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """The bytes of the file."""
    assert topic_id != ZERO_UUID, "a partition is not marked as having no topic id"
    return f"version: 0\ntopic_id: {encode_topic_id(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> UUID:
    """The topic id; CorruptPartitionMetadata when there is none or the version is not 0."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise CorruptPartitionMetadata(f"not UTF-8 at byte {error.start}") from None
    if lines[0] != "version: 0":
        raise CorruptPartitionMetadata(f"the first line is {lines[0]!r}, expected 'version: 0'")
    name, separator, value = lines[1].partition(": ") if len(lines) > 1 else ("", "", "")
    if name != "topic_id" or not separator or any(lines[2:]):
        raise CorruptPartitionMetadata("expected one line 'topic_id: <id>' after the version")
    try:
        topic_id = decode_topic_id(value)
    except ValueError as error:
        raise CorruptPartitionMetadata(str(error)) from None
    if topic_id == ZERO_UUID:
        raise CorruptPartitionMetadata("the topic id is zero")
    return topic_id


def read_topic_id(files: FileSystem, directory: str) -> UUID | None:
    """The topic id in a partition's folder, None when there is no file.

    raises  CorruptPartitionMetadata with the path in its message; OSError
    """
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not files.exists(path):
        return None
    size = files.size(path)
    if size > _SIZE_MAX:
        raise CorruptPartitionMetadata(f"malformed {path}: it has {size} bytes")
    try:
        return decode_partition_metadata(files.read(path))
    except CorruptPartitionMetadata as error:
        raise CorruptPartitionMetadata(f"malformed {path}: {error}") from None


def write_new_topic_id(files: FileSystem, directory: str, topic_id: UUID) -> None:
    """Write the topic id into the folder of a new partition; not synced.

    A file that a power cut has emptied is malformed.
    """
    with closing(files.open(f"{directory}/{PARTITION_METADATA_FILE}", create=True)) as file:
        file.append((encode_partition_metadata(topic_id),))


def write_topic_id(files: FileSystem, directory: str, topic_id: UUID) -> None:
    """Write the topic id of a partition, atomically and durably."""
    files.replace(f"{directory}/{PARTITION_METADATA_FILE}", encode_partition_metadata(topic_id))
