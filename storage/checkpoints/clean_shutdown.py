"""`.kafka_cleanshutdown`: all logs of this directory were closed in order.

    {"version":0,"brokerEpoch":-1}          no newline at the end; the epoch is -1 in ZooKeeper mode

The file is removed before the first log is opened: a broker that dies while loading must check
its logs (KAFKA-10471).  It is written last, and only for a directory whose logs had all
been loaded (KAFKA-15375).

Source: Kafka's CleanShutdownFileHandler.
"""

from __future__ import annotations

from odradek.runtime.files import FileSystem

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"

_CONTENT = b'{"version":0,"brokerEpoch":-1}'


def take_clean_shutdown_mark(files: FileSystem, directory: str) -> bool:
    """Whether the last shutdown was clean; the mark is removed durably when this returns.

    Its content does not matter: brokers of other versions write an empty file or other epochs.

    raises  OSError when the mark cannot be removed durably; the directory must not be used then
    """
    path = f"{directory}/{CLEAN_SHUTDOWN_FILE}"
    if not files.exists(path):
        return False
    files.remove(path)
    files.sync_directory(directory)
    return True


def write_clean_shutdown_mark(files: FileSystem, directory: str) -> None:
    """Note durably that the shutdown was clean."""
    files.replace(f"{directory}/{CLEAN_SHUTDOWN_FILE}", _CONTENT)
