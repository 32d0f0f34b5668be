"""Where the files of a backup are: a folder, or a bucket of S3's protocol; and the batches in them.

A file is written once, under a name of its own, and appears whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, Final, Protocol

from odradek.bounded_files import open_file, system_error_text
from odradek.extras import missing_library
from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import (
    RecordBatch,
    has_valid_crc,
    iterate_batches,
    whole_batch_size,
)
from odradek.tools.backup.manifest import BackupError, BackupFile, PartitionBackup

CHUNK_BYTES: Final = 4 << 20
S3: Final = "s3://"
NOT_FOUND: Final = ("404", "NoSuchKey", "NotFound")


class MissingFile(BackupError):
    """The store has no file of this name."""


class FileWriter(Protocol):
    """A file that is being written; it is not in the store before `commit`."""

    def write(self, data: memoryview | bytes) -> object:
        """Append bytes; raises  OSError, BackupError."""

    def commit(self) -> None:
        """Put the file into the store, durably; raises  OSError, BackupError."""

    def discard(self) -> None:
        """Remove what was written."""


class Store(Protocol):
    """Files by name; parts of a name are separated by slashes."""

    def create(self, name: str) -> FileWriter:
        """Begin a file, which replaces one of its name; raises  OSError, BackupError."""

    def read(self, name: str) -> Iterator[bytes]:
        """The content in chunks of at most CHUNK_BYTES; raises  MissingFile, OSError."""

    def names(self, folder: str) -> list[str]:
        """The names of all files below a folder; raises  OSError, BackupError."""

    def remove(self, name: str) -> None:
        """Remove a file, which may be missing; raises  OSError, BackupError."""


def open_store(place: str) -> Store:
    """The store of `--to` and `--from`.

    place   a folder, or `s3://bucket/prefix`
    raises  BackupError
    """
    if place.startswith(S3):
        bucket, _, prefix = place.removeprefix(S3).partition("/")
        if not bucket:
            raise BackupError(f"{place} names no bucket (s3://bucket/prefix)")
        return S3Store(bucket, prefix.strip("/"))
    if not place:
        # As the working directory it would be taken for a variable of a shell that is not set.
        raise BackupError("the place of the backup has no name")
    return FolderStore(Path(place))


class FolderStore:
    """Files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, name: str) -> FileWriter:
        return _LocalWriter(self._folder, name)

    def read(self, name: str) -> Iterator[bytes]:
        try:
            file = open_file(self._folder / name)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingFile(f"{self._folder / name} is missing") from error
        with file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def names(self, folder: str) -> list[str]:
        return sorted(
            str((Path(where) / name).relative_to(self._folder))
            for where, _, names in os.walk(self._folder / folder)
            for name in names
        )

    def remove(self, name: str) -> None:
        path = self._folder / name
        path.unlink(missing_ok=True)
        # Folders that are empty now.
        for parent in path.parents:
            if parent == self._folder or any(parent.iterdir()):
                break
            parent.rmdir()


