"""High watermark and in-sync replicas, as the leader sees them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.replication.leader import PartitionLeader


def test_a_leader_alone_commits_what_it_appends() -> None:
    leader = PartitionLeader(replica_id=1, in_sync=(1,), end_offset=5, high_watermark=3)
    assert leader.high_watermark == 5
    assert leader.on_append(9)
    assert leader.high_watermark == 9


def test_an_in_sync_follower_holds_the_high_watermark_back() -> None:
    leader = PartitionLeader(replica_id=1, in_sync=(1, 2), end_offset=5, high_watermark=3)
    assert not leader.on_append(9)
    assert leader.high_watermark == 3
    assert leader.on_in_sync_changed((1,))
    assert leader.high_watermark == 9


@given(st.lists(st.integers(0, 50), min_size=1))
def test_the_high_watermark_never_falls(steps: list[int]) -> None:
    leader = PartitionLeader(replica_id=1, in_sync=(1,), end_offset=0, high_watermark=0)
    seen = 0
    end = 0
    for step in steps:
        end += step
        leader.on_append(end)
        assert leader.high_watermark >= seen
        seen = leader.high_watermark
    assert seen == end
