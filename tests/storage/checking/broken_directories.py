"""A directory with everything that a broker writes, and what can happen to it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.files import FileSystem
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.checking.directories_check import check_directories
from odradek.storage.checking.findings import Verdict
from odradek.storage.log.head import Appended
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from tests.support.log_directories import Broker
from tests.support.logs import batch, marker

DATA = "/data"
FOLDER = "/data/orders-0"
KEY = ("orders", 0)
CONFIG = LogConfig(segment_bytes=20_000)
CLEAN_MARK = "/data/.kafka_cleanshutdown"
NOW_MS = 1_700_000_100_000
_TIMES_MS = 1_700_000_000_000

Damage = Callable[[MemoryFileSystem], None]


def _append(log: Log, appended: RecordBatch, leader_epoch: int) -> None:
    (result,) = log.append([appended], leader_epoch=leader_epoch, now_ms=NOW_MS)
    assert isinstance(result, Appended), result


def fill(log: Log) -> None:
    """Segments of all kinds: several epochs, idempotent producers, aborted transactions."""
    random = Random(7)
    for number in range(150):
        leader_epoch = number // 40
        time_ms = _TIMES_MS + number
        if number % 10 == 3:
            began = batch(
                time_ms,
                time_ms,
                value=random.randbytes(300),
                producer_id=5,
                producer_epoch=0,
                base_sequence=2 * (number // 10),
                is_transactional=True,
            )
            _append(log, began, leader_epoch)
            is_commit = number % 20 == 3
            ended = marker(producer_id=5, is_commit=is_commit, timestamp_ms=time_ms)
            _append(log, ended, leader_epoch)
        else:
            new_batch = batch(
                time_ms,
                value=random.randbytes(500),
                codec=number % 5,
                producer_id=9,
                producer_epoch=1,
                base_sequence=number - (number + 6) // 10,
            )
            _append(log, new_batch, leader_epoch)


def stopped_directory(
    files: MemoryFileSystem | None = None, *, is_clean: bool = True
) -> MemoryFileSystem:
    """What a broker leaves, in files that have the folder; `is_clean` False: as after a kill."""
    files = files or MemoryFileSystem(folders=(DATA,))
    broker = Broker(files, [DATA], now_ms=NOW_MS).start(lambda _: CONFIG)
    log = broker.create("orders", config=CONFIG)
    fill(log)
    broker.create("empty")
    broker.create("orders", 1)
    log.advance_high_watermark(log.end_offset)
    if is_clean:
        broker.stop()
    else:
        broker.flush(log)
        fill_more(log)
        broker.perform(broker.manager.directories[DATA].checkpoints())
        files.kill()
    return files


def fill_more(log: Log) -> None:
    """Batches after the recovery point."""
    for number in range(30):
        _append(log, batch(_TIMES_MS + 1_000 + number, value=bytes(900)), 3)


def check(files: MemoryFileSystem) -> Verdict:
    """Check the directory, and that nothing in it changes."""
    before = content(files)
    spill = MemoryFileSystem().open("/spill", create=True)
    verdict = check_directories(files, [DATA], spill, now_ms=NOW_MS)
    assert content(files) == before
    return verdict


def content(files: FileSystem) -> dict[str, bytes]:
    """Every file in the directory and its folders."""
    contents: dict[str, bytes] = {}
    for name in files.list(DATA):
        path = f"{DATA}/{name}"
        if files.is_directory(path):
            contents |= {
                f"{path}/{name}": files.read(f"{path}/{name}")
                for name in files.list_files(path).files
            }
        else:
            contents[path] = files.read(path)
    return contents


def segment_path(base_offset: int, suffix: str = ".log") -> str:
    """A file of the log that is broken."""
    return f"{FOLDER}/{base_offset:020d}{suffix}"


def flip(path: str, position: int, mask: int = 0x41) -> Damage:
    """Change bits of one byte; a negative position counts from the end."""

    def run(files: MemoryFileSystem) -> None:
        data = bytearray(files.read(path))
        data[position] ^= mask
        files.replace(path, bytes(data))

    return run


def write(path: str, data: bytes) -> Damage:
    """Replace the whole file."""
    return lambda files: files.replace(path, data)


def extend(path: str, data: bytes) -> Damage:
    """Add bytes at the end."""
    return lambda files: files.replace(path, files.read(path) + data)


def cut(path: str, count: int) -> Damage:
    """Take bytes from the end."""
    return lambda files: files.replace(path, files.read(path)[:-count])


def remove(*paths: str) -> Damage:
    """Remove files."""

    def run(files: MemoryFileSystem) -> None:
        for path in paths:
            files.remove(path)

    return run


def copy(source: str, target: str) -> Damage:
    """Add a file."""
    return lambda files: files.replace(target, files.read(source))


def in_place_of(path: str) -> Damage:
    """A folder with the name of a file."""

    def damage(files: MemoryFileSystem) -> None:
        if files.exists(path):
            files.remove(path)
        files.make_directory(path)

    return damage


def copy_folder(source: str, target: str) -> Damage:
    """Add a folder."""

    def run(files: MemoryFileSystem) -> None:
        files.make_directory(target)
        for name in files.list(source):
            files.replace(f"{target}/{name}", files.read(f"{source}/{name}"))

    return run


def repeat_last_batch(files: MemoryFileSystem) -> None:
    """The last batch once more, with its offset."""
    path = segment_path(158)
    data = files.read(path)
    files.replace(path, data + data[batch_positions(data)[-1] :])


def drop_last_batch(files: MemoryFileSystem) -> None:
    """The file ends before its last batch."""
    path = segment_path(158)
    data = files.read(path)
    files.replace(path, data[: batch_positions(data)[-1]])


def set_leader_epoch(base_offset: int, epoch: int) -> Damage:
    """Of the last batch of a segment: the checksum does not cover it."""

    def run(files: MemoryFileSystem) -> None:
        path = segment_path(base_offset)
        data = bytearray(files.read(path))
        at = batch_positions(bytes(data))[-1] + 12
        data[at : at + 4] = epoch.to_bytes(4, "big")
        files.replace(path, bytes(data))

    return run


def batch_positions(data: bytes) -> list[int]:
    """Where batches begin, by their lengths alone."""
    positions = []
    at = 0
    while at < len(data):
        positions.append(at)
        at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
    return positions


def spoil_snapshot(files: MemoryFileSystem) -> None:
    """A whole snapshot whose last sequence is another one."""
    path = segment_path(180, ".snapshot")
    entries = decode_snapshot(files.read(path))
    newest = entries[0].batches[-1]
    wrong = entries[0]._replace(batches=(newest._replace(last_sequence=newest.last_sequence + 7),))
    files.replace(path, encode_snapshot([wrong, *entries[1:]]))
