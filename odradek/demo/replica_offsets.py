"""The state of a partition in all brokers: in-sync replicas, high watermark, log end offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.tools.client import Client, ClientError
from odradek.tools.topics.requests import create_topics, new_topic

LATEST: Final = -1
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
"""Followers serve it, too, and its latest offset is the log end offset."""


class ReplicaOffsets(NamedTuple):
    """A partition at one moment, as its leader and its replicas say."""

    in_sync: tuple[int, ...]
    high_watermark: int
    log_end_offsets: Mapping[int, int]
    """By broker; -1 for one that does not say."""

    @property
    def is_equal(self) -> bool:
        """Whether all replicas end at the high watermark."""
        return set(self.log_end_offsets.values()) == {self.high_watermark}


class DemoCluster:
    """Requests of the demo, to one broker after the other; blocks."""

    def __init__(self, bootstrap: str, timeout_ms: int) -> None:
        self._client = Client(bootstrap, timeout_ms=timeout_ms)

    def controller_id(self) -> int:
        """raises  ClientError"""
        return self._client.metadata([]).controller_id

    def create_topic(self, topic: str, replicas: Sequence[int], configs: Mapping[str, str]) -> None:
        """A topic with one partition.

        raises  ClientError, also when it is refused
        """
        new = new_topic(topic, assignment=[replicas], configs=configs)
        (created,) = create_topics(self._client, [new])
        if created.error_code:
            raise ClientError(f"{topic} cannot be created: {ErrorCode(created.error_code).name}")

    def offsets(self, topic: str, replicas: Sequence[int]) -> ReplicaOffsets:
        """The state of partition 0.

        replicas  the leader first

        raises  ClientError
        """
        (topic_metadata,) = self._client.metadata([topic]).topics
        in_sync = (
            tuple(sorted(topic_metadata.partitions[0].isr_nodes))
            if topic_metadata.partitions
            else ()
        )
        return ReplicaOffsets(
            in_sync,
            self._latest(topic, replicas[0], CONSUMER),
            {replica: self._latest(topic, replica, DEBUGGING_CONSUMER) for replica in replicas},
        )

    def _latest(self, topic: str, broker_id: int, replica_id: int) -> int:
        request = ListOffsetsRequest(
            replica_id=replica_id,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp_ms=LATEST)],
                )
            ],
        )
        response = self._client.broker(broker_id).request(request, ListOffsetsResponse)
        return response.topics[0].partitions[0].offset

    def close(self) -> None:
        self._client.close()
