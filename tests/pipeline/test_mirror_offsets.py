"""Translation of offsets, formats of published records, and names; without a cluster."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipeline.mirror.formats import Checkpoint, FormatError, Heartbeat, OffsetSync
from odradek.pipeline.mirror.offsets import (
    RUNS_MAX,
    Checkpoints,
    MirrorOffsets,
    PartitionOffsets,
    Run,
    advances,
    joined,
    translated,
)
from odradek.pipeline.spec.replication_policy import (
    GROUPS_EXCLUDED,
    TOPICS_EXCLUDED,
    Policy,
    group_pattern,
)


def written(target: list[int], offsets: PartitionOffsets) -> list[tuple[int, int]]:
    """Add a target partition with the records of these source offsets; returns the pairs."""
    runs = joined((source, place) for place, source in enumerate(target))
    return [pair for run in runs for pair in offsets.note(run)]


def test_consecutive_offsets_on_both_sides_are_one_run() -> None:
    pairs = [(0, 10), (1, 11), (2, 12), (5, 13), (6, 14), (7, 20)]
    assert joined(pairs) == [Run(0, 10, 3), Run(5, 13, 2), Run(7, 20, 1)]


def test_offsets_in_gaps_and_after_the_end_translate_to_the_next_record() -> None:
    offsets = PartitionOffsets()
    written([3, 4, 5, 9, 10], offsets)
    translations = [offsets.translate(offset) for offset in range(13)]
    assert translations == [0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 4, 5, 5]


def test_offset_before_the_start_of_the_mirror_has_no_translation() -> None:
    offsets = PartitionOffsets()
    offsets.note(Run(source=100, target=7, count=10))
    assert offsets.translate(99) is None
    assert offsets.translate(100) == 7


def test_batch_written_twice_translates_to_its_second_copy() -> None:
    offsets = PartitionOffsets()
    written([0, 1, 2, 3, 2, 3, 4], offsets)
    assert [offsets.translate(offset) for offset in range(6)] == [0, 1, 4, 5, 6, 7]


def test_published_pairs_give_the_same_translation_as_runs() -> None:
    offsets, reader = PartitionOffsets(), PartitionOffsets()
    for run in (Run(0, 0, 1000), Run(1000, 1000, 500), Run(1600, 1500, 10), Run(1700, 1510, 1)):
        pairs = offsets.note(run)
        assert len(pairs) <= 2
        for pair in pairs:
            reader.note_pair(*pair)
    every = range(0, 1800, 7)
    assert [reader.translate(offset) for offset in every] == [
        offsets.translate(offset) for offset in every
    ]
    assert reader.last == offsets.last == (1700, 1510)


def test_recreated_target_topic_translates_to_its_start() -> None:
    offsets = PartitionOffsets()
    offsets.note(Run(0, 0, 100))
    offsets.note(Run(100, 0, 10))
    assert offsets.translate(105) == 5
    assert offsets.last == (109, 9)


def test_dropped_runs_translate_to_earlier_offsets() -> None:
    offsets = PartitionOffsets()
    target = [number * 3 for number in range(RUNS_MAX * 4)]
    written(target, offsets)
    assert len(offsets._runs) <= RUNS_MAX
    assert all(is_safe(target, offsets, offset) for offset in range(0, len(target) * 3, 5))
    assert offsets.translate(target[-1]) == len(target) - 1


def is_safe(target: list[int], offsets: PartitionOffsets, offset: int) -> bool:
    """Whether a reader at the translation of `offset` reads every record at or after it."""
    translation = offsets.translate(offset)
    assert translation is not None
    rest = set(target[translation:])
    return translation <= len(target) and all(
        source_offset in rest for source_offset in target if source_offset >= offset
    )


@st.composite
def mirrored(draw: st.DrawFn) -> list[int]:
    """Source offsets in the order of the target, with gaps and with batches written twice."""
    target: list[int] = []
    offset = 0
    for _ in range(draw(st.integers(1, 8))):
        batch = []
        for gap in draw(st.lists(st.sampled_from([1, 1, 1, 2, 3, 9]), min_size=1, max_size=12)):
            batch.append(offset)
            offset += gap
        kept = draw(st.sampled_from([0, 0, 0, 1, len(batch) // 2, len(batch)]))
        target += batch[:kept] + batch
    return target


@given(mirrored())
def test_translation_never_skips_a_record(target: list[int]) -> None:
    offsets, reader = PartitionOffsets(), PartitionOffsets()
    for pair in written(target, offsets):
        reader.note_pair(*pair)
    for offset in range(max(target) + 3):
        assert is_safe(target, offsets, offset)
        assert is_safe(target, reader, offset)
    translations = [offsets.translate(offset) for offset in range(max(target) + 3)]
    assert all(translation is not None for translation in translations)
    assert translations == sorted(
        translation for translation in translations if translation is not None
    ), "it never goes back"


def test_records_have_the_format_of_mirrormaker() -> None:
    sync = OffsetSync("pay", 3, 258, 5)
    assert sync.key().hex() == "0003706179" + "00000003"
    assert sync.value().hex() == "0000000000000102" + "0000000000000005"
    checkpoint = Checkpoint("g", "east.pay", 1, 9, 7, "é")
    assert checkpoint.key().hex() == "000167" + "0008656173742e706179" + "00000001"
    assert checkpoint.value().hex() == "0000" + "0000000000000009" + "0000000000000007" + "0002c3a9"
    heartbeat = Heartbeat("e", "w", 1)
    assert (heartbeat.key().hex(), heartbeat.value().hex()) == (
        "000165000177",
        "0000" + "0000000000000001",
    )
    assert OffsetSync.read(sync.key(), sync.value()) == sync
    assert Checkpoint.read(checkpoint.key(), checkpoint.value()) == checkpoint
    assert Heartbeat.read(heartbeat.key(), heartbeat.value()) == heartbeat


def test_undecodable_record_is_an_error() -> None:
    good = Checkpoint("g", "t", 0, 1, 1)
    for length in range(len(good.value())):
        with pytest.raises(FormatError):
            Checkpoint.read(good.key(), good.value()[:length])
    with pytest.raises(FormatError, match="version 1"):
        Checkpoint.read(good.key(), b"\x00\x01" + good.value()[2:])
    with pytest.raises(FormatError, match="no key"):
        OffsetSync.read(None, b"")
    with pytest.raises(FormatError, match="UTF-8"):
        Heartbeat.read(b"\x00\x01\xff\x00\x01w", b"")


@pytest.mark.parametrize(
    ("topic", "is_mirrored"),
    [
        ("payments", True),
        ("north.payments", True),
        ("payments.west", True),
        ("westwards.payments", True),
        ("west.payments", False),
        ("north.west.payments", False),
        ("__consumer_offsets", False),
        ("mm2-offset-syncs.west.internal", False),
        ("connect-internal", False),
        ("payments.replica", False),
        ("secret", False),
        ("heartbeats", True),
        ("north.heartbeats", True),
        ("west.heartbeats", False),
    ],
)
def test_mirrored_topics_are_selected_by_names_patterns_and_excludes(
    topic: str, *, is_mirrored: bool
) -> None:
    pattern = Policy("east", "west", "default").topic_pattern(
        names=None, pattern=".*", exclude=[*TOPICS_EXCLUDED, "secret"], heartbeats=True
    )
    assert (re.fullmatch(pattern, topic) is not None) == is_mirrored
    assert (re.search(pattern, topic) is not None) == is_mirrored, "Spark searches"


def test_names_with_special_characters_are_matched_literally() -> None:
    policy = Policy("east", "west", "default")
    pattern = policy.topic_pattern(names=["a.b", "c"], pattern=None, exclude=[], heartbeats=False)
    topics = [
        name for name in ("a.b", "axb", "c", "cc", "heartbeats") if re.fullmatch(pattern, name)
    ]
    assert topics == ["a.b", "c"]


def test_target_names_follow_the_policy() -> None:
    default, identity = Policy("east", "west", "default"), Policy("east", "west", "identity")
    assert default.target_topic("pay") == "east.pay"
    assert identity.target_topic("pay") == "pay"
    assert identity.target_topic("heartbeats") == "east.heartbeats"
    assert default.checkpoints_topic == "east.checkpoints.internal"
    assert default.syncs_topic == "mm2-offset-syncs.east.internal"


def test_groups_of_tools_are_excluded() -> None:
    pattern = re.compile(group_pattern(".*", GROUPS_EXCLUDED))
    assert pattern.fullmatch("billing")
    assert not pattern.fullmatch("console-consumer-12345")


def test_checkpoint_decreases_only_when_its_group_was_reset() -> None:
    checkpoints = Checkpoints()
    first = Checkpoint("g", "east.pay", 0, 50, 40)
    assert checkpoints.must_publish(first)
    checkpoints.load(first)
    assert not checkpoints.must_publish(first)
    assert not checkpoints.must_publish(Checkpoint("g", "east.pay", 0, 60, 39)), "less exact by now"
    assert checkpoints.must_publish(Checkpoint("g", "east.pay", 0, 51, 41))
    assert checkpoints.must_publish(Checkpoint("g", "east.pay", 0, 10, 8)), "the group went back"


def test_only_greater_offsets_are_committed_on_the_target() -> None:
    offsets = MirrorOffsets()
    list(offsets.note("pay", 0, Run(0, 0, 100)))
    list(offsets.note("pay", 1, Run(0, 0, 100)))
    committed = {("pay", 0): (30, "m"), ("pay", 1): (40, ""), ("other", 0): (5, "")}
    checkpoints = {
        (checkpoint.topic, checkpoint.partition): checkpoint
        for checkpoint in translated(
            "g", committed, offsets.translate, lambda topic: f"east.{topic}"
        )
    }
    assert sorted(checkpoints) == [("east.pay", 0), ("east.pay", 1)]
    assert advances(checkpoints, {}) == {("east.pay", 0): (30, "m"), ("east.pay", 1): (40, "")}
    assert advances(checkpoints, {("east.pay", 0): 30, ("east.pay", 1): 39}) == {
        ("east.pay", 1): (40, "")
    }
