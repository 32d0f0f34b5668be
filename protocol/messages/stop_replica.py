"""StopReplica (key 5): stops the replicas of a broker, and may delete them.

    1   partitions grouped by topic; broker epoch (KIP-380)
    2   flexible encoding (KIP-482)
    3   leader epoch, and deletion decided for each partition (KIP-570)
    4   whether the controller is a KRaft one (KIP-866)

Sent by the controller in ZooKeeper mode; removed in Kafka 4.

Source: kafka.apache.org/protocol, StopReplica.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class StopReplicaPartitionV0:
    topic_name: str = field("string", "0+")
    partition_index: int = field("int32", "0+")


@nested
class StopReplicaTopicV1:
    name: str = field("string", "0+")
    partition_indexes: list[int] = field(["int32"], "0+")


@nested
class StopReplicaPartitionState:
    partition_index: int = field("int32", "0+")
    leader_epoch: int = field("int32", "0+", default=-1)
    """-1 if unknown, -2 when the topic is being deleted."""
    delete_partition: bool = field("bool", "0+")


@nested
class StopReplicaTopicState:
    topic_name: str = field("string", "0+")
    partition_states: list[StopReplicaPartitionState] = field([StopReplicaPartitionState], "0+")


@message(api_key=5, versions="0-4", flexible="2+")
class StopReplicaRequest:
    controller_id: int = field("int32", "0+")
    is_kraft_controller: bool = field("bool", "4+", default=False)
    controller_epoch: int = field("int32", "0+")
    broker_epoch: int = field("int64", "1+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""
    delete_partitions: bool = field("bool", "0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(
        [StopReplicaPartitionV0], "0", default=[]
    )
    topics: list[StopReplicaTopicV1] = field([StopReplicaTopicV1], "1-2", default=[])
    topic_states: list[StopReplicaTopicState] = field([StopReplicaTopicState], "3+", default=[])


@nested
class StopReplicaPartitionError:
    topic_name: str = field("string", "0+")
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")


@message(api_key=5, versions="0-4", flexible="2+")
class StopReplicaResponse:
    error_code: int = field("int16", "0+")
    partition_errors: list[StopReplicaPartitionError] = field([StopReplicaPartitionError], "0+")
