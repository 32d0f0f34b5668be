"""JSON of the znodes by which old tools and brokers ask the controller for something.

Source: Kafka's ZkData (ReassignPartitionsZNode, PreferredReplicaElectionZNode,
IsrChangeNotificationZNode).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.controller.znodes.zk_data import (
    BadZnode,
    broker_list,
    decode_json,
    encode_json,
    field,
    shown,
)
from odradek.protocol.topic_partition import TopicPartition

REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"


def encode_reassignments(targets: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """/admin/reassign_partitions: partition -> target replicas."""
    partitions = [
        {"topic": key.topic, "partition": key.partition, "replicas": list(target)}
        for key, target in targets.items()
    ]
    return encode_json({"version": 1, "partitions": partitions})


def decode_reassignments(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """Partition -> target replicas, in the order of the znode.

    raises  BadZnode
    """
    return {
        _partition(entry): broker_list(field(entry, "replicas", list))
        for entry in field(decode_json(data), "partitions", list)
    }


def decode_partitions(data: bytes | None) -> list[TopicPartition]:
    """The partitions of a preferred replica election, or of an ISR change notification.

    raises  BadZnode
    """
    return [_partition(entry) for entry in field(decode_json(data), "partitions", list)]


def _partition(value: object) -> TopicPartition:
    if not isinstance(value, dict):
        raise BadZnode(f"not a partition: {shown(value)}")
    return TopicPartition(field(value, "topic", str), field(value, "partition", int))
