"""How full the directories of log.dirs are: what DescribeLogDirs answers (KIP-113, KIP-827).

Source: Kafka's ReplicaManager.describeLogDirs, getLogEndOffsetLag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.files import FileSystem
from storage.log import Log
from storage.log_directory import LogDirectory
from storage.manager import LogManager


@dataclass(frozen=True, slots=True)
class LogUsage:
    """One log."""

    topic: str
    partition: int
    size_bytes: int
    """Of its batches, without indexes."""
    offset_lag: int
    """How far a copy on its way is behind the log it copies, -1 when that is not here; of the log
    itself, how far it ends below its high watermark."""
    is_future: bool


@dataclass(frozen=True, slots=True)
class DirectoryUsage:
    """One directory; sizes are -1 and there are no logs when it is offline."""

    path: str
    is_online: bool
    total_bytes: int
    usable_bytes: int
    logs: tuple[LogUsage, ...]


def usage_of(
    manager: LogManager,
    files: FileSystem,
    high_watermark_of: Callable[[Log], int],
    *,
    is_wanted: Callable[[Log], bool],
) -> list[DirectoryUsage]:
    """Every directory, in the order of log.dirs.

    is_wanted  which logs to tell of
    raises     NoDirectoryLeft: asking for the free space has shown that the last one failed
    cost       one statvfs per directory
    """
    usage: list[DirectoryUsage] = []
    for directory in manager.directories.values():
        try:
            total_bytes, usable_bytes = files.space(directory.path)
        except OSError as error:
            manager.take_offline(directory, error)
        if not directory.is_online:
            usage.append(DirectoryUsage(directory.path, False, -1, -1, ()))
            continue
        logs = (
            *_logs(directory, manager, high_watermark_of, is_wanted),
            *_future_logs(directory, manager, is_wanted),
        )
        usage.append(DirectoryUsage(directory.path, True, total_bytes, usable_bytes, logs))
    return usage


def _logs(
    directory: LogDirectory,
    manager: LogManager,
    high_watermark_of: Callable[[Log], int],
    is_wanted: Callable[[Log], bool],
) -> list[LogUsage]:
    return [
        LogUsage(
            log.topic,
            log.partition,
            log.size_bytes(),
            max(high_watermark_of(log) - log.end_offset, 0),
            False,
        )
        for log in directory.logs.values()
        if is_wanted(log)
    ]


def _future_logs(
    directory: LogDirectory, manager: LogManager, is_wanted: Callable[[Log], bool]
) -> list[LogUsage]:
    usage: list[LogUsage] = []
    for log in directory.future_logs.values():
        if is_wanted(log):
            current = manager.get(log.topic, log.partition)
            lag = -1 if current is None else current.end_offset - log.end_offset
            usage.append(LogUsage(log.topic, log.partition, log.size_bytes(), lag, True))
    return usage
