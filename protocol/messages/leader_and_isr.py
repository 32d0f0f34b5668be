"""LeaderAndIsr (key 4): makes a broker the leader or a follower of partitions.

    1   whether the partition was just created
    2   partitions grouped by topic; broker epoch (KIP-380)
    3   replicas that a reassignment adds and removes (KIP-455)
    4   flexible encoding (KIP-482)
    5   topic ids, and whether the request is about all partitions (KIP-516)
    6   recovery state of the leader (KIP-704)
    7   whether the controller is a KRaft one (KIP-866)

Sent by the controller in ZooKeeper mode; removed in Kafka 4.

Source: kafka.apache.org/protocol, LeaderAndIsr.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class LeaderAndIsrPartitionState:
    topic_name: str = field("string", "0-1", default="")
    partition_index: int = field("int32", "0+")
    controller_epoch: int = field("int32", "0+")
    leader: int = field("int32", "0+")
    """-1 none, -2 the topic is being deleted."""
    leader_epoch: int = field("int32", "0+")
    isr: list[int] = field(["int32"], "0+")
    partition_epoch: int = field("int32", "0+")
    """Version of the znode that holds the state."""
    replicas: list[int] = field(["int32"], "0+")
    adding_replicas: list[int] = field(["int32"], "3+", default=[])
    removing_replicas: list[int] = field(["int32"], "3+", default=[])
    is_new: bool = field("bool", "1+", default=False)
    leader_recovery_state: int = field("int8", "6+", default=0)
    """0 recovered, 1 recovering after an unclean election."""


@nested
class LeaderAndIsrTopicState:
    topic_name: str = field("string", "0+")
    topic_id: Uuid = field("uuid", "5+", default=ZERO_UUID)
    partition_states: list[LeaderAndIsrPartitionState] = field([LeaderAndIsrPartitionState], "0+")


@nested
class LeaderAndIsrLiveLeader:
    broker_id: int = field("int32", "0+")
    host_name: str = field("string", "0+")
    port: int = field("int32", "0+")


@message(api_key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    controller_id: int = field("int32", "0+")
    is_kraft_controller: bool = field("bool", "7+", default=False)
    controller_epoch: int = field("int32", "0+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(
        [LeaderAndIsrPartitionState], "0-1", default=[]
    )
    broker_epoch: int = field("int64", "2+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""
    type: int = field("int8", "5+", default=0)
    """0 unknown, 1 some of the partitions, 2 all that the broker has."""
    topic_states: list[LeaderAndIsrTopicState] = field([LeaderAndIsrTopicState], "2+", default=[])
    live_leaders: list[LeaderAndIsrLiveLeader] = field([LeaderAndIsrLiveLeader], "0+")


@nested
class LeaderAndIsrPartitionError:
    topic_name: str = field("string", "0-4", default="")
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")


@nested
class LeaderAndIsrTopicError:
    topic_id: Uuid = field("uuid", "0+")
    partition_errors: list[LeaderAndIsrPartitionError] = field([LeaderAndIsrPartitionError], "0+")


@message(api_key=4, versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    error_code: int = field("int16", "0+")
    partition_errors: list[LeaderAndIsrPartitionError] = field(
        [LeaderAndIsrPartitionError], "0-4", default=[]
    )
    topics: list[LeaderAndIsrTopicError] = field([LeaderAndIsrTopicError], "5+", default=[])
