"""AlterPartition (key 56): lets the leader of a partition propose another in-sync set.

    1   recovery state of the leader (KIP-704)
    2   topic ids in place of names (KIP-841)
    3   broker epochs of the in-sync replicas (KIP-903)

Introduced by KIP-497, under the name AlterIsr; from leader to controller.

Source: kafka.apache.org/protocol, AlterPartition.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class BrokerState:
    broker_id: int = field("int32", "0+")
    broker_epoch: int = field("int64", "0+", default=-1)
    """-1 if unknown (KIP-903)."""


@nested
class AlterPartitionRequestPartitionData:
    partition_index: int = field("int32", "0+")
    leader_epoch: int = field("int32", "0+")
    new_isr: list[int] = field(["int32"], "0-2", default=[])
    new_isr_with_epochs: list[BrokerState] = field([BrokerState], "3+", default=[])
    leader_recovery_state: int = field("int8", "1+", default=0)
    """0 recovered, 1 recovering after an unclean election."""
    partition_epoch: int = field("int32", "0+")
    """The proposal is refused if the state has another."""


@nested
class AlterPartitionRequestTopicData:
    topic_name: str = field("string", "0-1", default="")
    topic_id: Uuid = field("uuid", "2+", default=ZERO_UUID)
    partitions: list[AlterPartitionRequestPartitionData] = field(
        [AlterPartitionRequestPartitionData], "0+"
    )


@message(api_key=56, versions="0-3", flexible="0+")
class AlterPartitionRequest:
    broker_id: int = field("int32", "0+")
    broker_epoch: int = field("int64", "0+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""
    topics: list[AlterPartitionRequestTopicData] = field([AlterPartitionRequestTopicData], "0+")


@nested
class AlterPartitionResponsePartitionData:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    leader_id: int = field("int32", "0+")
    leader_epoch: int = field("int32", "0+")
    isr: list[int] = field(["int32"], "0+")
    leader_recovery_state: int = field("int8", "1+", default=0)
    partition_epoch: int = field("int32", "0+")


@nested
class AlterPartitionResponseTopicData:
    topic_name: str = field("string", "0-1", default="")
    topic_id: Uuid = field("uuid", "2+", default=ZERO_UUID)
    partitions: list[AlterPartitionResponsePartitionData] = field(
        [AlterPartitionResponsePartitionData], "0+"
    )


@message(api_key=56, versions="0-3", flexible="0+")
class AlterPartitionResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    topics: list[AlterPartitionResponseTopicData] = field([AlterPartitionResponseTopicData], "0+")
