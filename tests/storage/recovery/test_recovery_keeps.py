"""What recovery must never cut: batches whose bytes are whole, however unusual their offsets, their
epochs or the settings of the day.

A log is written under one configuration, with gaps, epochs that rise and fall and flushes in
between; it ends by a kill or a power cut and is opened under another configuration.  The oracle
knows nothing of logs: it walks the files that the crash has left, by length, magic and checksum.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.records.checksum import crc32c
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.files import names
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.support.damage import overwrite
from tests.support.logs import FOLDER, NOW_MS, LogFolder, batch, flush, read_all

POLICIES = [(True, False), (False, True), (True, True)]

configs = st.builds(
    lambda policy, segment_bytes, interval, lag: LogConfig(
        cleanup_delete=policy[0],
        cleanup_compact=policy[1],
        segment_bytes=segment_bytes,
        index_interval_bytes=interval,
        max_compaction_lag_ms=lag,
        retention_ms=-1,
        producer_id_expiration_ms=1 << 60,
    ),
    st.sampled_from(POLICIES),
    st.sampled_from([300, 700, 100_000]),
    st.sampled_from([1, 150, 4_096]),
    st.sampled_from([1, 1 << 60]),
)


@dataclass(frozen=True)
class Step:
    """One batch, and what happens after it."""

    gap: int
    epoch: int
    record_count: int
    value_bytes: int
    producer_id: int
    is_flushed: bool
    is_saved: bool
    """The recovery point goes to its checkpoint."""


steps = st.lists(
    st.builds(
        Step,
        gap=st.sampled_from([0, 0, 0, 1, 7, 5_000]),
        epoch=st.integers(0, 4),
        record_count=st.integers(1, 3),
        value_bytes=st.sampled_from([0, 5, 90, 400]),
        producer_id=st.sampled_from([-1, 3]),
        is_flushed=st.sampled_from([False, False, False, True]),
        is_saved=st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


@dataclass
class Written:
    """A log as it was before the crash."""

    folder: LogFolder
    recovery_point: int = 0
    durable: dict[str, int] = field(default_factory=dict)
    """Bytes of each .log file that a flush has seen."""


def write(config: LogConfig, steps: list[Step], *, rising: bool) -> Written:
    """Append as a follower does: offsets and epochs are the leader's, gaps included."""
    folder = LogFolder(config=config)
    log = folder.open()
    written = Written(folder)
    flush(log)
    epoch = sequence = 0
    for number, step in enumerate(steps):
        epoch = max(epoch, step.epoch) if rising else step.epoch
        new_batch = batch(
            *[NOW_MS + number] * step.record_count,
            value=b"v" * step.value_bytes,
            base_offset=log.end_offset + step.gap,
            leader_epoch=epoch,
            producer_id=step.producer_id,
            producer_epoch=min(step.producer_id, 0),
            base_sequence=sequence if step.producer_id >= 0 else -1,
        )
        sequence += step.record_count if step.producer_id >= 0 else 0
        log.append_as_follower(new_batch.view, now_ms=NOW_MS)
        if step.is_flushed:
            flush(log)
            written.durable = {segment.handle.path: segment.size for segment in log.segments}
        if step.is_saved:
            written.recovery_point = log.flush_state.recovery_point
    log.abandon()
    return written


def whole_bytes(data: bytes) -> int:
    """How many bytes from the start on are whole batches of format 2, by their own checksums."""
    position = 0
    while position + 61 <= len(data):
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if end < position + 61 or end > len(data) or data[position + 16] != 2:
            break
        if crc32c(data[position + 21 : end]) != int.from_bytes(
            data[position + 17 : position + 21], "big"
        ):
            break
        position = end
    return position


def batch_starts(data: bytes | bytearray) -> list[int]:
    """The positions at which the batches of a whole file begin."""
    starts = [0]
    while starts[-1] < len(data):
        length = int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12], "big")
        starts.append(starts[-1] + 12 + length)
    return starts[:-1]


def log_files(files: MemoryFileSystem) -> dict[str, bytes]:
    paths = (f"{FOLDER}/{name}" for name in files.list(FOLDER) if name.endswith(names.LOG))
    return {path: files.read(path) for path in paths}


def survivors(on_disk: dict[str, bytes], recovery_point: int) -> dict[str, bytes]:
    """What must be left: all up to the first torn place at or after the recovery point."""
    paths = sorted(on_disk)
    bases = [int(path.rpartition("/")[2].removesuffix(names.LOG)) for path in paths]
    first = max((n for n, base in enumerate(bases) if base <= recovery_point), default=0)
    left = {path: on_disk[path] for path in paths[:first]}
    for path in paths[first:]:
        whole = whole_bytes(on_disk[path])
        left[path] = on_disk[path][:whole]
        if whole < len(on_disk[path]):
            break
    return left


