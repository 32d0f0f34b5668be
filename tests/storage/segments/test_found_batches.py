"""Lookups in a segment that go on after a batch that was found before."""

from __future__ import annotations

from random import Random

from odradek.storage.segments.segment import ENDS_MAX, HEADER_BYTES, Segment
from tests.support.logs import LogFolder, append, batch, read_all, truncate_log

NOW_MS = 1_700_000_000_000
VALUE_BYTES = 5_000


def whole_scan(segment: Segment) -> list[tuple[int, int]]:
    """(last offset, position) of the batches, read one after the other from the start."""
    data = segment.handle.use().read_at(0, segment.size)
    positions, position = [], 0
    while position < len(data):
        base_offset = int.from_bytes(data[position : position + 8], "big")
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        delta = int.from_bytes(data[position + 23 : position + 27], "big")
        positions.append((base_offset + delta, position))
        position += size
    return positions


def test_lookup_in_any_order_finds_what_a_scan_finds_also_after_truncations() -> None:
    log = LogFolder().open()
    random = Random(7)
    asked: list[int] = []
    lately: list[int] = []
    offset = 0
    for epoch in range(6):
        for _ in range(40):
            # One batch is twice as large as another: so a place of before a truncation is often
            # the place of another batch after it.
            value = bytes(1_000 + random.randrange(2) * batch(NOW_MS, value=bytes(1_000)).size)
            append(log, batch(NOW_MS, value=value), leader_epoch=epoch)
        segment = log.segments.active
        scanned = whole_scan(segment)
        for number in range(300):
            # At first what was found before the truncation, the newest of it first.
            if number < len(lately):
                offset = min(lately[-1 - number], log.end_offset - 1)
            elif random.random() < 0.2:
                offset = random.randrange(log.end_offset)
            expected = next(position for position in scanned if position[0] >= offset)
            found_batch = segment.find(offset)
            assert found_batch is not None
            assert (found_batch.last_offset, found_batch.position) == expected
            offset = (
                found_batch.last_offset + 1 if found_batch.last_offset + 1 < log.end_offset else 0
            )
            asked.append(offset)
        lately = asked[-ENDS_MAX:]
        assert segment.find(log.end_offset) is None
        assert truncate_log(log, random.randrange(min(lately), max(lately)))
        assert read_all(log)


def test_lookup_after_a_found_batch_reads_one_header() -> None:
    log = LogFolder().open()
    for _ in range(ENDS_MAX * 4):
        append(log, batch(NOW_MS, value=bytes(VALUE_BYTES)), leader_epoch=0)
    segment = log.segments.active
    first = segment.find(5)
    assert first is not None
    file = segment.handle.use()
    reads: list[int] = []

    class Counted:
        def read_at(self, position: int, size: int) -> bytes:
            reads.append(size)
            return file.read_at(position, size)

    segment.handle.file = Counted()  # type: ignore[assignment]
    try:
        for offset in range(6, ENDS_MAX * 3):
            assert segment.find(offset) is not None
    finally:
        segment.handle.file = file
    assert set(reads) == {HEADER_BYTES}
    assert len(reads) == ENDS_MAX * 3 - 6
