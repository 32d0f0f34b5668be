"""No call of the storage takes longer the larger a log is.

Measured is the processor time of the calling thread, by the speed of an idle machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.log import Log, open_log
from odradek.storage.log.lookup_budget import LookupBudget, TooLong
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log.time_lookup import TimeLookup
from odradek.storage.log_config import LogConfig
from tests.support.large_logs import LargeLog
from tests.support.logs import NOW_MS, append, batch, truncate_log, truncate_log_fully
from tests.support.machine_speed import slowness

CALL_MS = 50
LOOKUP_MS = 5
Result = TypeVar("Result")


def measured(call: Callable[[], Result], limit_ms: float = CALL_MS) -> Result:
    gc.collect()
    began_ns = time.thread_time_ns()
    result = call()
    took_ms = (time.thread_time_ns() - began_ns) / 1e6
    print(f"{took_ms:8.3f} ms")
    assert took_ms < limit_ms or took_ms < limit_ms * slowness()
    return result


def opened(made: LargeLog, **config: int) -> Log:
    files = SystemFileSystem()
    log = open_log(
        files,
        str(made.folder),
        "large",
        0,
        LogConfig(**config),  # type: ignore[arg-type]
        log_start_offset=0,
        recovery_point=made.end_offset,
        was_clean_shutdown=True,
        now_ms=NOW_MS,
        descriptors=Descriptors(files),
    )
    log.advance_high_watermark(log.end_offset)
    return log


@pytest.fixture(params=[(1_000, 16 << 10), (3, 4 << 10)], ids=["1000", "4KiB"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> LargeLog:
    segments, batch_bytes = request.param
    made = LargeLog(tmp_path / "data" / "large-0", segments, batch_bytes)
    middle = made.end_offset // 2 + 777
    made.make([middle - 1, middle, middle + 1])
    return made


def test_log_of_full_segments_opens_and_closes(made: LargeLog) -> None:
    log = measured(lambda: opened(made))
    assert (log.log_start_offset, log.end_offset) == (0, made.end_offset)
    measured(lambda: append(log, batch(NOW_MS)))
    measured(lambda: log.roll(now_ms=NOW_MS))
    measured(lambda: append(log, batch(NOW_MS)))
    measured(lambda: log.flush_state.prepare(log.end_offset))
    measured(lambda: log.close(NOW_MS))


def test_old_offsets_are_read(made: LargeLog) -> None:
    log = opened(made)
    middle = made.end_offset // 2 + 777
    for offset in (middle, middle + 1, 0, made.batches - 1, made.end_offset - 1):

        def read(offset: int = offset) -> bytes:
            piece = log.read(offset, made.batch_bytes, up_to_offset=log.end_offset)
            assert piece is not None
            try:
                return piece.read()
            finally:
                piece.release()

        assert measured(read, LOOKUP_MS) == made.batch(offset)
    measured(lambda: log.bytes_between(middle, log.end_offset, 1 << 62))


def in_thread(lookup: TimeLookup) -> tuple[int, int, int] | None:
    lookup.run(SystemFileSystem())
    measured(lookup.finish)
    return lookup.result()


def searched(log: Log, timestamp_ms: int | None) -> tuple[int, int, int] | None:
    """As a client's request does it."""

    def search() -> tuple[int, int, int] | None:
        if timestamp_ms is None:
            return log.max_timestamp(budget=LookupBudget())
        return log.offset_for_timestamp(
            timestamp_ms, up_to_offset=log.end_offset, budget=LookupBudget()
        )

    try:
        return measured(search, LOOKUP_MS)
    except TooLong:
        position = in_thread(measured(lambda: TimeLookup(log, timestamp_ms)))
    assert measured(search, LOOKUP_MS) == position, "the times are known by now"
    return position


def test_records_are_found_by_time(made: LargeLog) -> None:
    log = opened(made)
    for offset in (0, 1, made.batches - 1, made.end_offset - 1):
        # The first of the group of segments with the same timestamps.
        first = offset - offset // made.batches % 100 * made.batches
        made.put(first - 1 if first else 0)
        made.put(first)
        expected = (first, made.timestamp_ms(first), 0)
        assert searched(log, made.timestamp_ms(offset)) == expected
    assert searched(log, made.timestamp_ms(made.end_offset - 1) + 1) is None
    newest = searched(log, None)
    assert newest is not None
    assert newest[1] == made.timestamp_ms(made.end_offset - 1)


def drained(log: Log, now_ms: int) -> Iterator[None]:
    while measured(lambda: delete_old_segments(log, now_ms=now_ms, count_max=32)):
        yield


def test_retention_looks_at_what_it_deletes_and_no_further(made: LargeLog) -> None:
    log = opened(made, retention_ms=1_000)
    measured(lambda: delete_old_segments(log, now_ms=0))
    assert len(log.segments) == made.segments + 1
    segments = [segment for segment in log.segments if segment.is_time_known()]
    assert len(segments) <= 2, "only the oldest one's time was read, and that in use has its own"
    for _ in drained(log, NOW_MS * 2):
        pass
    assert len(log.segments) == 1
    assert log.log_start_offset == made.end_offset


def test_log_is_truncated_at_its_start_in_its_middle_and_fully(made: LargeLog) -> None:
    log = opened(made)
    measured(lambda: log.advance_log_start(made.batches + 1))
    middle = made.end_offset // 2 + 777
    made.own(middle // made.batches)
    measured(lambda: truncate_log(log, middle))
    assert log.end_offset == middle
    measured(lambda: append(log, batch(NOW_MS)))
    measured(lambda: truncate_log_fully(log, 5))
    assert (log.log_start_offset, log.end_offset, len(log.segments)) == (5, 5, 1)


def test_abandoning_a_large_log_needs_bounded_work(made: LargeLog) -> None:
    log = opened(made)
    log.bytes_between(0, log.end_offset, 1 << 62)
    measured(lambda: log.abandon())
    assert log.is_offline
