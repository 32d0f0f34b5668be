"""Segments that hold message sets from before Kafka 0.11, written by kafka-python."""

from __future__ import annotations

import struct
import warnings

import pytest

from odradek.protocol.records.batch import MAGIC_POSITION, RecordBatch
from odradek.protocol.records.legacy import decode_legacy_records
from odradek.protocol.records.record import Record, decode_records
from odradek.storage.compaction.stored_batches import iterate_stored
from odradek.storage.files import names
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.storage.compaction.cleaning import RETENTION_MS, Pair, clean_log, keyed
from tests.support.logs import FOLDER, NOW_MS, LogFolder, append

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record

CONFIG = LogConfig(cleanup_delete=False, cleanup_compact=True)
FORMATS = [(magic, codec) for magic in (0, 1) for codec in (0, 1, 2, 3) if (magic, codec) != (0, 3)]
PAIRS: list[Pair] = [
    (b"a", b"1"),
    (b"b", b"1"),
    (None, b"no key"),
    (b"a", b"2"),
    (b"k" * 50, b"1"),
    (b"b", None),
]


def message_set(magic: int, codec: int) -> bytes:
    """`PAIRS`, with offsets from 0 on."""
    builder = kafka.record.MemoryRecordsBuilder(
        magic=magic, compression_type=codec, batch_size=1 << 20
    )
    for number, (key, value) in enumerate(PAIRS):
        builder.append(NOW_MS + number, key, value)
    builder.close()
    data = bytearray(builder.buffer())
    if codec:
        # What a broker does: the entry gets the offset of the last record in it.
        struct.pack_into(">q", data, 0, len(PAIRS) - 1)
    return bytes(data)


def old_log(data: bytes) -> tuple[LogFolder, Log]:
    """A log with an old segment, and a new one in use."""
    folder = LogFolder(config=CONFIG)
    file = folder.files.open(f"{FOLDER}/{names.file_name(0, names.LOG)}", create=True)
    file.append((data,))
    file.sync()
    file.close()
    log = folder.open(was_clean=True)
    assert log.end_offset == len(PAIRS)
    log.roll(now_ms=NOW_MS)
    append(log, keyed((b"x", b"1")))
    return folder, log


def stored(folder: LogFolder, log: Log) -> tuple[list[Record], set[int]]:
    """The records of the first segment, and the formats that they are in."""
    records: list[Record] = []
    magics = set()
    path = log.segments[0].handle.path
    for view in iterate_stored(folder.files, path, log.segments[0].size, lambda _: None):
        magics.add(view[MAGIC_POSITION])
        records += (
            decode_records(RecordBatch(view))
            if view[MAGIC_POSITION] == 2
            else decode_legacy_records(view)
        )
    return records, magics


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_old_message_sets_are_cleaned(magic: int, codec: int) -> None:
    folder, log = old_log(message_set(magic, codec))
    result = clean_log(folder.files, log)
    assert (result.end_offset, result.read_records, result.kept_records) == (6, 6, 3)
    records, magics = stored(folder, log)
    assert [(r.offset, r.key, r.value) for r in records] == [
        (3, b"a", b"2"),
        (4, b"k" * 50, b"1"),
        (5, b"b", None),
    ]
    assert [r.timestamp_ms for r in records] == (
        [NOW_MS + 3, NOW_MS + 4, NOW_MS + 5] if magic else [-1] * 3
    )
    # A compressed set that has lost records is written in the format of today.
    assert magics == {2 if codec else magic}
    log.check()


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize(("age_ms", "is_there"), [(RETENTION_MS - 1, True), (RETENTION_MS, False)])
def test_old_tombstones_are_removed_by_the_age_of_their_segment(
    codec: int, age_ms: int, is_there: bool
) -> None:
    folder, log = old_log(message_set(1, codec))
    log.roll(now_ms=NOW_MS)
    append(log, keyed((b"y", b"1")))
    log.roll(now_ms=NOW_MS)
    old, younger = log.segments[:2]
    folder.files.set_modified_ms(old.handle.path, NOW_MS - age_ms)
    folder.files.set_modified_ms(younger.handle.path, NOW_MS)
    clean_log(folder.files, log, first_dirty_offset=7)
    assert ((b"b", None) in [(r.key, r.value) for r in stored(folder, log)[0]]) == is_there