def check_all(written: Written, config: LogConfig, *, rising: bool) -> Log:
    """Open after the crash, twice: first what a kill has left, then what the first start left."""
    folder = written.folder
    expected = survivors(log_files(folder.files), written.recovery_point)
    folder.config = config
    for was_clean in (False, False, True):
        log = folder.open(recovery_point=written.recovery_point, was_clean=was_clean)
        contents = log_files(folder.files)
        assert {path: data for path, data in contents.items() if data} == {
            path: data for path, data in expected.items() if data
        }
        ends = [0]
        for path, data in sorted(expected.items()):
            ends.append(int(path.rpartition("/")[2].removesuffix(names.LOG)))
            at = 0
            while at < len(data):
                delta = int.from_bytes(data[at + 23 : at + 27], "big")
                ends.append(int.from_bytes(data[at : at + 8], "big") + delta + 1)
                at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        assert log.end_offset == max(ends)
        assert read_all(log) == b"".join(data for _, data in sorted(expected.items()))
        if rising:
            log.check()
        log.close(NOW_MS)
        written.recovery_point = log.flush_state.recovery_point
    return folder.open(was_clean=True)


@given(before=configs, after=configs, steps=steps, rising=st.booleans())
def test_killed_process_loses_no_batch(
    before: LogConfig, after: LogConfig, steps: list[Step], rising: bool
) -> None:
    written = write(before, steps, rising=rising)
    total = sum(map(len, log_files(written.folder.files).values()))
    log = check_all(written, after, rising=rising)
    assert log.segments.size_bytes() == total, "every batch was in the kernel"
    again = batch(base_offset=log.end_offset, leader_epoch=9)
    log.append_as_follower(again.view, now_ms=NOW_MS)
    assert read_all(log).endswith(bytes(again.view))


@given(
    before=configs, after=configs, steps=steps, rising=st.booleans(), seed=st.integers(0, 1 << 32)
)
def test_power_cut_loses_no_durable_batch_and_none_before_the_first_torn_one(
    before: LogConfig, after: LogConfig, steps: list[Step], rising: bool, seed: int
) -> None:
    written = write(before, steps, rising=rising)
    written.folder.files.crash(SeededRandomness(seed))
    log = check_all(written, after, rising=rising)
    sizes = {segment.handle.path: segment.size for segment in log.segments}
    for path, size in written.durable.items():
        assert sizes.get(path, 0) >= size, "something durable is gone"


@given(before=configs, after=configs, steps=steps, torn=st.data())
def test_flipped_bit_takes_what_follows_it_and_nothing_before(
    before: LogConfig, after: LogConfig, steps: list[Step], torn: st.DataObject
) -> None:
    written = write(before, steps, rising=True)
    written.recovery_point = 0
    files = written.folder.files
    path = torn.draw(st.sampled_from([p for p, data in log_files(files).items() if data]))
    data = bytearray(files.read(path))
    position = torn.draw(st.integers(0, len(data) - 1))
    is_base_offset = any(start <= position < start + 8 for start in batch_starts(data))
    data[position] ^= 1 << torn.draw(st.integers(0, 7))
    expected = survivors({**log_files(files), path: bytes(data)}, 0)
    file = files.open(path)
    overwrite(file, 0, data)
    file.close()
    written.folder.config = replace(after)
    log = written.folder.open()
    left = {name: content for name, content in log_files(files).items() if content}
    assert set(left) <= set(expected)
    is_cut = False
    for name, content in expected.items():
        remainder = left.get(name, b"")
        if is_cut:
            assert not remainder, "what follows the cut"
        elif remainder != content:
            assert is_base_offset, "a base offset that cannot be is a flaw that no checksum covers"
            assert content.startswith(remainder)
            is_cut = True
    if expected != log_files(files) or len(expected) < len(log.segments):
        assert written.folder.warnings()


def test_epochs_of_batches_that_compaction_removed_stay_with_their_first_offsets() -> None:
    """The checkpoint knows where epoch 5 began, its first batches are gone; for any policy."""
    for policy in POLICIES:
        config = LogConfig(cleanup_delete=policy[0], cleanup_compact=policy[1])
        folder = LogFolder(config=config)
        log = folder.open()
        for offset, epoch in ((0, 1), (130, 5), (131, 5)):
            new_batch = batch(base_offset=offset, leader_epoch=epoch)
            log.append_as_follower(new_batch.view, now_ms=NOW_MS)
        log.head.epochs.assign(5, 100)
        log.abandon()
        log = folder.open()
        assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0), (5, 100)]


def test_epoch_of_the_checkpoint_that_a_batch_contradicts_is_removed() -> None:
    """A truncation took epoch 4 away; the file that says so was not on disk yet."""
    folder = LogFolder()
    log = folder.open()
    for offset, epoch in ((0, 2), (70, 3), (80, 3), (85, 5)):
        new_batch = batch(base_offset=offset, leader_epoch=epoch)
        log.append_as_follower(new_batch.view, now_ms=NOW_MS)
    stale = folder.files.open(f"{FOLDER}/leader-epoch-checkpoint")
    stale.truncate(0)
    stale.append((b"0\n2\n2 0\n4 80\n",))
    stale.close()
    log.abandon()
    log = folder.open()
    entries = [tuple(entry) for entry in log.leader_epochs.entries]
    assert entries == [(2, 0), (3, 70), (5, 85)]
