"""The batches in a log, read around the broker, and what producers' records come to."""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.records.batch import CONTROL, TRANSACTIONAL
from odradek.storage.log.log import Log
from tests.sim.process import Process

HEADER: Final = Struct(">qiibIhiqqqhii")
"""Of a batch, without what precedes the records' count."""
HEADER_BYTES: Final = 61
OFFSET: Final = Struct(">q")


class StoredBatch(NamedTuple):
    """A batch in a log."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    attributes: int
    content: bytes


class ProducerView(NamedTuple):
    """What the records of one producer come to."""

    epoch: int = -1
    sequence: int = -1
    offset: int = -1
    """Of its newest record."""
    first_offset: int = -1
    """Of its open transaction."""

    def after(self, stored: StoredBatch) -> ProducerView:
        """With one more batch; a marker of a new epoch begins its sequences again."""
        epoch, offset = stored.producer_epoch, stored.base_offset
        if stored.attributes & CONTROL:
            if epoch == self.epoch:
                return self._replace(first_offset=-1)
            return ProducerView(epoch)
        first_offset = self.first_offset
        if first_offset < 0 and stored.attributes & TRANSACTIONAL:
            first_offset = offset
        more = stored.next_offset - 1 - offset
        return ProducerView(epoch, stored.base_sequence + more, offset + more, first_offset)


def stored_batch(content: bytes) -> StoredBatch:
    """A batch by its bytes."""
    fields = HEADER.unpack_from(content)
    offset, _, epoch, _, _, attributes, delta, _, _, producer_id = fields[:10]
    return StoredBatch(
        offset, offset + delta + 1, epoch, producer_id, fields[10], fields[11], attributes, content
    )


def stored_batches(process: Process, log: Log, start: int) -> list[StoredBatch]:
    """The batches from an offset on, read around the broker."""
    disk, end_offset = process.disk, log.end_offset
    batches: list[StoredBatch] = []
    bases = log.segments.base_offsets
    for number in range(max(0, bisect_right(bases, start) - 1), len(bases)):
        node = disk._find_file(f"{log.directory}/{bases[number]:020d}.log")
        content = node.content
        position, end = 0, len(content)
        position_before = process.positions.get(node)
        if (
            position_before is not None
            and start
            and position_before[0] <= start
            and position_before[1] < end
        ):
            position = (
                position_before[1]
                if OFFSET.unpack_from(content, position_before[1])[0] == position_before[0]
                else 0
            )
        while position + HEADER_BYTES <= end:
            fields = HEADER.unpack_from(content, position)
            offset, size = fields[:2]
            if offset >= end_offset:
                break
            if offset >= start:
                batches.append(stored_batch(bytes(content[position : position + size + 12])))
                process.positions[node] = offset, position
            position += size + 12
    return batches
