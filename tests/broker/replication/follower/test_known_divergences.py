"""The histories in which Kafka once lost or mixed records, as its proposals describe them."""

from __future__ import annotations

from tests.broker.replication.follower.test_divergence import Follower
from tests.support.replicated_log import ReplicatedLog, StoredRecord


def broker(broker_id: int, *epochs: int, high_watermark: int) -> Follower:
    """A record at each offset, of these epochs."""
    follower = Follower(broker_id)
    follower.log = ReplicatedLog(
        [StoredRecord(epoch, 100 * epoch + offset) for offset, epoch in enumerate(epochs)],
        high_watermark=high_watermark,
    )
    return follower


def catch_up(follower: Follower, leader: Follower, leader_epoch: int) -> list[int]:
    """Follow to the end of the leader's log; the log end offset after each request."""
    follower.follow(leader_epoch)
    ends = []
    for _ in range(len(leader.log.records) + len(follower.log.records) + 5):
        follower.fetch(leader, leader_epoch, batch=1, is_lost=False)
        ends.append(follower.log.end_offset)
    assert follower.log.records == leader.log.records
    return ends


def test_kip_101_a_restarted_follower_keeps_records_above_its_high_watermark() -> None:
    """Truncated to its high watermark, it would lose a record that was committed at the leader, if
    the leader died before it was fetched again."""
    leader = broker(0, 1, 1, high_watermark=2)
    leader.log.lead(1)
    follower = broker(1, 1, 1, high_watermark=1)
    follower.follow(1)
    assert follower.log.end_offset == 2, "the leader may die now"
    follower.log.lead(2)
    follower.log.append([StoredRecord(2, 7)])
    catch_up(leader, follower, 2)
    assert [record.epoch for record in leader.log.records] == [1, 1, 2]


def test_kip_101_a_former_leader_drops_what_another_epoch_wrote_at_the_same_offset() -> None:
    """Both died; the one with less led first and wrote at the offset of the lost record."""
    leader = broker(1, 1, high_watermark=1)
    leader.log.lead(2)
    leader.log.append([StoredRecord(2, 7)])
    former = broker(0, 1, 1, high_watermark=2)
    ends = catch_up(former, leader, 2)
    assert ends[0] == 1, "by the epoch, although the end offsets are equal"


def test_kip_279_an_epoch_that_one_side_does_not_know_is_truncated_to_where_both_agree() -> None:
    """The leader's end of its epoch below the follower's is above where the logs part."""
    leader = broker(0, *[1] * 10, *[2] * 5, high_watermark=10)
    leader.log.lead(4)
    follower = broker(1, *[1] * 10, *[3] * 8, high_watermark=10)
    ends = catch_up(follower, leader, 4)
    assert min(ends) == 10, "no committed record is dropped"


def test_kip_279_several_unknown_epochs_take_several_rounds() -> None:
    leader = broker(0, 1, 1, 3, 3, 5, 5, high_watermark=2)
    leader.log.lead(8)
    follower = broker(1, 1, 1, 2, 4, 4, 6, 7, high_watermark=2)
    ends = catch_up(follower, leader, 8)
    assert min(ends) == 2


def test_kip_320_a_follower_in_an_older_epoch_takes_nothing() -> None:
    leader = broker(0, 1, 1, 2, high_watermark=3)
    leader.log.lead(3)
    follower = broker(1, 1, high_watermark=1)
    follower.follow(2)
    for _ in range(5):
        follower.fetch(leader, 3, batch=1, is_lost=False)
    assert follower.log.end_offset == 1
    catch_up(follower, leader, 3)
