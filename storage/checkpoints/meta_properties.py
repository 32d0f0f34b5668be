"""`meta.properties`: whose data a directory of log.dirs holds.

    #
    #Tue Jul 01 12:00:00 UTC 2025
    broker.id=1
    version=0
    cluster.id=kVSgfurUQFGGpHMTBqBPiw

Java's properties format.  Version 0 is that of ZooKeeper mode; version 1, of directories that
`odradek storage format` or Apache's kafka-storage has formatted for KRaft, calls the id node.id and
always has both ids.  Every directory of a broker carries the same broker id and cluster id; a
directory of another broker or cluster is refused before a log is read.

Source: Kafka's MetaProperties, MetaPropertiesEnsemble.verify; KIP-78, KIP-631.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from odradek.runtime.files import FileSystem
from odradek.runtime.java_properties import PropertiesError, parse_properties

META_PROPERTIES_FILE = "meta.properties"

_WRITTEN = {
    "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f",
    "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!",
}  # fmt: skip
BYTES_MAX = 64 << 10
"""Bytes; Kafka writes some hundred, and a large file would be decoded for minutes."""
ZOOKEEPER_VERSION = 0
KRAFT_VERSION = 1

_ID_KEYS = {ZOOKEEPER_VERSION: "broker.id", KRAFT_VERSION: "node.id"}
_NUMBER = re.compile(r"-?[0-9]{1,10}\Z")


class MetaPropertiesError(Exception):
    """The file is unreadable or belongs to someone else; one line for the operator."""


class MetaProperties(NamedTuple):
    """What the file says; None stands for a line that is missing."""

    broker_id: int | None
    cluster_id: str | None
    directory_id: str | None = None
    """22 characters of base64; written by a format and by brokers that migrate to KRaft, kept as
    it is."""
    version: int = ZOOKEEPER_VERSION


def encode_meta_properties(properties: MetaProperties, *, date: str) -> bytes:
    """The bytes of the file.

    date  the comment line as Java writes it, such as "Tue Jul 01 12:00:00 UTC 2025"
    """
    assert "\n" not in date, "the date is one line"
    lines = ["#", f"#{date}", *meta_property_lines(properties)]
    return "\n".join((*lines, "")).encode("latin-1")


def meta_property_lines(properties: MetaProperties) -> list[str]:
    """`key=value` of each property that is there, in the order of the file."""
    lines: list[str] = []
    if properties.broker_id is not None:
        lines.append(f"{_ID_KEYS[properties.version]}={properties.broker_id}")
    lines.append(f"version={properties.version}")
    if properties.directory_id is not None:
        lines.append(f"directory.id={_escape(properties.directory_id)}")
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={_escape(properties.cluster_id)}")
    return lines


def decode_meta_properties(data: bytes) -> MetaProperties:
    """What the bytes say.

    raises  MetaPropertiesError: text that Java refuses, an unknown version, an id that is not a
            number, or one that is missing although the version always has it
    """
    try:
        values = parse_properties(data)
    except PropertiesError as error:
        raise MetaPropertiesError(str(error)) from None
    text = values.get("version", "0").strip()
    version = int(text) if text in ("0", "1") else None
    if version is None:
        raise MetaPropertiesError(f"version '{text[:40]}' is not 0 (ZooKeeper) or 1 (KRaft)")
    key = _ID_KEYS[version]
    broker_id: int | None = None
    if key in values:
        text = values[key].strip()
        if _NUMBER.match(text) is None:
            raise MetaPropertiesError(f"{key} '{text[:40]}' is not a number")
        broker_id = int(text)
    cluster_id = values.get("cluster.id")
    if version == KRAFT_VERSION and (broker_id is None or cluster_id is None):
        missing = key if broker_id is None else "cluster.id"
        raise MetaPropertiesError(f"{missing} is missing, which version 1 (KRaft) always has")
    return MetaProperties(broker_id, cluster_id, values.get("directory.id"), version)


def read_meta_properties(files: FileSystem, directory: str) -> MetaProperties | None:
    """What meta.properties in `directory` says, None when there is none.

    raises  MetaPropertiesError with the path in its message; OSError
    """
    path = f"{directory}/{META_PROPERTIES_FILE}"
    if not files.exists(path):
        return None
    size = files.size(path)
    if size > BYTES_MAX:
        raise MetaPropertiesError(f"cannot use {path}: it has {size} bytes, more than {BYTES_MAX}")
    try:
        return decode_meta_properties(files.read(path))
    except MetaPropertiesError as error:
        raise MetaPropertiesError(f"cannot use {path}: {error}") from None


def write_meta_properties(
    files: FileSystem, directory: str, properties: MetaProperties, *, date: str
) -> None:
    """Replace meta.properties in `directory` atomically and durably."""
    files.replace(
        f"{directory}/{META_PROPERTIES_FILE}", encode_meta_properties(properties, date=date)
    )


def check_meta_properties(
    by_directory: Mapping[str, MetaProperties], *, broker_id: int | None, cluster_id: str | None
) -> None:
    """Assure that all directories belong to this broker.

    found       per directory that has a meta.properties
    broker_id   as configured; None when it is to be taken from the directories (broker.id=-1)
    cluster_id  of the cluster that the broker has joined; None when not known yet
    raises      MetaPropertiesError, naming the file and both values
    """
    seen_directory_ids: dict[str, str] = {}
    for directory, properties in by_directory.items():
        path = f"{directory}/{META_PROPERTIES_FILE}"
        if properties.cluster_id is not None:
            if cluster_id is None:
                cluster_id = properties.cluster_id
            elif properties.cluster_id != cluster_id:
                raise MetaPropertiesError(
                    f"{path} belongs to cluster '{properties.cluster_id}', "
                    f"this broker joins '{cluster_id}'; check log.dirs, and zookeeper.connect or "
                    "controller.quorum.*"
                )
        if properties.broker_id is not None:
            if broker_id is None:
                broker_id = properties.broker_id
            elif properties.broker_id != broker_id:
                raise MetaPropertiesError(
                    f"{path} belongs to broker {properties.broker_id}, this one is broker "
                    f"{broker_id}; check broker.id and log.dirs"
                )
        if properties.directory_id is not None:
            other = seen_directory_ids.setdefault(properties.directory_id, directory)
            if other != directory:
                raise MetaPropertiesError(f"{path} has the same directory.id as {other}")


def stored_broker_id(by_directory: Mapping[str, MetaProperties]) -> int | None:
    """The broker id that the directories carry, None when none carries one."""
    ids = (properties.broker_id for properties in by_directory.values())
    return next((broker_id for broker_id in ids if broker_id is not None), None)


def stored_cluster_id(by_directory: Mapping[str, MetaProperties]) -> str | None:
    """The cluster id that the directories carry, None when none carries one."""
    ids = (properties.cluster_id for properties in by_directory.values())
    return next((cluster_id for cluster_id in ids if cluster_id is not None), None)


def _escape(text: str) -> str:
    written = "".join(
        _WRITTEN.get(c, c) if " " <= c <= "~" or c in _WRITTEN else f"\\u{ord(c):04X}" for c in text
    )
    return f"\\{written}" if written.startswith(" ") else written
