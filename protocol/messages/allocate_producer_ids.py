"""AllocateProducerIds (key 67): gives a broker a block of producer ids.

Introduced by KIP-730; from broker to controller.

Source: kafka.apache.org/protocol, AllocateProducerIds.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    broker_id: int = field("int32", "0+")
    broker_epoch: int = field("int64", "0+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""


@message(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    producer_id_start: int = field("int64", "0+")
    producer_id_len: int = field("int32", "0+")
