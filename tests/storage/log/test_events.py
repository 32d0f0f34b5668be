"""Whatever is cut, dropped, rebuilt or found damaged is reported, with offsets and the reason."""

from __future__ import annotations

import logging

import pytest

from odradek.broker.node.storage_log import REMEMBERED_MAX, REPEAT_MS, StorageLog
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.storage.events import StorageEvent, summary
from odradek.storage.files import names
from odradek.storage.log.log import Log
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log_config import LogConfig
from tests.support.damage import overwrite
from tests.support.logs import (
    FOLDER,
    NOW_MS,
    LogFolder,
    append,
    batch,
    read_all,
    truncate_log,
    truncate_log_fully,
)

CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=100, retention_ms=-1)


def filled(config: LogConfig = CONFIG) -> tuple[LogFolder, Log]:
    """Thirty records of 173 bytes, five a segment."""
    folder = LogFolder(config=config)
    log = folder.open()
    append(log, *[batch(NOW_MS + each, value=b"v" * 105) for each in range(30)])
    folder.events.clear()
    return folder, log


def overwrite_at(folder: LogFolder, path: str, position: int, data: bytes) -> None:
    file = folder.files.open(path)
    overwrite(file, position, data)
    file.close()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (LogConfig(segment_bytes=1_000, retention_ms=1_000), "retention.ms is 1000"),
        (
            LogConfig(segment_bytes=1_000, retention_ms=-1, retention_bytes=2_000),
            "retention.bytes is 2000",
        ),
    ],
)
def test_retention_names_segments_and_reason(config: LogConfig, reason: str) -> None:
    folder, log = filled()
    log.config = config
    count = len(log.segments)
    log.advance_high_watermark(30)
    delete_old_segments(log, now_ms=NOW_MS + 10_000)
    (event,) = folder.events
    assert event.place == FOLDER
    assert not event.is_warning
    gone = count - len([base for base in log.segments.base_offsets if base < 30])
    assert event.text.startswith(f"{gone} segments with ")
    assert f"below offset {log.log_start_offset} are deleted, {reason}: 0, 5" in event.text


def test_retention_by_the_start_of_the_log_names_it() -> None:
    folder, log = filled()
    log.advance_log_start(12)
    log.advance_high_watermark(30)
    delete_old_segments(log, now_ms=NOW_MS)
    (event,) = folder.events
    assert event.text.endswith("below offset 10 are deleted, the log's start is 12: 0, 5")


def test_truncation_names_both_ends_and_the_bytes() -> None:
    folder, log = filled()
    size = log.segments.size_bytes()
    truncate_log(log, 28)
    assert [event.text for event in folder.events] == [
        f"truncated to offset 28: it ended at 30, {size - log.segments.size_bytes()} bytes are "
        "removed"
    ]
    folder.events.clear()
    assert not truncate_log(log, 28)
    assert folder.events == []
    truncate_log_fully(log, 100)
    (event,) = folder.events
    assert event.text.startswith("truncated fully: it was 0 to 28, ")
    assert event.text.endswith("and goes on at offset 100")


def test_damaged_batch_is_reported_by_each_read_and_append() -> None:
    folder, log = filled()
    log.close(NOW_MS)
    log = folder.open(was_clean=True)
    overwrite_at(folder, f"{FOLDER}/{names.file_name(5, names.LOG)}", 8, b"\xff" * 4)
    with pytest.raises(BrokerError) as refusal:
        read_all(log, 6)
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    assert [event.text for event in folder.events if "a read met damage: " in event.text]
    assert {event.place.rpartition("/")[0] for event in folder.events} <= {FOLDER, "/data"}


@pytest.mark.parametrize("damage", [b"\xff" * 8, None])
def test_rebuilt_index_is_reported_with_the_reason(damage: bytes | None) -> None:
    config = LogConfig(segment_bytes=30_000, index_interval_bytes=100, retention_ms=-1)
    folder = LogFolder(config=config)
    log = folder.open()
    append(log, *[batch(NOW_MS + each, value=b"v" * 400) for each in range(100)])
    log.close(NOW_MS)
    path = f"{FOLDER}/{names.file_name(0, names.OFFSET_INDEX)}"
    if damage is None:
        folder.files.remove(path)
    else:
        # The entries around the one that is looked up.
        overwrite_at(folder, path, 8 * 40, damage * 20)
    log = folder.open(was_clean=True)
    assert read_all(log, 50)
    (event,) = folder.events
    assert event.place == f"{FOLDER}/{names.file_name(0, names.LOG)}"
    assert event.text.startswith("its indexes are rebuilt: ")


def test_snapshot_that_is_rejected_is_reported() -> None:
    folder, log = filled()
    append(log, batch(producer_id=1, producer_epoch=0, base_sequence=0))
    log.close(NOW_MS)
    path = f"{FOLDER}/{names.file_name(31, names.SNAPSHOT)}"
    overwrite_at(folder, path, 3, b"\xff")
    folder.open(was_clean=True)
    (event,) = folder.events
    assert event.place == path
    assert event.text.startswith("removed, the one before it is used: stored checksum")


def test_leftovers_of_a_cleaning_are_reported() -> None:
    folder, log = filled()
    log.close(NOW_MS)
    for suffix in (".log.cleaned", ".log.deleted"):
        folder.files.open(f"{FOLDER}/{names.file_name(0, suffix)}", create=True).close()
    folder.open(was_clean=True)
    (event,) = folder.events
    assert event.text.endswith(": 1 .cleaned, 1 .deleted")


def test_open_of_a_cleanly_closed_log_reports_nothing() -> None:
    folder, log = filled()
    log.close(NOW_MS)
    folder.open(was_clean=True).abandon()
    assert folder.events == []
    folder.open().abandon()
    assert folder.events == []


def test_long_lists_of_offsets_are_shortened() -> None:
    assert summary([0, 5]) == "0, 5"
    assert summary(range(0, 500, 5)) == "0, 5, 10, 15, 20, 25, 30, 35, 40, 45, ... 495"


def test_same_event_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock_ms = [0]
    log = StorageLog(lambda: clock_ms[0])
    event = StorageEvent("/data/a-0", "damage")
    with caplog.at_level(logging.INFO, logger="odradek.storage"):
        for clock_ms[0] in range(0, 2 * REPEAT_MS, 1_000):
            log(event)
            log(StorageEvent("/data/a-0", "else", is_warning=False))
        for number in range(2 * REMEMBERED_MAX):
            log(StorageEvent(f"/data/b-{number}", "damage"))
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines[:2] == [("WARNING", "/data/a-0: damage"), ("INFO", "/data/a-0: else")]
    assert len(lines) == 4 + 2 * REMEMBERED_MAX
