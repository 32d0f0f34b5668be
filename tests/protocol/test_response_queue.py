"""Responses leave in the order of their requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.response_queue import ResponseQueue


@given(st.permutations(range(6)))
def test_responses_filled_in_any_order_leave_in_the_order_of_their_requests(
    order: list[int],
) -> None:
    queue = ResponseQueue()
    slots = [queue.reserve() for _ in order]
    left: list[bytes] = []
    for index in order:
        left += queue.fill(slots[index], [bytes(index), b"."])
        assert len(b"".join(left)) + queue.held_bytes == sum(
            len(slot.parts[0]) + 1 for slot in slots if slot.parts is not None
        )
    assert left == [part for index in sorted(order) for part in (bytes(index), b".")]
    assert len(queue) == queue.held_bytes == 0
