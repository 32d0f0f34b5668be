"""Opens the log in a partition's folder, or makes a new one there."""

from __future__ import annotations

from odradek.runtime.files import FileSystem
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.recovery.log_loader import load
from odradek.storage.recovery.torn_segments import CheckedAmount


def open_log(  # noqa: PLR0913 - what a log is made of
    files: FileSystem,
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    log_start_offset: int,
    recovery_point: int,
    was_clean_shutdown: bool,
    now_ms: int,
    descriptors: Descriptors,
    amount: CheckedAmount | None = None,
) -> Log:
    """Load the log in `directory`, which exists; an empty one becomes a new log.

    log_start_offset, recovery_point  of the checkpoints, 0 without one
    was_clean_shutdown                False: what is at or after the recovery point is checked
    amount                            grows by what was checked
    raises  OSError, of which torn_segments.UnsupportedFormat
    cost    0.2 ms for one small segment after a clean stop; 0.1 s per GB that has to be checked
    """
    assert files is descriptors.files, "descriptors are of the same file system"
    loaded = load(
        descriptors,
        directory,
        config,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        was_clean_shutdown=was_clean_shutdown,
        now_ms=now_ms,
        amount=amount,
    )
    return Log(descriptors, directory, topic, partition, config, loaded, now_ms)
