"""Truncates logs, and writes what the next start must know of it.

A truncation may move the recovery point back.  That must be on disk before anything is appended
again: after a crash everything below the former recovery point would count as checked.  So must the
removal of segments: one that came back could fit after what was appended since.

Followers truncate to the leader's log with it, once brokers replicate.

Source: Kafka's LogManager.truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.storage.checkpoints.checkpoint_file import TopicPartition
from odradek.storage.directories.disk_jobs import RemoveFiles
from odradek.storage.directories.log_directory import LogDirectory
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.log.log import TruncatedFiles


def truncate(manager: LogManager, offsets: Mapping[TopicPartition, int], *, now_ms: int) -> None:
    """Drop the batches at or after an offset, in several logs; unknown partitions are skipped.

    raises  NoDirectoryLeft; logs whose disk fails go offline.  BrokerError IndexUnready: a log was
            not truncated, nor those after it; call again when its indexes are rebuilt
    cost    one fsync per log that lost a segment, and one per directory where a recovery point
            or a cleaner offset went back
    """
    touched: dict[str, LogDirectory] = {}
    for key, offset in offsets.items():
        log = manager.get(*key)
        if log is None:
            continue
        directory = manager.directory_of(log)
        former = log.recovery_point
        try:
            truncation = log.truncate_to(offset, now_ms=now_ms)
            if truncation is not None and truncation.paths:
                _remove_later(manager, directory, truncation, now_ms)
                manager.files.sync_directory(log.directory)
        except (OSError, CorruptBatch) as error:
            manager.take_offline(directory, error)
            continue
        if directory.note_truncated(log) or log.recovery_point != former:
            touched[directory.path] = directory
    _checkpoint(manager, touched.values())


def truncate_fully(
    manager: LogManager,
    topic: str,
    partition: int,
    offset: int,
    *,
    log_start_offset: int | None = None,
    now_ms: int,
) -> None:
    """Remove all batches of a log; the next one is appended at `offset`.  The rest as `truncate`.

    log_start_offset  as `Log.truncate_fully_and_start_at`
    """
    log = manager.get(topic, partition)
    if log is None:
        return
    directory = manager.directory_of(log)
    try:
        truncation = log.truncate_fully_and_start_at(
            offset, log_start_offset=log_start_offset, now_ms=now_ms
        )
        _remove_later(manager, directory, truncation, now_ms)
        directory.note_truncated(log)
        manager.files.sync_directory(log.directory)
    except OSError as error:
        manager.take_offline(directory, error)
    _checkpoint(manager, [directory])


def _remove_later(
    manager: LogManager, directory: LogDirectory, truncation: TruncatedFiles, now_ms: int
) -> None:
    """Removing large files takes long: `Upkeep.remove` returns them as jobs for a thread."""
    manager.removals.append((now_ms, RemoveFiles(directory.path, truncation.paths)))


def _checkpoint(manager: LogManager, directories: Iterable[LogDirectory]) -> None:
    for directory in directories:
        if directory.is_online:
            try:
                directory.write_now(directory.checkpoints())
            except OSError as error:
                manager.take_offline(directory, error)
