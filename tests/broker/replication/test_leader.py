"""In-sync replicas, and what all of them have, as the leader sees it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.replication.leader import PartitionLeader


def test_a_leader_alone_commits_what_it_appends() -> None:
    leader = PartitionLeader(replica_id=1, in_sync=(1,), end_offset=5)
    assert leader.replicated_end() == 5
    assert leader.on_append(9) == 9


def test_in_sync_follower_that_has_not_fetched_holds_the_high_watermark() -> None:
    leader = PartitionLeader(replica_id=1, in_sync=(1, 2), end_offset=5)
    assert leader.on_append(9) == -1
    assert leader.on_in_sync_changed((1,)) == 9
    assert leader.epoch_start_offset == 5


@given(
    st.lists(st.one_of(st.integers(0, 50), st.sampled_from([(1,), (1, 2), (1, 2, 3)])), min_size=1)
)
def test_what_is_replicated_never_exceeds_the_end(steps: list[int | tuple[int, ...]]) -> None:
    leader = PartitionLeader(replica_id=1, in_sync=(1,), end_offset=0)
    end = 0
    in_sync: tuple[int, ...] = (1,)
    for step in steps:
        if isinstance(step, int):
            end += step
            found = leader.on_append(end)
        else:
            in_sync = step
            found = leader.on_in_sync_changed(step)
        assert leader.in_sync_count() == len(in_sync)
        assert found == leader.replicated_end() == (end if in_sync == (1,) else -1)
