"""Appending to and reading from a log on the host's file system, for bench.micro."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import machine, wire
from bench.places import WORK
from odradek.protocol.records.batch import NO_PRODUCER_ID, RecordBatch, parse_batch
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.log import Log, open_log
from odradek.storage.log_config import LogConfig

NOW_MS: Final = 1_700_000_000_000
TURN: Final = 32
"""Batches that a busy turn of the loop gathers."""
OLD_RECORDS: Final = 100_000
WARM_BYTES: Final = 512 << 20

Case = Callable[[], Any]


def _batch(size: int) -> RecordBatch:
    batch = parse_batch(memoryview(bytearray(wire.batch(bytes(size), NOW_MS))), 0)
    assert batch.producer_id == NO_PRODUCER_ID
    return batch


def _open(files: SystemFileSystem, directory: Path, number: int) -> Log:
    folder = directory / f"micro-{number}"
    folder.mkdir()
    return open_log(
        files,
        str(folder),
        "micro",
        number,
        LogConfig(),
        log_start_offset=0,
        recovery_point=0,
        was_clean_shutdown=True,
        now_ms=NOW_MS,
        descriptors=Descriptors(files),
    )


def _append_cases(logs: Callable[[], Log]) -> Iterator[tuple[str, Case]]:
    for name, size in (("100 B", 100), ("1 KiB", 1024)):
        single, many = [_batch(size)], [_batch(size) for _ in range(TURN)]
        log, log_of_many = logs(), logs()
        yield (
            f"append a batch of one {name} record",
            partial(log.append, single, leader_epoch=0, now_ms=NOW_MS),
        )
        yield (
            f"append {TURN} batches of one {name} record at once",
            partial(log_of_many.append, many, leader_epoch=0, now_ms=NOW_MS),
        )


def _read_cases(log: Log) -> Iterator[tuple[str, Case]]:
    batches = [_batch(100)]
    for _ in range(OLD_RECORDS):
        log.append(batches, leader_epoch=0, now_ms=NOW_MS)
    end = log.end_offset

    def read(offset: int, max_bytes: int = 1 << 20) -> None:
        piece = log.read(offset, max_bytes, up_to_offset=end)
        assert piece is not None
        piece.release()

    yield "read the newest batch", lambda: read(end - 1)
    yield "read 1 MiB from an old offset", lambda: read(end // 3)
    yield "read at the end, where nothing is", lambda: log.read(end, 1 << 20, up_to_offset=end)


@contextmanager
def log_cases() -> Iterator[list[tuple[str, Case]]]:
    """The cases; their files live as long as the context."""
    WORK.mkdir(parents=True, exist_ok=True)
    files = SystemFileSystem()
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        directory = Path(name)
        machine.warm_pages(directory, WARM_BYTES)
        opened: list[Log] = []

        def logs() -> Log:
            opened.append(_open(files, directory, len(opened)))
            return opened[-1]

        yield [*_append_cases(logs), *_read_cases(logs())]
