"""A damaged `__consumer_offsets`: what cannot be read is passed over and named, the rest counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.coordinator_log.loader import load_steps
from odradek.broker.group.classic.records import group_record
from odradek.broker.group.limits import Now
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.group.records import offset_record
from odradek.broker.group.replay import GroupReplay
from odradek.broker.group.shard import Shard
from odradek.broker.group.unreadable import LINES_MAX, RANGES_KEPT, SETTING, Refuse, refuse_setting
from odradek.broker.settings.types import InvalidValueError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import BATCH_OVERHEAD, RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.broker.group.host import Host, finish
from tests.support.damage import overwrite
from tests.support.log_directories import Broker

NOW: Final = Now(1_700_000_000_000, 1_000)
CONFIG: Final = LogConfig(segment_bytes=4_000, index_interval_bytes=400)
TOPIC: Final = "__consumer_offsets"
FOLDER: Final = f"/a/{TOPIC}-0"


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset at a place of the log."""

    group: str
    partition: int
    offset: int
    log_offset: int
    batch: int


class Stored:
    """A log of commits: offset N is committed by the record N, so every value names its record."""

    def __init__(self, sizes: Iterable[int], groups: int = 5) -> None:
        self.files = MemoryFileSystem(folders=["/a"])
        broker = Broker(self.files, ["/a"]).start(lambda _: CONFIG)
        log = broker.create(TOPIC, config=CONFIG)
        self.commits: list[Commit] = []
        self.places: list[tuple[str, int, int]] = []
        """Of each batch: its segment's file, position and size."""
        for batch, size in enumerate(sizes):
            records = []
            for number in range(len(self.commits), len(self.commits) + size):
                commit = Commit(f"group-{number * 7 % groups}", number % 2, number, number, batch)
                self.commits.append(commit)
                records.append(record_of(commit))
            self.append(log, records)
        self.end_offset = log.end_offset
        broker.stop()

    def append(self, log: Log, records: list[Record]) -> None:
        """One batch."""
        batch = build_batch(records)
        (result,) = log.append([RecordBatch(memoryview(batch))], leader_epoch=0, now_ms=0)
        assert not isinstance(result, BrokerError)
        end = log.segments.active.size
        path = f"{FOLDER}/{log.segments.active.base_offset:020}.log"
        self.places.append((path, end - len(batch), len(batch)))

    def damage(self, batch: int, position: int, mask: int) -> None:
        """Flip bits of a byte of a batch."""
        path, start, _ = self.places[batch]
        file = self.files.open(path)
        (byte,) = file.read_at(start + position, 1)
        overwrite(file, start + position, bytes([byte ^ mask]))
        file.close()

    def is_kept(self, batch: int) -> bool:
        """Whether the files still hold all bytes of a batch."""
        path, start, size = self.places[batch]
        return self.files.exists(path) and len(self.files.read(path)) >= start + size

    def load(self) -> GroupReplay:
        """What a coordinator reads after a clean start; `commits` are those that the log holds."""
        broker = Broker(self.files, ["/a"]).start(lambda _: CONFIG)
        log = broker.create(TOPIC, config=CONFIG, is_new=False)
        # A start may cut the newest segment at a batch whose header cannot be one.
        # A header of the last batch that claims fewer records ends the log before its others.
        self.commits = [
            commit
            for commit in self.commits
            if self.is_kept(commit.batch) and commit.log_offset < log.end_offset
        ]
        loading = GroupReplay()
        for _ in load_steps(log, loading):
            pass
        loading.finish(NOW)
        return loading


def record_of(commit: Commit) -> Record:
    """As it is stored."""
    committed = OffsetAndMetadata(commit.offset, -1, "", NOW.wall_ms)
    return offset_record(
        commit.group, TopicPartition("t", commit.partition), committed, NOW.wall_ms
    )


def committed(loading: GroupReplay) -> dict[tuple[str, int], int]:
    """Group and partition -> offset."""
    return {
        (name, place[1]): stored_offset.offset
        for name, group in loading.groups.items()
        for place, stored_offset in group.offsets.committed.items()
    }


def last_of(commits: Iterable[Commit]) -> dict[tuple[str, int], int]:
    """What counts after these."""
    return {(commit.group, commit.partition): commit.offset for commit in commits}


