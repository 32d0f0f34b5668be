"""Which replicas are in sync, for a follower: by LeaderAndIsr, or by a later UpdateMetadata."""

from __future__ import annotations

import pytest

from odradek.broker.node.following import newest_in_sync_replicas
from odradek.controller.image.control_requests import UpdateMetadata, UpdateMetadataPartition
from odradek.controller.image.image import PartitionState
from odradek.controller.image.metadata_cache import MetadataCache
from tests.support.replicas import TOPIC_ID, Replicas


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "is_newer"),
    [(7, 8, True), (7, 7, False), (7, 6, False), (8, 9, True), (6, 9, False)],
)
def test_state_that_the_controller_has_written_last_counts(
    leader_epoch: int, partition_epoch: int, is_newer: bool
) -> None:
    replicas, metadata = Replicas(), MetadataCache()
    replicas.leader_epoch = 6
    partition = replicas.follow()
    assert (partition.leader_epoch, partition.partition_epoch) == (7, 7)
    assert newest_in_sync_replicas(metadata, partition) == (1, 2)
    state = PartitionState(2, leader_epoch, (2,), partition_epoch, 1)
    described = UpdateMetadataPartition("orders", TOPIC_ID, 0, state, (1, 2), ())
    metadata.apply(UpdateMetadata(1, 1, -1, (described,), ()), {}, removes_topics=False)
    assert newest_in_sync_replicas(metadata, partition) == ((2,) if is_newer else (1, 2))
