"""ControlledShutdown (key 7): asks the controller to move leaders away from a broker that wants to
stop.

    0   has a request header without client id
    2   broker epoch (KIP-380)
    3   flexible encoding (KIP-482)

Removed in Kafka 4, where BrokerHeartbeat takes its place.

Source: kafka.apache.org/protocol, ControlledShutdown.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    broker_id: int = field("int32", "0+")
    broker_epoch: int = field("int64", "2+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""


@nested
class RemainingPartition:
    topic_name: str = field("string", "0+")
    partition_index: int = field("int32", "0+")


@message(api_key=7, versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    error_code: int = field("int16", "0+")
    remaining_partitions: list[RemainingPartition] = field([RemainingPartition], "0+")
    """What the broker still leads."""
