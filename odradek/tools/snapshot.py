"""The state of a stopped broker in one file, from which brokers of tests start.

A tar without compression.  Its first member, `snapshot.json`, has the version of the format and of
each other member the size and the CRC-32; the others are the files of the log directory.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import zlib
from typing import Final

CONTENTS: Final = "snapshot.json"
FORMAT: Final = "odradek-snapshot"
VERSION: Final = 1
LEFT_OUT: Final = frozenset({".lock"})
"""Files that say nothing of the state."""


class SnapshotError(OSError):
    """A file is no snapshot, damaged or of another version."""


def save(folder: str, path: str) -> None:
    """Write the files of a log directory whose broker has stopped; replaces `path` at the end.

    raises  OSError
    """
    names = sorted(
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, files in os.walk(folder)
        for name in files
        if name not in LEFT_OUT
    )
    content = {}
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        content[name] = [len(data), zlib.crc32(data)]
    text = json.dumps({"format": FORMAT, "version": VERSION, "files": content}).encode()
    partial = f"{path}.{os.getpid()}.tmp"
    try:
        with tarfile.open(partial, "w") as archive:
            head = tarfile.TarInfo(CONTENTS)
            head.size = len(text)
            archive.addfile(head, io.BytesIO(text))
            for name in names:
                archive.add(os.path.join(folder, name), name, recursive=False)
        os.replace(partial, path)
    except OSError:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def load(path: str, folder: str) -> None:
    """Write the files of a snapshot into an empty folder.

    raises  SnapshotError; OSError
    """
    try:
        with tarfile.open(path, "r:") as archive:
            head = archive.next()
            if head is None or head.name != CONTENTS:
                raise SnapshotError(f"{path} is not a snapshot of a broker")
            about = json.loads(_read(archive, head))
            if about.get("format") != FORMAT or about.get("version") != VERSION:
                version = about.get("version")
                raise SnapshotError(
                    f"{path} is a snapshot of version {version}; this release reads {VERSION}"
                )
            expected = about["files"]
            found = set()
            while (member := archive.next()) is not None:
                data = _read(archive, member)
                if expected.get(member.name) != [len(data), zlib.crc32(data)]:
                    raise SnapshotError(f"the snapshot {path} is damaged: {member.name}")
                found.add(member.name)
                _write(folder, member, data)
            if missing := sorted(expected.keys() - found):
                raise SnapshotError(f"the snapshot {path} is damaged: {missing[0]} is missing")
    except (tarfile.TarError, EOFError, KeyError, ValueError, AttributeError) as error:
        raise SnapshotError(f"{path} is not a snapshot of a broker, or damaged: {error}") from error


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    if file is None:
        raise tarfile.TarError(f"{member.name} is not a file")
    return file.read()


def _write(folder: str, member: tarfile.TarInfo, data: bytes) -> None:
    target = os.path.join(folder, member.name)
    if os.path.commonpath((folder, os.path.realpath(target))) != os.path.realpath(folder):
        raise tarfile.TarError(f"{member.name} is outside of the folder")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(data)
    # The age of a segment decides on its retention when its records have no timestamps.
    os.utime(target, (member.mtime, member.mtime))
