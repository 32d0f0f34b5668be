"""Which leader epoch wrote which offsets of a log (KIP-101, KIP-279, KIP-320).

A list of (epoch, first offset written in it), both rising without equals.  It answers up to where
two replicas can agree.  `leader-epoch-checkpoint` in the partition's folder holds it on disk in the
form of `storage/checkpoints/checkpoint_file`, one line `epoch start_offset` per entry.

Nothing here touches a file: methods that change the list say so by returning True, and the log then
writes `encode()`.  It must be written before the first batch of a new epoch is acknowledged; a
truncation may be written later, since loading a log truncates its epochs again.

Source: Kafka's LeaderEpochFileCache, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from odradek.storage.checkpoints.checkpoint_file import (
    CorruptCheckpoint,
    decode_lines,
    decode_number,
    encode_lines,
)

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1

_EPOCH_MAX = 2**31 - 1


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

        Entries that this contradicts (of the same or a greater epoch, or starting at or behind
        `offset`) go.  A later offset of the latest epoch changes nothing.

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
        """(greatest own epoch <= `epoch`, where it ends), what OffsetForLeaderEpoch answers.

        log_end_offset  exclusive; the end of the latest epoch
        returns         (-1, -1) for epoch -1, for one above all own ones and for an empty list;
                        (`epoch`, first known offset) for one below all, whose data is gone
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
        """The epoch in which `offset` was (or will be) written, or -1 when it lies before all."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget the epochs that start at or behind `end_offset`; True when there were some."""
        assert end_offset >= 0, "an offset is not negative"
        keep = bisect_left(self._starts, end_offset)
        if keep == len(self._starts):
            return False
        del self._epochs[keep:], self._starts[keep:]
        self.latest_epoch = self._epochs[-1] if keep else UNDEFINED_EPOCH
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget what lies before `start_offset`; the epoch that covers it starts there now.

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
            epochs.assign(
                decode_number(fields[0], maximum=_EPOCH_MAX),
                decode_number(fields[1]),
            )
        return epochs
