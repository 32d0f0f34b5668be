"""Takes the partitions of a failed log directory out of service.

Source: Kafka's ReplicaManager.handleLogDirFailure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.broker.node.platform import Platform
from odradek.broker.replication.partitions import Partitions
from odradek.storage.directories.log_manager import LogManager

logger = logging.getLogger("odradek.background")


class DirectoryFailures:
    """Handles what `LogManager.take_failures` reports."""

    def __init__(self, platform: Platform, logs: LogManager, partitions: Partitions) -> None:
        self._logs = logs
        self._partitions = partitions
        self._purgatory = platform.purgatory
        self._metrics = platform.metrics
        self._observers: list[Callable[[], None]] = []

    def observe(self, observer: Callable[[], None]) -> None:
        """Call `observer` after each failure from now on."""
        self._observers.append(observer)

    def handle(self) -> None:
        """Mark the partitions of directories that have failed since the last call as offline."""
        failures = self._logs.take_failures()
        for failure in failures:
            logger.error(
                "directory %s is offline with %d partitions: %s",
                failure.path,
                len(failure.partitions),
                failure.reason,
            )
            self._metrics.storage_errors += 1
            for topic, index in failure.partitions:
                partition = self._partitions.get(topic, index)
                # Perhaps only a copy of its log was in the directory.
                if partition is not None and partition.log.directory.startswith(f"{failure.path}/"):
                    partition.log.head.go_offline()
                    self._purgatory.notify(partition)
                    self._purgatory.notify(partition.log_end_key)
        if failures:
            for observer in self._observers:
                observer()
