"""Which neighbours are cleaned into one segment."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from odradek.storage.compaction.segment_groups import SEGMENTS_MAX, SourceSegment, group_segments

SEGMENT_BYTES = 1_000
INDEX_BYTES = 100
RANGE = 2**31

steps = st.lists(
    st.tuples(
        st.sampled_from([1, 10, RANGE // 2, RANGE - 1, RANGE]),
        st.sampled_from([0, 1, 300, 500, 1_000, 1_500]),
        st.sampled_from([0, 8, 48, 104]),
        st.sampled_from([0, 12, 60, 120]),
    ),
    max_size=12,
)


def segments(shapes: list[tuple[int, int, int, int]]) -> list[SourceSegment]:
    sources = []
    base = 0
    for offsets, *sizes in shapes:
        sources.append(SourceSegment(base, base + offsets, *sizes))
        base += offsets
    return sources


def fits(group: list[SourceSegment]) -> bool:
    """Whether one segment may take the place of these."""
    return (
        len(group) <= SEGMENTS_MAX
        and sum(each.size_bytes for each in group) <= SEGMENT_BYTES
        and sum(each.offset_index_bytes for each in group) <= INDEX_BYTES
        and sum(each.time_index_bytes for each in group) <= INDEX_BYTES
        # Only batches need offsets within the range of an index.
        and all(
            each.size_bytes == 0 or each.end_offset - group[0].base_offset <= RANGE
            for each in group
        )
    )


@given(steps)
def test_groups_are_filled_up_to_the_segment_size(shapes: list[tuple[int, int, int, int]]) -> None:
    given_segments = segments(shapes)
    groups = group_segments(given_segments, segment_bytes=SEGMENT_BYTES, index_bytes=INDEX_BYTES)
    assert [each for group in groups for each in group] == given_segments
    for group in groups:
        assert len(group) == 1 or fits(group)
    for group, following in pairwise(groups):
        assert not fits([*group, following[0]])


def test_group_has_a_bounded_number_of_segments() -> None:
    many = segments([(1, 1, 0, 0)] * 5_000)
    groups = group_segments(many, segment_bytes=1 << 30, index_bytes=INDEX_BYTES)
    assert [each for group in groups for each in group] == many
    assert max(map(len, groups)) == SEGMENTS_MAX
    assert len(groups) == -(-len(many) // SEGMENTS_MAX)
