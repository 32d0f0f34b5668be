"""What the garbage collector may walk at once while a broker serves."""

from __future__ import annotations

import gc
from pathlib import Path

from tests.support.node_here import node_here

KEPT = 400_000
"""Objects that one large request and its response make."""
WALKED_MAX = 80_000
"""About 100 ns each: 8 ms of the loop."""


def test_young_collection_walks_a_bounded_number_of_objects(tmp_path: Path) -> None:
    walked: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        generation = info["generation"]
        if phase == "start" and generation < 2:
            walked.append(sum(len(gc.get_objects(number)) for number in range(generation + 1)))

    with node_here(tmp_path):
        gc.callbacks.append(count)
        try:
            kept = [[number] for number in range(KEPT)]
        finally:
            gc.callbacks.remove(count)
    assert len(kept) == KEPT
    assert walked, "nothing was collected"
    assert max(walked) <= WALKED_MAX
