"""Replicas on a full directory: those that others can do without respond as if it had failed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from odradek.broker.replication.full_directories import GRACE_MS
from odradek.broker.replication.resting_replicas import REPORT_MAX_MS, REPORT_MS
from odradek.controller.image.control_requests import UpdateMetadata, UpdateMetadataPartition
from odradek.controller.image.image import BrokerImage, PartitionState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from tests.support.replicas import BROKER_ID, TOPIC_ID, Replicas

KEY = TopicPartition("orders", 0)
LATER_MS = 1_000_000


def cached(
    replicas: Replicas,
    leader: int,
    isr: tuple[int, ...],
    *,
    live: Sequence[int] = (1, 2, 3),
    offline: tuple[int, ...] = (),
) -> None:
    """What the controller has said of the partition."""
    state = PartitionState(leader, replicas.leader_epoch, isr, 0, 1)
    partition = UpdateMetadataPartition(
        topic=KEY.topic,
        topic_id=TOPIC_ID,
        partition=KEY.partition,
        state=state,
        replicas=(1, 2, 3),
        offline_replicas=offline,
    )
    request = UpdateMetadata(
        broker_epoch=-1,
        controller_id=9,
        controller_epoch=1,
        partitions=(partition,),
        brokers=tuple(BrokerImage(broker_id, 0, ()) for broker_id in live),
    )
    replicas.metadata.apply(request, {}, removes_topics=False)


def fill(replicas: Replicas) -> None:
    replicas.full_directories.note_refused("/a/orders-0", 0)
    (path,) = replicas.full_directories.begin_looks(GRACE_MS)
    replicas.full_directories.on_looked(path, has_space=False, now_ms=GRACE_MS)


def give_space(replicas: Replicas) -> None:
    (path,) = replicas.full_directories.begin_looks(LATER_MS)
    replicas.full_directories.on_looked(path, has_space=True, now_ms=LATER_MS)


def is_due(replicas: Replicas, now_ms: int) -> bool:
    return replicas.resting.is_report_due(replicas.partitions.all(), now_ms)


@pytest.mark.parametrize(
    ("leader", "isr", "live", "offline", "rests"),
    [
        (BROKER_ID, (1, 2), (1, 2, 3), (), True),
        (BROKER_ID, (1,), (1, 2, 3), (), False),
        (BROKER_ID, (1, 2), (1, 3), (), False),
        (BROKER_ID, (1, 2), (1, 2, 3), (2,), False),
        (BROKER_ID, (1, 2, 3), (1, 2, 3), (2,), True),
        (2, (1, 2), (1, 2, 3), (), True),
        (2, (2, 3), (1, 2, 3), (), True),
        (2, (1, 2), (1, 3), (), False),
        (-1, (1,), (1, 2, 3), (), False),
    ],
)
def test_replica_rests_while_another_one_can_lead(
    leader: int, isr: tuple[int, ...], live: tuple[int, ...], offline: tuple[int, ...], rests: bool
) -> None:
    replicas = Replicas()
    replicas.lead(in_sync=(1, 2))
    fill(replicas)
    cached(replicas, leader, isr, live=live, offline=offline)
    replicas.leader_epoch += 1
    response = replicas.send_state(*KEY, leader, isr, replicas.leader_epoch)
    error = ErrorCode.KAFKA_STORAGE_ERROR if rests else None
    assert response.partition_errors.get(KEY) is error
    held = replicas.partitions.get(*KEY)
    if rests and leader != BROKER_ID:
        assert held is None, "it follows no more"
    else:
        assert held is not None
        assert (held.leader is not None) is (leader == BROKER_ID)


def test_controller_hears_of_a_full_directory_until_others_lead_and_again_when_it_has_space() -> (
    None
):
    replicas = Replicas()
    replicas.lead(in_sync=(1, 2))
    cached(replicas, BROKER_ID, (1, 2))
    assert not is_due(replicas, 0)
    fill(replicas)
    assert is_due(replicas, 0)
    assert not is_due(replicas, REPORT_MS - 1)
    # The same epoch, as the controller has changed nothing yet.
    response = replicas.send_state(*KEY, BROKER_ID, (1, 2), replicas.leader_epoch)
    assert response.partition_errors == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}
    assert is_due(replicas, REPORT_MS), "the response may have been lost: it still leads"
    replicas.stop(is_deleted=False)
    cached(replicas, 2, (2,))
    assert not is_due(replicas, 10 * REPORT_MAX_MS)
    give_space(replicas)
    assert is_due(replicas, 10 * REPORT_MAX_MS)
    replicas.follow()
    assert not is_due(replicas, 20 * REPORT_MAX_MS)


def test_replica_whose_successor_died_is_reported_so_that_it_leads_again() -> None:
    replicas = Replicas()
    replicas.lead(in_sync=(1, 2))
    cached(replicas, BROKER_ID, (1, 2))
    fill(replicas)
    assert is_due(replicas, 0)
    replicas.send_state(*KEY, BROKER_ID, (1, 2), replicas.leader_epoch)
    replicas.stop(is_deleted=False)
    cached(replicas, -1, (1,), live=(1, 3))
    assert is_due(replicas, 10 * REPORT_MAX_MS)
    assert replicas.lead().leader is not None
    cached(replicas, BROKER_ID, (1,), live=(1, 3))
    assert not is_due(replicas, 20 * REPORT_MAX_MS)


def test_reports_that_change_nothing_become_rare() -> None:
    replicas = Replicas()
    replicas.lead(in_sync=(1, 2))
    cached(replicas, BROKER_ID, (1, 2))
    fill(replicas)
    times = [now_ms for now_ms in range(0, 600_000, 1_000) if is_due(replicas, now_ms)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[0] == REPORT_MS
    assert gaps[-1] == REPORT_MAX_MS
    assert gaps == sorted(gaps)


def test_deleted_replica_is_not_reported() -> None:
    replicas = Replicas()
    replicas.lead(in_sync=(1, 2))
    cached(replicas, 2, (2, 1))
    fill(replicas)
    replicas.leader_epoch += 1
    replicas.send_state(*KEY, 2, (2, 1), replicas.leader_epoch)
    replicas.stop(is_deleted=True)
    give_space(replicas)
    assert not is_due(replicas, LATER_MS)