class _LocalWriter:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._path = folder / name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._partial = self._path.with_name(f"{self._path.name}.tmp")
        # Records are as private as those of log directories.
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(descriptor, "wb")

    def write(self, data: memoryview | bytes) -> object:
        with _named(self._path):
            return self._file.write(data)

    def commit(self) -> None:
        with _named(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        os.replace(self._partial, self._path)
        folder = self._path.parent
        while True:
            _sync_folder(folder)
            if folder == self._folder:
                break
            folder = folder.parent

    def discard(self) -> None:
        # What is buffered is not needed, and a full disk refuses it again.
        with suppress(OSError):
            self._file.close()
        self._partial.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the path to an error of an open file, which names none: a full disk."""
    try:
        yield
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {system_error_text(error)}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3Store:
    """Objects of a bucket; address and credentials as boto3 finds them (AWS_ENDPOINT_URL, ...)."""

    def __init__(self, bucket: str, prefix: str) -> None:
        """raises  BackupError when boto3 is missing or not configured"""
        try:
            import boto3
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise BackupError(missing_library("boto3", "s3")) from error
        self.failures: tuple[type[Exception], ...] = (BotoCoreError, ClientError)
        self._place = f"{S3}{bucket}/{prefix}"
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        try:
            self._client: Any = boto3.client("s3")
        except self.failures as error:
            raise self._failed("open", error) from error

    def _failed(self, what: str, error: Exception) -> BackupError:
        reason = " ".join(str(error).split())
        return BackupError(f"{self._place}: cannot {what}: {reason}")

    def create(self, name: str) -> FileWriter:
        return _S3Writer(self, name)

    def put(self, name: str, file: IO[bytes]) -> None:
        """Store a file from its start; S3 compares a checksum of what it receives."""
        file.seek(0)
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + name, Body=file, ChecksumAlgorithm="SHA256"
            )
        except self.failures as error:
            raise self._failed(f"write {name}", error) from error

    def read(self, name: str) -> Iterator[bytes]:
        try:
            body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)["Body"]
            yield from body.iter_chunks(CHUNK_BYTES)
        except self.failures as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code")
            if code in NOT_FOUND:
                raise MissingFile(f"{self._place}/{name} is missing") from error
            raise self._failed(f"read {name}", error) from error

    def names(self, folder: str) -> list[str]:
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=f"{self._prefix}{folder}/"
            )
            return sorted(
                row["Key"].removeprefix(self._prefix)
                for page in pages
                for row in page.get("Contents", [])
            )
        except self.failures as error:
            raise self._failed("list", error) from error

    def remove(self, name: str) -> None:
        try:
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)
        except self.failures as error:
            raise self._failed(f"remove {name}", error) from error


class _S3Writer:
    def __init__(self, store: S3Store, name: str) -> None:
        self._store = store
        self._name = name
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by commit and discard

    def write(self, data: memoryview | bytes) -> object:
        with _named(Path(tempfile.gettempdir())):
            return self._file.write(data)

    def commit(self) -> None:
        self._store.put(self._name, self._file)
        self._file.close()

    def discard(self) -> None:
        self._file.close()


BATCH_BYTES_MAX: Final = 1 << 30
_EPOCH: Final = slice(12, 16)
"""The leader epoch: outside of the checksum, and set by the leader that appends the batch."""


def read_whole_batches(store: Store, file: BackupFile) -> Iterator[memoryview]:
    """The content of a file in pieces that end where a batch ends.

    Size and SHA-256 are checked at the end: nothing may become visible before.
    memory  two chunks of the store, or a batch if that is larger
    raises  BackupError for a file that is missing or damaged; OSError
    """
    digest = hashlib.sha256()
    size = 0
    rest = bytearray()
    for chunk in store.read(file.name):
        digest.update(chunk)
        size += len(chunk)
        if size > file.size_bytes:
            break
        rest += chunk
        end = _end_of_batches(file, rest)
        if end:
            yield memoryview(rest)[:end]
            # A new one: the caller may still hold the former.
            rest = rest[end:]
        elif len(rest) > BATCH_BYTES_MAX:
            break
    if size != file.size_bytes or digest.hexdigest() != file.sha256:
        raise BackupError(
            f"{file.name} is damaged: {size} bytes with SHA-256 {digest.hexdigest()}, expected "
            f"{file.size_bytes} bytes with {file.sha256}"
        )
    if rest:
        raise BackupError(f"{file.name} is damaged: its last batch is cut short")


def _end_of_batches(file: BackupFile, data: bytearray) -> int:
    view = memoryview(data)
    position = 0
    try:
        while (size := whole_batch_size(view, position)) is not None:
            position += size
    except BrokerError as error:
        raise BackupError(f"{file.name} is damaged: {error.message}") from error
    return position


def batches_of(store: Store, partition: PartitionBackup) -> Iterator[RecordBatch]:
    """The batches of a partition, each checked: its checksum, and offsets that ascend.

    Those that end at or below the log start offset are checked and left out.
    raises  BackupError, OSError
    """
    offset = 0
    for file in partition.files:
        for piece in read_whole_batches(store, file):
            for batch in _parse(file, piece):
                ends_in_file = batch.next_offset <= file.end_offset
                if batch.base_offset < offset or not ends_in_file or not has_valid_crc(batch):
                    raise BackupError(
                        f"{file.name} is damaged: the batch at offset {batch.base_offset}"
                    )
                offset = batch.next_offset
                if offset > partition.start_offset:
                    yield batch


def _parse(file: BackupFile, piece: memoryview) -> Iterator[RecordBatch]:
    try:
        yield from iterate_batches(piece)
    except BrokerError as error:
        raise BackupError(f"{file.name} is damaged: {error.message}") from error


def first_difference(left: Iterable[RecordBatch], right: Iterable[RecordBatch]) -> int | None:
    """The offset of the first batch that is not in both, byte for byte but for its leader epoch."""
    for mine, other in zip_longest(left, right):
        if mine is None or other is None or _content(mine) != _content(other):
            return min(batch.base_offset for batch in (mine, other) if batch is not None)
    return None


def _content(batch: RecordBatch) -> tuple[bytes, memoryview]:
    return bytes(batch.view[: _EPOCH.start]), batch.view[_EPOCH.stop :]
