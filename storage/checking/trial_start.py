"""A start of the storage on an overlay: what it would do to the files, without doing it.

The code that runs is that of a start (`LogManager`), so what is said of a start is what it does.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.runtime.overlay_files import (
    REMOVED,
    RENAMED,
    TRUNCATED,
    WRITTEN,
    FileChange,
    OverlayFileSystem,
)
from odradek.storage.checkpoints.meta_properties import (
    MetaPropertiesError,
    stored_broker_id,
    stored_cluster_id,
)
from odradek.storage.directories.log_directory import DirectoryInUse
from odradek.storage.directories.log_manager import DuplicateLog, LogManager, NoDirectoryLeft
from odradek.storage.events import StorageEvent
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log_config import LogConfig

OPEN_MAX = 64
"""Files that a check has open at once."""
_NEW_CLUSTER_ID = "unknown"
_ACTIONS = {REMOVED: "removes it", WRITTEN: "writes it again"}


class TrialStart:
    """The outcome of a start; `files` are as it leaves them."""

    def __init__(self, files: OverlayFileSystem) -> None:
        self.files = files
        self.events: list[StorageEvent] = []
        self.refusal: str | None = None
        """Why the broker would not start, None when it would."""
        self.failures: dict[str, str] = {}
        """Directories that would be offline, and why."""

    def run(self, paths: list[str], config_of: Callable[[str], LogConfig], *, now_ms: int) -> None:
        """Start; the cluster is taken to be the one that the directories name."""
        shared = Descriptors(self.files, open_max=OPEN_MAX, report=self.events.append)
        manager = LogManager(self.files, paths, shared, file_delete_delay_ms=0)
        try:
            properties = manager.open_directories()
            broker_id = stored_broker_id(properties)
            manager.claim(
                broker_id=0 if broker_id is None else broker_id,
                cluster_id=stored_cluster_id(properties) or _NEW_CLUSTER_ID,
                date="",
            )
            manager.load(config_of, now_ms=now_ms)
        except (DirectoryInUse, DuplicateLog, MetaPropertiesError, NoDirectoryLeft) as error:
            self.refusal = str(error)
        self.failures = {failure.path: failure.reason for failure in manager.take_failures()}

    def actions_on(self, path: str) -> list[str]:
        """What it would do with a file, in its order: its reports, else the changes."""
        reported = [event.text for event in self.events if event.place == path]
        if reported:
            return reported
        for change in reversed(self.files.changes):
            if change.target == path:
                return [_ACTIONS[WRITTEN]]
            if change.path == path:
                return [_action(change)]
        return []

    def reports_on(self, folder: str) -> list[str]:
        """Its reports on a folder as a whole that an operator has to know."""
        return [event.text for event in self.events if event.place == folder and event.is_warning]


def _action(change: FileChange) -> str:
    if change.kind == RENAMED:
        return f"renames it to {change.target.rpartition('/')[2]}"
    if change.kind == TRUNCATED:
        return f"truncates it from {change.former_size} to {change.size} bytes"
    return _ACTIONS[change.kind]
