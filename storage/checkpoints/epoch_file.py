"""`leader-epoch-checkpoint` in a partition's folder: reading it, and writing it without a sync.

It need not be synced at once: a flush does that before the recovery point passes the batches of a
new epoch, and batches behind the recovery point tell their epochs themselves.  So becoming leader
of a thousand partitions costs no fsync.

Source: Kafka's LeaderEpochCheckpointFile (which syncs).
"""

from __future__ import annotations

from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.checkpoint_file import CorruptCheckpoint
from odradek.storage.checkpoints.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs


def epoch_path(directory: str) -> str:
    """Path of the file."""
    return f"{directory}/{LEADER_EPOCH_FILE}"


def read_epochs(files: FileSystem, directory: str) -> tuple[LeaderEpochs, bytes]:
    """The epochs and the file's bytes; no bytes when it is missing or torn.

    raises  OSError
    """
    try:
        data = files.read(epoch_path(directory))
        return LeaderEpochs.decode(data), data
    except (FileNotFoundError, CorruptCheckpoint):
        return LeaderEpochs(), b""


def write_epochs(files: FileSystem, directory: str, epochs: LeaderEpochs) -> None:
    """Replace the file, not synced; OSError leaves the former one."""
    path = epoch_path(directory)
    file = files.open(path + ".tmp", create=True)
    try:
        if file.size():
            file.truncate(0)
        file.append((epochs.encode(),))
    finally:
        file.close()
    files.rename(path + ".tmp", path)
