"""Files and folders that are removed from disk some time after they were taken out of use.

Kafka: `file.delete.delay.ms`.
"""

from __future__ import annotations

from odradek.storage.directories.disk_jobs import Removal


class Removals:
    """What is not removed yet: folders of deleted partitions, old segments."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Removal]] = []

    def add(self, due_ms: int, job: Removal) -> None:
        """Have something removed, not before `due_ms`."""
        self._waiting.append((due_ms, job))

    def take_due(self, now_ms: int) -> list[Removal]:
        """The jobs that are due; the caller runs them, and adds those again that fail."""
        due = [job for due_ms, job in self._waiting if due_ms <= now_ms]
        if due:
            self._waiting = [waiting for waiting in self._waiting if waiting[0] > now_ms]
        return due

    def forget_directory(self, path: str) -> None:
        """A log directory is offline: the next start removes what is in it."""
        self._waiting = [waiting for waiting in self._waiting if waiting[1].directory != path]
