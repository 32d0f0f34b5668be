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

META_PROPERTIES_FILE = "meta.properties"
BYTES_MAX = 64 << 10
"""The file has four lines; a large one would be decoded for minutes."""

_ESCAPE = r"(?s)\\(u[0-9a-fA-F]{4}|.)"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {
    "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f",
    "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!",
}  # fmt: skip
_SIZE_MAX = 64 << 10
"""Bytes; Kafka writes some hundred."""
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

    raises  MetaPropertiesError: an unknown version, an id that is not a number, or one that is
            missing although the version always has it
    """
    values = _decode_java_properties(data.decode("latin-1"))
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
    if size > _SIZE_MAX:
        raise MetaPropertiesError(f"cannot use {path}: it has {size} bytes, more than {_SIZE_MAX}")
    try:
        if files.size(path) > BYTES_MAX:
            raise MetaPropertiesError(f"it has more than {BYTES_MAX} bytes")
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


def _decode_java_properties(text: str) -> dict[str, str]:
    return dict(map(_split_line, _logical_lines(text)))


def _split_line(line: str) -> tuple[str, str]:
    """Split a line into key and value at the first unescaped `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(" \t\f")
    if value.startswith(("=", ":")):
        value = value[1:].lstrip(" \t\f")
    return _unescape(line[:end]), _unescape(value)


def _logical_lines(text: str) -> list[str]:
    """Lines without comments and blank ones, those ended by a backslash joined."""
    lines: list[str] = []
    pending: str | None = None
    for raw in re.split(r"\r\n|\n|\r", text):
        line = raw.lstrip(" \t\f")
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = line if pending is None else pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
        else:
            pending = None
            lines.append(line)
    if pending:
        lines.append(pending)
    return lines


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    return re.sub(_ESCAPE, character, text)


def _escape(text: str) -> str:
    written = "".join(
        _WRITTEN.get(c, c) if " " <= c <= "~" or c in _WRITTEN else f"\\u{ord(c):04X}" for c in text
    )
    return f"\\{written}" if written.startswith(" ") else written
