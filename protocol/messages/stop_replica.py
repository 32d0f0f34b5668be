"""StopReplica (key 5): stops the replicas of a broker, and may delete them.

    1   partitions grouped by topic; broker epoch (KIP-380)
    2   flexible encoding (KIP-482)
    3   leader epoch, and deletion decided for each partition (KIP-570)
    4   whether the controller is a KRaft one (KIP-866)

Sent by the controller in ZooKeeper mode; removed in Kafka 4.

Source: kafka.apache.org/protocol, StopReplica.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class StopReplicaPartitionV0:
    topic_name: str = field(STRING, "0+")
    partition_index: int = field(INT32, "0+")


@nested
class StopReplicaTopicV1:
    name: str = field(STRING, "0+")
    partition_indexes: list[int] = field(ArrayOf(INT32), "0+")


@nested
class StopReplicaPartitionState:
    partition_index: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+", default=-1)
    """-1 if unknown, -2 when the topic is being deleted."""
    delete_partition: bool = field(BOOL, "0+")


@nested
class StopReplicaTopicState:
    topic_name: str = field(STRING, "0+")
    partition_states: list[StopReplicaPartitionState] = field(
        ArrayOf(StopReplicaPartitionState), "0+"
    )


@message(api_key=5, versions="0-4", flexible="2+")
class StopReplicaRequest:
    controller_id: int = field(INT32, "0+")
    is_kraft_controller: bool = field(BOOL, "4+", default=False)
    controller_epoch: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "1+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""
    delete_partitions: bool = field(BOOL, "0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(
        ArrayOf(StopReplicaPartitionV0), "0", default=[]
    )
    topics: list[StopReplicaTopicV1] = field(ArrayOf(StopReplicaTopicV1), "1-2", default=[])
    topic_states: list[StopReplicaTopicState] = field(
        ArrayOf(StopReplicaTopicState), "3+", default=[]
    )


@nested
class StopReplicaPartitionError:
    topic_name: str = field(STRING, "0+")
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


@message(api_key=5, versions="0-4", flexible="2+")
class StopReplicaResponse:
    error_code: int = field(INT16, "0+")
    partition_errors: list[StopReplicaPartitionError] = field(
        ArrayOf(StopReplicaPartitionError), "0+"
    )
