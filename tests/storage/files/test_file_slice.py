"""A slice never reads what was written after it was given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.storage.files.descriptors import FileSlice
from odradek.storage.log.log import Log
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, LogFolder, append, batch, truncate_log, truncate_log_fully

SIZE = batch(1, value=b"0000").size
CONFIG = LogConfig(segment_bytes=6 * SIZE, index_interval_bytes=SIZE, retention_ms=-1)


class Reader:
    """Slices that are kept, and what they were promised."""

    def __init__(self) -> None:
        self.held: list[tuple[FileSlice, bytes]] = []

    def take(self, log: Log, offset: int, count: int) -> None:
        piece = log.read(offset, count * SIZE, up_to_offset=log.end_offset)
        if piece is not None:
            self.held.append((piece, piece.read()))

    def check(self) -> None:
        for piece, promised in self.held:
            data = piece.read()
            assert promised.startswith(data), "bytes that were written later"
            assert piece.is_truncated == (len(data) < len(promised))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("take"), st.integers(0, 40), st.integers(1, 8)),
        st.tuples(st.just("release"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("begin at"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 40), st.just(0)),
    ),
    max_size=40,
)


@given(steps)
def test_slice_reads_its_own_bytes_or_fewer(plan: list[tuple[str, int, int]]) -> None:
    folder = LogFolder(config=CONFIG, open_max=2)
    log, reader = folder.open(), Reader()
    written = 0
    for epoch, (step, number, count) in enumerate(plan):
        if step == "append":
            for _ in range(number):
                written += 1
                append(log, batch(NOW_MS, value=b"%04d" % written), leader_epoch=epoch)
        elif step == "take":
            start, end = log.log_start_offset, log.end_offset
            reader.take(log, start + number % (end - start + 1), count)
        elif step == "release" and reader.held:
            reader.held.pop(number % len(reader.held))[0].release()
        elif step == "truncate":
            truncate_log(log, number % (log.end_offset + 1))
        elif step == "begin at":
            truncate_log_fully(log, number)
        elif step == "delete":
            log.advance_log_start(min(number, log.end_offset))
            log.advance_high_watermark(log.end_offset)
            delete_old_segments(log, now_ms=NOW_MS)
        reader.check()
        assert folder.descriptors.open_count <= 2 + len(reader.held)
    log.check()
    for piece, _ in reader.held:
        piece.release()
    log.abandon()
    assert folder.descriptors.open_count == 0


def test_second_lower_truncation_applies_to_slices_made_before_the_first() -> None:
    folder = LogFolder()
    log, reader = folder.open(), Reader()
    append(log, *[batch(NOW_MS, value=b"%04d" % number) for number in range(10)])
    reader.take(log, 0, 10)
    truncate_log(log, 8)
    append(log, *[batch(NOW_MS, value=b"new1")] * 1, leader_epoch=1)
    reader.take(log, 0, 9)
    truncate_log(log, 3)
    append(log, *[batch(NOW_MS, value=b"new%d" % number) for number in range(7)], leader_epoch=2)
    reader.take(log, 0, 10)
    reader.check()
    assert [len(piece.read()) for piece, _ in reader.held] == [3 * SIZE, 3 * SIZE, 10 * SIZE]
    assert folder.descriptors.open_count == 3
    for piece, _ in reader.held:
        piece.release()
    assert folder.descriptors.open_count == 1
