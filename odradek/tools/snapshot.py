"""The state of stopped brokers in one file, from which brokers of tests start.

A tar without compression.  Its first member, `snapshot.json`, has the version of the format, what
the brokers were started with and, of each other member, the size and the CRC-32; the others are
the files of the log directories, below a folder for each broker, which is named as its id.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, NamedTuple

from odradek.bounded_files import open_file
from odradek.bounded_parsing import UnreadableText, parse_json

CONTENTS: Final = "snapshot.json"
FORMAT: Final = "odradek-snapshot"
VERSION: Final = 2
LEFT_OUT: Final = frozenset({".lock"})
"""Files that say nothing of the state."""
META_PROPERTIES: Final = "meta.properties"
OF_ONE_START: Final = (
    "advertised.",
    "broker.id",
    "config.providers",
    "control.plane.",
    "host.name",
    "inter.broker.listener.name",
    "listener",
    "log.dir",
    "node.id",
    "odradek.api.",
    "odradek.embedded.zookeeper.",
    "odradek.fsync.",
    "odradek.zookeeper.",
    "port",
    "sasl.",
    "ssl.",
    "zookeeper.",
)
"""Prefixes of the settings that say where a broker runs or how it is reached, and not how it treats
its data: a snapshot does not contain them.  Those of a file that does are dropped: it may come from
somewhere else, and does not decide where a broker listens."""
MODE: Final = 0o600
"""The mode of a snapshot: only its owner may read it, as log directories."""
HEAD_BYTES_MAX: Final = 16 << 20


class SnapshotError(OSError):
    """A file is not a snapshot, is damaged, or has another version."""


class Snapshot(NamedTuple):
    """The facts about a snapshot, without its files.

    broker_ids  of its brokers, ascending
    settings    that the brokers were started with, as in server.properties
    ahead_ms    how far their clock was advanced
    """

    broker_ids: Sequence[int]
    settings: Mapping[str, str]
    ahead_ms: int

    def choose(self, broker_id: int | None) -> int:
        """The id of the broker to start.

        broker_id  that was asked for, or None
        raises     SnapshotError
        """
        ids = ", ".join(map(str, self.broker_ids))
        if broker_id is None:
            if len(self.broker_ids) == 1:
                return self.broker_ids[0]
            raise SnapshotError(f"the snapshot is of a cluster: broker.id is one of {ids}")
        if broker_id in self.broker_ids:
            return broker_id
        raise SnapshotError(f"the snapshot has no broker {broker_id}: broker.id is one of {ids}")


def kept(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that a snapshot contains."""
    return {name: settings[name] for name in settings if not name.startswith(OF_ONE_START)}


