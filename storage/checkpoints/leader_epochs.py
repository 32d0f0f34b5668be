"""Which leader epoch wrote which offsets of a log (KIP-101, KIP-279, KIP-320).

`LeaderEpochs` is a list of (epoch, first offset written in it), both strictly ascending.  From it
follows up to which offset two replicas can agree.  `LeaderEpochFileCache` keeps it in
`leader-epoch-checkpoint` in the partition's folder, in the form of `checkpoints/checkpoint_file`,
one line `epoch start_offset` per entry.

The file must be written before the first batch of a new epoch is acknowledged.  It need not be
synced then: a flush does that before the recovery point passes the batches of the new epoch, and
batches after the recovery point contain their epochs.  So becoming leader of a thousand partitions
costs no fsync.  Kafka syncs.

Source: Kafka's LeaderEpochFileCache, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.checkpoint_file import (
    CorruptCheckpoint,
    decode_lines,
    decode_number,
    encode_lines,
)

LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1

EPOCH_MAX: Final = 2**31 - 1


class EpochEntry(NamedTuple):
    """The first offset that a leader wrote in its epoch."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_epochs", "_starts", "latest_epoch")

    latest_epoch: int
    """Greatest epoch that has an entry, or -1; read on every append."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(map(EpochEntry, self._epochs, self._starts))

    def assign(self, epoch: int, offset: int) -> bool:
        """Note that `epoch` starts at `offset`.

        Entries that this contradicts (of the same or a greater epoch, or starting at or after
        `offset`) are removed.  A later offset of the latest epoch changes nothing.

        returns  whether the list changed and has to be written
        """
        assert epoch >= 0, "a leader epoch is not negative"
        assert offset >= 0, "an offset is not negative"
        if epoch == self.latest_epoch and self._starts[-1] <= offset:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, offset))
        self._epochs[keep:] = (epoch,)
        self._starts[keep:] = (offset,)
        self.latest_epoch = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(greatest own epoch <= `epoch`, where it ends), the result of OffsetForLeaderEpoch.

        log_end_offset  exclusive; the end of the latest epoch
        returns         (-1, -1) for epoch -1, for one above all own ones and for an empty list;
                        (`epoch`, first known offset) for one below all, whose data was deleted
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if higher == 0:
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def epoch_of(self, offset: int) -> int:
        """The epoch in which `offset` was (or will be) written, or -1 before all entries."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget the epochs that start at or after `end_offset`; True when there were some."""
        assert end_offset >= 0, "an offset is not negative"
        keep = bisect_left(self._starts, end_offset)
        if keep == len(self._starts):
            return False
        del self._epochs[keep:], self._starts[keep:]
        self.latest_epoch = self._epochs[-1] if keep else UNDEFINED_EPOCH
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget the epochs before `start_offset`; the epoch that contains it starts there now.

        returns  whether the list changed
        """
        assert start_offset >= 0, "an offset is not negative"
        covering = bisect_right(self._starts, start_offset) - 1
        if covering < 0 or (covering == 0 and self._starts[0] == start_offset):
            return False
        del self._epochs[:covering], self._starts[:covering]
        self._starts[0] = start_offset
        return True

    def clear(self) -> bool:
        """Forget everything; True when there was something."""
        if not self._epochs:
            return False
        self._epochs.clear()
        self._starts.clear()
        self.latest_epoch = UNDEFINED_EPOCH
        return True

    def encode(self) -> bytes:
        """The bytes of leader-epoch-checkpoint."""
        return encode_lines(map("{} {}".format, self._epochs, self._starts))

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs:
        """The list held by the bytes of leader-epoch-checkpoint; 0 bytes hold an empty one.

        Lines that contradict earlier ones replace them, as in Kafka.

        raises  CorruptCheckpoint
        """
        epochs = cls()
        for line in decode_lines(data):
            fields = line.split(" ")
            if len(fields) != 2:
                raise CorruptCheckpoint(f"expected epoch and start offset, found {line!r}")
            epochs.assign(decode_number(fields[0], maximum=EPOCH_MAX), decode_number(fields[1]))
        return epochs


def epoch_path(directory: str) -> str:
    """Path of leader-epoch-checkpoint in a partition's folder."""
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


class LeaderEpochFileCache:
    """The epochs of one log and how far their file agrees with them."""

    __slots__ = ("_files", "epochs", "is_unsynced", "is_unwritten", "path")

    is_unwritten: bool
    """The last write failed; the next flush writes the file again."""
    is_unsynced: bool
    """Written since the last flush."""

    def __init__(self, files: FileSystem, directory: str, epochs: LeaderEpochs) -> None:
        """`epochs` are what the file contains."""
        self._files = files
        self.path = epoch_path(directory)
        self.epochs = epochs
        self.is_unwritten = False
        self.is_unsynced = False

    def assign(self, epoch: int, start_offset: int) -> None:
        """Write what `LeaderEpochs.assign` changes."""
        if self.epochs.assign(epoch, start_offset):
            self.write()

    def truncate_from_end(self, end_offset: int) -> None:
        """Write what `LeaderEpochs.truncate_from_end` changes."""
        if self.epochs.truncate_from_end(end_offset):
            self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Write what `LeaderEpochs.truncate_from_start` changes."""
        if self.epochs.truncate_from_start(start_offset):
            self.write()

    def clear(self) -> None:
        """Write what `LeaderEpochs.clear` changes."""
        self.epochs.clear()
        self.write()

    def write(self) -> None:
        """Replace the file, not synced; `is_unwritten` when that fails."""
        with contextlib.suppress(OSError):
            self.try_write()

    def try_write(self) -> None:
        """Replace the file, not synced; OSError leaves the former one."""
        self.is_unwritten = True
        temporary = self.path + ".tmp"
        with contextlib.closing(self._files.open(temporary, create=True)) as file:
            if file.size():
                file.truncate(0)
            file.append((self.epochs.encode(),))
        self._files.rename(temporary, self.path)
        self.is_unwritten = False
        self.is_unsynced = True

    def mark_synced(self) -> None:
        """A flush was prepared that syncs the file."""
        self.is_unsynced = False

    def mark_unsynced(self) -> None:
        """That flush was not done."""
        self.is_unsynced = True
