"""Chooses the replica that a consumer fetches from: one in its rack (KIP-392).

Pure.  The leader is preferred if it is in the consumer's rack, or if no other in-sync replica that
has the offset is; among several the one that has most, then the one that caught up last.
Source: KIP-392; Kafka's ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.replication.leader import PartitionLeader
from odradek.controller.image.image import BrokerImage

LEADER: Final = -1


def select_replica(
    leader: PartitionLeader,
    fetch_offset: int,
    *,
    rack: str,
    listener_name: str,
    brokers: Mapping[int, BrokerImage],
) -> int:
    """The broker of the preferred replica, or `LEADER` for this one.

    listener_name  of the consumer's connection: it can reach those brokers that have it
    brokers        the registered ones
    """
    own = brokers.get(leader.replica_id)
    if not rack or (own is not None and own.rack == rack):
        return LEADER
    best: tuple[int, int, int] | None = None
    for broker_id, follower in leader.followers.items():
        broker = brokers.get(broker_id)
        if (
            broker is not None
            and broker.rack == rack
            and broker.endpoint(listener_name) is not None
            and broker_id in leader.in_sync.committed
            and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        ):
            candidate = (follower.log_end_offset, follower.last_caught_up_ms, broker_id)
            best = candidate if best is None else max(best, candidate)
    return LEADER if best is None else best[2]
