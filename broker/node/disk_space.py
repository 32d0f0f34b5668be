"""Looks whether log directories that refused appends have space, and lets the controller know.

The look is a write: quotas and used-up inodes do not show in the size of what is free.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from odradek.broker.node.disk_job_runner import DiskJobRunner
from odradek.broker.node.platform import Platform
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.resting_replicas import RestingReplicas
from odradek.runtime.files import FileSystem

PROBE_NAME: Final = "space.probe"
PROBE_BYTES: Final = 1 << 20
FREE_MIN_BYTES: Final = 4 << 20
FREE_MAX_BYTES: Final = 1 << 30
"""A directory has space when a twentieth of its volume is free, within these bounds."""

logger = logging.getLogger("odradek.background")


class DiskSpace:
    """The looks of one node."""

    def __init__(
        self,
        platform: Platform,
        resting: RestingReplicas,
        partitions: Partitions,
        jobs: DiskJobRunner,
    ) -> None:
        self._files = platform.files
        self._full = platform.full_directories
        self._clock = platform.clock
        self._resting = resting
        self._partitions = partitions
        self._jobs = jobs

    def look(self) -> bool:
        """Begin the looks that are due, in threads; call it once a second.

        returns  whether the controller must look at the replicas of this broker again
        """
        now_ms = self._clock.monotonic_ms()
        for path in self._full.begin_looks(now_ms):
            self._begin_look(path)
        return self._resting.is_report_due(self._partitions.all(), now_ms)

    def _begin_look(self, path: str) -> None:
        looks: list[bool] = []

        def done() -> None:
            has_space = looks[0]
            is_changed = self._full.on_looked(
                path, has_space=has_space, now_ms=self._clock.monotonic_ms()
            )
            if not is_changed:
                return
            if has_space:
                logger.info("directory %s has space again: its replicas follow again", path)
            else:
                logger.warning(
                    "directory %s has no space: other in-sync replicas lead in place of its own",
                    path,
                )

        self._jobs.in_thread(
            "a look for space", lambda: looks.append(has_space(self._files, path)), done
        )


def has_space(files: FileSystem, folder: str) -> bool:
    """Whether there is space for more than a few appends; writes and removes a file of 1 MiB.

    A folder that cannot be read has failed, and is not full.
    """
    try:
        total_bytes, free_bytes = files.space(folder)
    except OSError:
        return True
    if free_bytes < min(max(total_bytes // 20, FREE_MIN_BYTES), FREE_MAX_BYTES):
        return False
    path = f"{folder}/{PROBE_NAME}"
    try:
        with contextlib.closing(files.open(path, create=True)) as file:
            file.append((bytes(PROBE_BYTES),))
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            files.remove(path)
    return True
