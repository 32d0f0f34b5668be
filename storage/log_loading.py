"""Opens the logs of one directory when the broker starts.

What may lie in a directory of log.dirs:

    <topic>-<partition>                   a log
    <topic>-<partition>.<unique>-future   a copy on its way from another directory
    <topic>-<partition>.<unique>-delete   deleted, its removal is due
    <topic>-<partition>.<unique>-stray    set aside by a migration; left alone
    anything else                         not ours; left alone and reported

Source: Kafka's LogManager.loadLogs, loadLog.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from runtime.files import FileSystem
from storage.checkpoint import TopicPartition
from storage.descriptors import Descriptors
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.log_opening import open_log
from storage.names import (
    DELETE_FOLDER,
    FUTURE_FOLDER,
    STRAY_FOLDER,
    folder_name,
    parse_folder_name,
)
from storage.partition_metadata import read_topic_id

# Folders that Kafka itself keeps beside the logs and that hold none of a ZooKeeper-mode broker.
_PASSED_OVER: Final = ("__cluster_metadata-0", "remote-log-index-cache")


@dataclass(slots=True)
class LoadedDirectory:
    """What was found in a directory."""

    path: str
    was_clean_shutdown: bool = False
    """False: logs were checked from their recovery points on."""
    deleted: list[str] = field(default_factory=list)
    """Folders whose removal is due."""
    stray: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Folders that hold no log, to be reported to the operator."""


# Differs from Kafka: a folder that is no log's (`lost+found` at the root of a volume) is reported
# and left alone; Kafka refuses to start.
def load_directory(
    files: FileSystem,
    directory: LogDirectory,
    descriptors: Descriptors,
    config_of: Callable[[str], LogConfig],
    *,
    now_ms: int,
) -> LoadedDirectory:
    """Open all logs of a directory; they are in `directory.logs` and `.future_logs` then.

    config_of  configuration of a topic
    raises     OSError, CorruptCheckpoint, CorruptPartitionMetadata: the directory cannot be used
    """
    found = LoadedDirectory(directory.path)
    found.was_clean_shutdown = directory.read_checkpoints()
    for name in files.list(directory.path):
        path = directory.file(name)
        if name in _PASSED_OVER or not files.is_directory(path):
            continue
        folder = parse_folder_name(name)
        if folder is None or (
            not folder.suffix and folder_name(folder.topic, folder.partition) != name
        ):
            found.unknown.append(path)
        elif folder.suffix == DELETE_FOLDER:
            found.deleted.append(path)
        elif folder.suffix == STRAY_FOLDER:
            found.stray.append(path)
        else:
            key = (folder.topic, folder.partition)
            log = _open(
                files,
                directory,
                descriptors,
                path,
                key,
                config_of(folder.topic),
                was_clean_shutdown=found.was_clean_shutdown,
                now_ms=now_ms,
            )
            is_future = folder.suffix == FUTURE_FOLDER
            (directory.future_logs if is_future else directory.logs)[key] = log
            topic_id = read_topic_id(files, path)
            if topic_id is not None:
                directory.topic_ids[path] = topic_id
    directory.on_loaded()
    return found


def _open(
    files: FileSystem,
    directory: LogDirectory,
    descriptors: Descriptors,
    path: str,
    key: TopicPartition,
    config: LogConfig,
    *,
    was_clean_shutdown: bool,
    now_ms: int,
) -> Log:
    return open_log(
        files,
        path,
        key[0],
        key[1],
        config,
        log_start_offset=directory.log_start_offsets.get(key, 0),
        recovery_point=directory.recovery_points.get(key, 0),
        was_clean_shutdown=was_clean_shutdown,
        now_ms=now_ms,
        descriptors=descriptors,
    )