SIZES: Final = st.lists(st.integers(1, 4), min_size=1, max_size=60)
SHARE: Final = st.floats(0, 1, exclude_max=True)
"""Of the batches, or of the bytes of one."""
NOT_UNDER_THE_CHECKSUM: Final = (*range(8), *range(12, 16))
"""Base offset and leader epoch, which a coordinator can do without."""
LAST_OFFSET_DELTA_END: Final = 27


@given(SIZES, st.sampled_from([1, 5, 50]), SHARE, SHARE, st.booleans(), st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_of_one_damaged_byte_the_batch_around_it_is_passed_over_and_no_other(
    sizes: list[int], groups: int, place: float, share: float, is_in_header: bool, mask: int
) -> None:
    stored = Stored(sizes, groups)
    number = int(place * len(stored.places))
    size = BATCH_OVERHEAD if is_in_header else stored.places[number][2]
    position = int(share * size)
    check_one_damaged_byte(stored, number, position, mask)


def test_last_batch_whose_header_claims_fewer_records_is_passed_over() -> None:
    check_one_damaged_byte(Stored([4], 1), 0, LAST_OFFSET_DELTA_END - 1, 1)


def check_one_damaged_byte(stored: Stored, number: int, position: int, mask: int) -> None:
    """What is passed over is the batch, and the rest counts."""
    stored.damage(number, position, mask)
    loading = stored.load()
    damaged = {commit for commit in stored.commits if commit.batch == number}
    if position in NOT_UNDER_THE_CHECKSUM:
        damaged = set()
    passed_over = {
        commit
        for commit in stored.commits
        for batch in loading.unreadable
        if batch.first_offset <= commit.log_offset < batch.next_offset
    }
    assert passed_over == damaged
    kept = [commit for commit in stored.commits if commit not in damaged]
    assert committed(loading) == last_of(kept)
    for lost in loading.lost_offsets():
        # A damaged key may name another topic.
        if lost.topic == "t":
            assert lost.has_older == ((lost.group_id, lost.partition) in committed(loading))


@given(SIZES, st.lists(st.tuples(SHARE, SHARE, st.integers(1, 255)), min_size=2, max_size=5))
@settings(max_examples=60, deadline=None)
def test_of_several_damaged_bytes_nothing_is_lost_without_a_word(
    sizes: list[int], damages: list[tuple[float, float, int]]
) -> None:
    stored = Stored(sizes)
    for place, share, mask in damages:
        number = int(place * len(stored.places))
        stored.damage(number, int(share * stored.places[number][2]), mask)
    written = [(commit.group, commit.partition, commit.offset) for commit in stored.commits]
    loading = stored.load()
    for (group, partition), offset in committed(loading).items():
        assert (group, partition, offset) in written
    assert loading.unreadable or committed(loading) == last_of(stored.commits)


def test_log_that_begins_within_a_batch_is_read_from_its_start() -> None:
    stored = Stored([4, 4, 4], 3)
    broker = Broker(stored.files, ["/a"]).start(lambda _: CONFIG)
    log = broker.create(TOPIC, config=CONFIG, is_new=False)
    log.advance_log_start(6)
    loading = GroupReplay()
    for _ in load_steps(log, loading):
        pass
    loading.finish(NOW)
    assert committed(loading) == last_of(stored.commits[6:])
    assert not loading.unreadable
    assert not loading.misplaced


VALUE_POSITION: Final = -5
"""Of a byte in the value of a batch's last record."""
SEEN: Final = ((0, 1), (2, 3, 4), (5,))
"""Which of the records below are in a batch."""


def shard_log(values: dict[int, bytes] | None = None) -> Host:
    """A shard with commits of groups a, b and c, each batch stored as `SEEN` says; a and b have
    committed before, c has not, and d commits twice.

    values  records whose value is another one, by number
    """
    names = ("a", "b", "a", "c", "d", "d")
    host = Host()
    for numbers in SEEN:
        records = []
        for number in numbers:
            record = record_of(Commit(names[number], 0, number, number, 0))
            if number in (values or {}):
                record = Record(record.key, (values or {})[number])
            records.append(record)
        host.append(*records)
    return host


def reloaded(host: Host, refuse: Refuse) -> dict[str, int | None]:
    """The committed offset of each group after another start; -1: none, None: it is refused."""
    host.context.refuse = refuse
    shard = host.reload()
    return {name: served(shard, name) for name in "abcd"}


def served(shard: Shard, name: str) -> int | None:
    """That of one group."""
    try:
        shard.check_ready()
    except BrokerError as error:
        return None if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE else error.code
    if name in shard.refused:
        return None
    group = shard.groups.get(name)
    offset = None if group is None else group.offsets.committed.get(TopicPartition("t", 0))
    return -1 if offset is None else offset.offset


def damage_batch(host: Host, number: int) -> None:
    """A byte in the value of the last record of a batch."""
    log = host.partition.log
    slice_ = log.read(SEEN[number][-1], 1, up_to_offset=log.end_offset)
    assert slice_ is not None
    place = slice_.position + len(slice_) + VALUE_POSITION
    slice_.release()
    file = log.segments.active.handle.use()
    (byte,) = file.read_at(place, 1)
    overwrite(file, place, bytes([byte ^ 4]))


SERVED: Final = {
    Refuse.GROUP: {"a": 0, "b": 1, "c": None, "d": 5},
    Refuse.NONE: {"a": 0, "b": 1, "c": -1, "d": 5},
    Refuse.PARTITION: dict.fromkeys("abcd"),
}
"""Without the second batch: a goes on from its first commit, c had no other, d has a later one."""


@pytest.mark.parametrize("refuse", Refuse)
def test_damaged_batch_costs_what_the_setting_says(
    refuse: Refuse, caplog: pytest.LogCaptureFixture
) -> None:
    host = shard_log()
    damage_batch(host, 1)
    assert reloaded(host, refuse) == SERVED[refuse]
    assert "offsets 2 to 4 are unreadable and are skipped: the checksum" in caplog.text
    assert "a: t-0, c: t-0, d: t-0" in caplog.text
    assert "group a for t-0, stored at offset 2, is unreadable: the one before" in caplog.text
    assert "group c for t-0, stored at offset 3, is unreadable: none is left" in caplog.text
    assert "group d" not in caplog.text


@pytest.mark.parametrize("value", [b"\0\x63", b"", b"\0\3", b"\xff\xff"])
@pytest.mark.parametrize("refuse", Refuse)
def test_value_of_another_layout_costs_that_record_alone(value: bytes, refuse: Refuse) -> None:
    host = shard_log({2: value, 3: value})
    assert reloaded(host, refuse) == SERVED[refuse]


def test_group_record_that_cannot_be_read_leaves_its_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = shard_log()
    newer = group_record("a", None, 0)
    host.append(Record(newer.key, b"\0\x63"))
    assert reloaded(host, Refuse.GROUP)["a"] == 2
    assert "GroupMetadataValue of version 99" in caplog.text


def test_group_that_is_refused_keeps_its_other_offsets() -> None:
    host = shard_log({3: b""})
    other = OffsetAndMetadata(7, -1, "", 0)
    host.append(offset_record("c", TopicPartition("t", 1), other, 0))
    assert reloaded(host, Refuse.GROUP)["c"] is None
    finish(host.shard.expire_offsets(0))
    assert host.offsets("c")[TopicPartition("t", 1)].offset == 7


def test_setting_has_three_values() -> None:
    assert refuse_setting({}) is Refuse.GROUP
    for value in Refuse:
        assert refuse_setting({SETTING: value}) is value
    with pytest.raises(InvalidValueError, match="none, group, partition"):
        refuse_setting({SETTING: "all"})


def test_deletion_that_cannot_be_read_costs_no_group(caplog: pytest.LogCaptureFixture) -> None:
    host = Host()
    host.append(offset_record("a", TopicPartition("t", 0), None, 0))
    file = host.partition.log.segments.active.handle.use()
    place = file.size() - 3
    (byte,) = file.read_at(place, 1)
    overwrite(file, place, bytes([byte ^ 4]))
    assert reloaded(host, Refuse.GROUP)["a"] == -1
    assert "skipped" in caplog.text


def test_places_that_cannot_be_read_are_logged_up_to_a_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host()
    for number in range(3 * RANGES_KEPT):
        key = record_of(Commit(f"g{number}", 0, 0, 0, 0)).key
        host.append(Record(key, b"\0\x63"))
    host.reload()
    assert len(host.shard.refused) == 3 * RANGES_KEPT
    assert len(caplog.messages) <= RANGES_KEPT + LINES_MAX + 2
    assert f"{2 * RANGES_KEPT} more ranges are unreadable" in caplog.text
