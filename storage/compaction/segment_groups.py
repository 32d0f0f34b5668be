"""Which segments are cleaned into one, so that they do not get smaller and smaller.

Source: Kafka's Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from odradek.storage.indexes.offset_index import RELATIVE_OFFSET_MAX

SEGMENTS_MAX: Final = 32
"""Segments of a group.  Renaming the files of one segment takes the event loop 0.1 ms, and a group
is put into place in one go.

Differs from Kafka, which has no such bound: where segments are far smaller than `segment_bytes`, it
takes another cleaning until they are as few as they may be.
"""


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A segment to be cleaned; sizes in bytes of its files."""

    base_offset: int
    end_offset: int
    """Exclusive: where the next one begins."""
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


def group_segments(
    segments: Sequence[SourceSegment], *, segment_bytes: int, index_bytes: int
) -> list[list[SourceSegment]]:
    """Neighbours whose files together fit into one segment; each segment is in one group, and none
    has more than `SEGMENTS_MAX`.

    segment_bytes, index_bytes  what the files of a segment may come to
    """
    groups: list[list[SourceSegment]] = []
    size_bytes = offset_index_bytes = time_index_bytes = 0
    for segment in segments:
        size_bytes += segment.size_bytes
        offset_index_bytes += segment.offset_index_bytes
        time_index_bytes += segment.time_index_bytes
        if (
            groups
            and len(groups[-1]) < SEGMENTS_MAX
            and size_bytes <= segment_bytes
            and offset_index_bytes <= index_bytes
            and time_index_bytes <= index_bytes
            and (
                segment.size_bytes == 0
                or segment.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
            )
        ):
            groups[-1].append(segment)
            continue
        groups.append([segment])
        size_bytes = segment.size_bytes
        offset_index_bytes = segment.offset_index_bytes
        time_index_bytes = segment.time_index_bytes
    return groups
