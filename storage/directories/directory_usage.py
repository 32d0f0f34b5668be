"""How full the directories of log.dirs are: for DescribeLogDirs (KIP-113, KIP-827).

Source: Kafka's ReplicaManager.describeLogDirs, getLogEndOffsetLag.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final

from odradek.runtime.files import FileSystem
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.log.log import Log

LOGS_PER_STEP: Final = 64


@dataclass(frozen=True, slots=True)
class LogUsage:
    """One log."""

    topic: str
    partition: int
    size_bytes: int
    """Bytes of its batches, without indexes."""
    offset_lag: int
    """Records by which a copy on its way lags the log that it copies, -1 when that is not here; of
    the log itself, how far it ends below its high watermark."""
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
    manager: LogManager, files: FileSystem, *, is_wanted: Callable[[Log], bool]
) -> Generator[None, None, list[DirectoryUsage]]:
    """Every directory, in the order of log.dirs; yields after some logs, for work in between.

    is_wanted  which logs are described
    raises     NoDirectoryLeft: asking for the free space has shown that the last one failed
    cost       one statvfs per directory
    """
    usage: list[DirectoryUsage] = []
    for directory in tuple(manager.directories.values()):
        try:
            total_bytes, usable_bytes = files.space(directory.path)
        except OSError as error:
            manager.take_offline(directory, error)
        if not directory.is_online:
            usage.append(DirectoryUsage(directory.path, False, -1, -1, ()))
            continue
        described: list[LogUsage] = []
        for number, log in enumerate((*directory.logs.values(), *directory.future_logs.values())):
            if number % LOGS_PER_STEP == 0:
                yield
            if is_wanted(log):
                is_future = directory.future_logs.get((log.topic, log.partition)) is log
                lag = _lag(log, manager, is_future=is_future)
                described.append(
                    LogUsage(log.topic, log.partition, log.segments.size_bytes(), lag, is_future)
                )
        usage.append(
            DirectoryUsage(directory.path, True, total_bytes, usable_bytes, tuple(described))
        )
    return usage


def _lag(log: Log, manager: LogManager, *, is_future: bool) -> int:
    if not is_future:
        return max(log.high_watermark - log.end_offset, 0)
    current = manager.get(log.topic, log.partition)
    return -1 if current is None else current.end_offset - log.end_offset
