"""Deletes the logs of one request: each is taken out within a call, then a job makes that durable.

Source: Kafka's ReplicaManager.stopPartitions, LogManager.asyncDelete.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.storage.checkpoints.checkpoint_file import PartitionName
from odradek.storage.directories.disk_jobs import SyncDeletion
from odradek.storage.directories.log_manager import LogManager


class LogDeletion:
    """The logs that one request deletes; `Upkeep.remove` returns their folders when they are due.

    failed  partitions whose log may still be on a disk: KAFKA_STORAGE_ERROR
    """

    __slots__ = ("_keys", "_manager", "_now_ms", "_syncs_left", "_unique", "failed")

    def __init__(self, manager: LogManager, *, unique: str, now_ms: int) -> None:
        """unique  32 hexadecimal digits that were not used before"""
        self._manager = manager
        self._unique = unique
        self._now_ms = now_ms
        self._keys: dict[str, list[PartitionName]] = {}
        """Per directory, those of which a log was taken out."""
        self._syncs_left = 0
        self.failed: dict[PartitionName, None] = {}

    def remove(self, key: PartitionName) -> None:
        """Take the log of a partition out, and its copy on the way to another directory.

        raises  NoDirectoryLeft
        cost    a rename for each
        """
        logs = self._manager.logs_of(key)
        if not logs and self._manager.offline_directories:
            self.failed[key] = None
        for log in logs:
            path = self._manager.directory_of(log).path
            self._keys.setdefault(path, []).append(key)
            self._manager.set_aside(log, self._unique, self._now_ms)

    def sync(self, on_end: Callable[[], None]) -> list[SyncDeletion]:
        """What makes the deletions durable; nothing is removed after this.

        on_end  called once when all of the jobs have ended, at once when there are none
        """
        jobs: list[SyncDeletion] = []

        def ended(directory: str, *, is_durable: bool) -> None:
            self._syncs_left -= 1
            if not is_durable:
                self.failed |= dict.fromkeys(self._keys[directory])
            if not self._syncs_left:
                on_end()

        for path, keys in self._keys.items():
            if self._manager.directories[path].is_online:
                jobs.append(SyncDeletion(path, ended))
            else:
                self.failed |= dict.fromkeys(keys)
        self._syncs_left = len(jobs)
        if not jobs:
            on_end()
        return jobs
