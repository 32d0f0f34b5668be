"""Opens the logs of one directory when the broker starts.

What may be in a directory of log.dirs:

    <topic>-<partition>                   a log
    <topic>-<partition>.<unique>-future   a copy on its way from another directory
    <topic>-<partition>.<unique>-delete   deleted, its removal is due
    <topic>-<partition>.<unique>-stray    not of this broker, or of an unknown topic; not touched
    anything else                         not a log; not touched, but reported

Source: Kafka's LogManager.loadLogs, loadLog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.storage.checkpoints.checkpoint_file import PartitionName
from odradek.storage.checkpoints.partition_metadata import CorruptPartitionMetadata, read_topic_id
from odradek.storage.directories.log_directory import LogDirectory
from odradek.storage.events import Report, StorageEvent
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.files.disk_errors import is_temporary
from odradek.storage.files.names import (
    CLUSTER_METADATA_FOLDER,
    DELETE_FOLDER,
    FUTURE_FOLDER,
    STRAY_FOLDER,
    PartitionFolder,
    folder_name,
    parse_folder_name,
)
from odradek.storage.log.log import Log, open_log
from odradek.storage.log_config import LogConfig
from odradek.storage.recovery.torn_segments import CheckedAmount

# Folders that Kafka itself keeps beside the logs and that hold none of a ZooKeeper-mode broker.
PASSED_OVER: Final = (CLUSTER_METADATA_FOLDER, "remote-log-index-cache")


class LoadedDirectory:
    """The contents of a directory."""

    __slots__ = ("checked", "deleted", "path", "stray", "unknown", "was_clean_shutdown")

    def __init__(self, path: str) -> None:
        self.path = path
        self.was_clean_shutdown = False
        """False: logs were checked from their recovery points on."""
        self.deleted: list[str] = []
        """Folders whose removal is due."""
        self.stray: list[str] = []
        self.unknown: list[str] = []
        """Folders that hold no log; reported."""
        self.checked = CheckedAmount()
        """What the lack of a clean shutdown has cost."""


class Loading(NamedTuple):
    """What `load_directory` needs to open the logs."""

    descriptors: Descriptors
    config_of: Callable[[str], LogConfig]
    """Configuration of a topic, also of one that the cluster does not know."""
    now_ms: int
    monotonic_ms: Callable[[], int]
    """For the report of what a check has cost."""
    check_interrupted: Callable[[], None]
    """Called before each log; may raise to end the start."""


# Differs from Kafka: a folder that is not a log's (`lost+found` in a volume's root) is reported
# and not touched; Kafka refuses to start.
def load_directory(directory: LogDirectory, loading: Loading) -> LoadedDirectory:
    """Open all logs of a directory; they are in `directory.logs` and `.future_logs` then.

    raises  OSError: the directory cannot be used; what `check_interrupted` raises
    """
    files, report = loading.descriptors.files, loading.descriptors.report
    contents = LoadedDirectory(directory.path)
    began_ms = loading.monotonic_ms()
    contents.was_clean_shutdown = directory.read_checkpoints(report)
    folders = _folders(files.list(directory.path), directory, loading, contents)
    for path in contents.unknown:
        report(StorageEvent(path, "contains no log and is not touched"))
    if folders and not contents.was_clean_shutdown:
        report(StorageEvent(directory.path, f"no clean stop: {len(folders)} logs are checked"))
    for name, path in folders:
        loading.check_interrupted()
        key = (name.topic, name.partition)
        log = _open(directory, path, key, loading, contents)
        if name.suffix == FUTURE_FOLDER:
            directory.add_future(log)
        else:
            directory.add(log)
            _report_lost_end(log, directory.high_watermarks.get(key, 0), report)
        _note_topic_id(directory, path, loading)
    directory.on_loaded()
    try:
        directory.write_now(directory.checkpoints_above_ends())
    except OSError as error:
        if not is_temporary(error):
            raise
    checked = contents.checked
    if checked.logs:
        report(
            StorageEvent(
                directory.path,
                f"recovery checked {checked.logs} logs, {checked.segments} segments with "
                f"{checked.size_bytes} bytes, and truncated {checked.truncated_bytes} bytes, in "
                f"{loading.monotonic_ms() - began_ms} ms",
                is_warning=False,
            )
        )
    return contents


def _report_lost_end(log: Log, high_watermark: int, report: Report) -> None:
    """A power cut or damage took records that were replicated: nothing else would tell."""
    if high_watermark > log.end_offset:
        report(
            StorageEvent(
                log.directory,
                f"ends at offset {log.end_offset}, below its high watermark {high_watermark} by "
                "the checkpoint: the records in between are no longer in this replica",
            )
        )


def _folders(
    names: list[str], directory: LogDirectory, loading: Loading, contents: LoadedDirectory
) -> list[tuple[PartitionFolder, str]]:
    """The folders of logs, with their paths; the others go to `found`."""
    logs: list[tuple[PartitionFolder, str]] = []
    for name in names:
        path = directory.file(name)
        if name in PASSED_OVER or not loading.descriptors.files.is_directory(path):
            continue
        folder = parse_folder_name(name)
        if folder is None or (
            not folder.suffix and folder_name(folder.topic, folder.partition) != name
        ):
            contents.unknown.append(path)
        elif folder.suffix == DELETE_FOLDER:
            contents.deleted.append(path)
        elif folder.suffix == STRAY_FOLDER:
            contents.stray.append(path)
        else:
            logs.append((folder, path))
    return logs


def _note_topic_id(directory: LogDirectory, path: str, loading: Loading) -> None:
    """Read partition.metadata.  A log without one is of a broker before Kafka 2.8, or of a power
    cut: it takes the id that the controller names, as in Kafka.

    Differs from Kafka, where an unreadable file takes the directory offline: only this replica is
    concerned (`LogManager.set_aside_unidentified`).
    """
    try:
        topic_id = read_topic_id(loading.descriptors.files, path)
    except CorruptPartitionMetadata as error:
        loading.descriptors.report(
            StorageEvent(
                path,
                "the topic of its records is unknown; they are used if the controller counts this "
                f"replica as in sync: {error}",
            )
        )
        directory.note_topic_id(path, None)
    else:
        if topic_id is not None:
            directory.note_topic_id(path, topic_id)


def _open(
    directory: LogDirectory,
    path: str,
    key: PartitionName,
    loading: Loading,
    contents: LoadedDirectory,
) -> Log:
    log = open_log(
        loading.descriptors.files,
        path,
        key[0],
        key[1],
        loading.config_of(key[0]),
        log_start_offset=directory.log_start_offsets.get(key, 0),
        recovery_point=directory.recovery_points.get(key, 0),
        first_dirty_offset=directory.cleaner_offsets.get(key, 0),
        was_clean_shutdown=contents.was_clean_shutdown,
        now_ms=loading.now_ms,
        descriptors=loading.descriptors,
        amount=contents.checked,
    )
    log.advance_high_watermark(directory.high_watermarks.get(key, 0))
    return log