def save(
    folders: Sequence[str], path: str, *, settings: Mapping[str, str], ahead_ms: int = 0
) -> None:
    """Write the files of log directories whose brokers have stopped; replaces `path` at the end.

    settings  that the brokers were started with
    raises    OSError
    """
    by_id = {_broker_id(folder): folder for folder in folders}
    files = {
        f"{broker_id}/{os.path.relpath(os.path.join(where, name), folder)}": os.path.join(
            where, name
        )
        for broker_id, folder in by_id.items()
        for where, _, names in os.walk(folder)
        for name in names
        if name not in LEFT_OUT
    }
    content = {}
    for name in sorted(files):
        with open(files[name], "rb") as file:
            data = file.read()
        content[name] = [len(data), zlib.crc32(data)]
    about = {
        "format": FORMAT,
        "version": VERSION,
        "broker_ids": sorted(by_id),
        "settings": kept(settings),
        "ahead_ms": ahead_ms,
        "files": content,
    }
    text = json.dumps(about).encode()
    partial = f"{path}.{os.getpid()}.tmp"
    try:
        with _private_file(partial) as whole, tarfile.open(fileobj=whole, mode="w") as archive:
            head = tarfile.TarInfo(CONTENTS)
            head.size = len(text)
            archive.addfile(head, io.BytesIO(text))
            for name in content:
                archive.add(files[name], name, recursive=False)
        os.replace(partial, path)
    except OSError:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def _private_file(path: str) -> BinaryIO:
    """A new file that only its owner may read; raises OSError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE), "wb")


def _broker_id(folder: str) -> int:
    """raises  OSError; SnapshotError for a broker that was never started"""
    with open(os.path.join(folder, META_PROPERTIES), encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition("=")
            if name.strip() == "broker.id":
                return int(value)
    raise SnapshotError(f"{META_PROPERTIES} in {folder} has no broker.id")


def describe(path: str) -> Snapshot:
    """Read the facts about a snapshot, which are its first member.

    raises  SnapshotError; OSError
    """
    with _opened(path) as (_, about):
        return _snapshot(about)


def load(path: str, folder: str, broker_id: int | None = None) -> Snapshot:
    """Write the files of one broker into an empty folder.

    broker_id  None: of a snapshot that has one broker only
    raises     SnapshotError; OSError
    """
    with _opened(path) as (archive, about):
        snapshot = _snapshot(about)
        prefix = f"{snapshot.choose(broker_id)}/"
        expected = about["files"]
        missing = {name for name in expected if name.startswith(prefix)}
        while (member := archive.next()) is not None:
            name = member.name
            if not name.startswith(prefix):
                continue
            data = _read(archive, member)
            if expected.get(name) != [len(data), zlib.crc32(data)]:
                raise SnapshotError(f"the snapshot {path} is damaged: {name}")
            missing.discard(name)
            _write(folder, name.removeprefix(prefix), data, member.mtime)
        if missing:
            raise SnapshotError(f"the snapshot {path} is damaged: {min(missing)} is missing")
        return snapshot


@contextmanager
def _opened(path: str) -> Iterator[tuple[tarfile.TarFile, Any]]:
    """The archive after its first member, and the content of this one.

    raises  SnapshotError; OSError
    """
    try:
        with open_file(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            head = archive.next()
            if head is None or head.name != CONTENTS:
                raise SnapshotError(f"{path} is not a snapshot of a broker")
            if head.size > HEAD_BYTES_MAX:
                raise SnapshotError(f"{CONTENTS} in {path} has more than {HEAD_BYTES_MAX} bytes")
            about = parse_json(_read(archive, head))
            if about.get("format") != FORMAT or about.get("version") != VERSION:
                version = about.get("version")
                raise SnapshotError(
                    f"{path} is a snapshot of version {version}; this release reads {VERSION}"
                )
            yield archive, about
    except (
        *(tarfile.TarError, EOFError),
        *(KeyError, ValueError, AttributeError, TypeError),
    ) as error:
        # Other texts are those of Python.
        is_readable = isinstance(error, tarfile.TarError | UnreadableText)
        reason = f": {error}" if is_readable else ""
        raise SnapshotError(f"{path} is not a snapshot of a broker, or damaged{reason}") from error


def _snapshot(about: Any) -> Snapshot:
    """raises  KeyError, TypeError, UnreadableText"""
    broker_ids, settings, ahead_ms = about["broker_ids"], about["settings"], about["ahead_ms"]
    is_typed = (
        all(type(broker_id) is int for broker_id in broker_ids)
        and all(isinstance(settings[name], str) for name in settings)
        and type(ahead_ms) is int
    )
    if not is_typed:
        raise UnreadableText(f"a value of {CONTENTS} has another type")
    return Snapshot(broker_ids, kept(settings), ahead_ms)


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    # A sparse file is as large as it says.
    if file is None or member.issparse():
        raise tarfile.TarError(f"{member.name} is not a file")
    return file.read()


def _write(folder: str, name: str, data: bytes, modified_s: float) -> None:
    target = os.path.join(folder, name)
    if os.path.commonpath((folder, os.path.realpath(target))) != os.path.realpath(folder):
        raise tarfile.TarError(f"{name} is outside of the folder")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(data)
    # The age of a segment decides on its retention when its records have no timestamps.
    os.utime(target, (modified_s, modified_s))
