"""Fetches partitions from the brokers that have replicas of them, from all brokers at once.

Source: Kafka 3.9's ReplicaVerificationTool.ReplicaFetcher.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from odradek.protocol.decode_error import DecodeError
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.metadata import MetadataResponseBroker
from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import CLIENT_ID, TIMEOUT_MS, BrokerConnection, ClientError
from odradek.tools.replica_verification.comparison import Batch, Fetched

if TYPE_CHECKING:
    from odradek.tools.security.client_security import ClientSecurity

DEBUGGING_CONSUMER: Final = -2
"""Replica id of a consumer that followers serve, too."""
RESPONSE_BYTES_MAX: Final = 64 << 20
RETRY_PAUSE_MS: Final = 100


class RequestLimits(NamedTuple):
    """How much a request asks for."""

    partition_bytes: int
    max_wait_ms: int


class Fetcher:
    """Reads the replicas of one broker."""

    def __init__(
        self,
        broker: MetadataResponseBroker,
        partitions: Sequence[TopicPartition],
        topic_ids: Mapping[str, UUID],
        reading: RequestLimits,
        security: ClientSecurity | None,
    ) -> None:
        self._security = security
        self.broker_id = broker.node_id
        self._address = broker.host, broker.port
        self._partitions = partitions
        self._topic_ids = topic_ids
        self._topics = {topic_id: topic for topic, topic_id in topic_ids.items()}
        self._reading = reading
        self._connection: BrokerConnection | None = None

    def fetch(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Fetched]:
        """One request; every partition is empty when the broker does not respond."""
        results = dict.fromkeys(self._partitions, Fetched())
        try:
            response = self._connect().request(self._request(offsets), FetchResponse)
        except ClientError:
            self.close()
            time.sleep(RETRY_PAUSE_MS / 1000)
            return results
        for topic in response.responses:
            name = topic.topic or self._topics.get(topic.topic_id, "")
            for row in topic.partitions:
                partition = TopicPartition(name, row.partition_index)
                if partition in results:
                    results[partition] = _read(row)
        return results

    def _connect(self) -> BrokerConnection:
        if self._connection is None:
            timeout_ms = TIMEOUT_MS + self._reading.max_wait_ms
            host, port = self._address
            self._connection = BrokerConnection(
                host, port, client_id=CLIENT_ID, timeout_ms=timeout_ms, security=self._security
            )
        return self._connection

    def _request(self, offsets: Mapping[TopicPartition, int]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for partition in self._partitions:
            topics.setdefault(partition.topic, []).append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=offsets[partition],
                    log_start_offset=0,
                    partition_max_bytes=self._reading.partition_bytes,
                )
            )
        return FetchRequest(
            replica_id=DEBUGGING_CONSUMER,
            replica_state=ReplicaState(replica_id=DEBUGGING_CONSUMER),
            max_wait_ms=self._reading.max_wait_ms,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES_MAX,
            topics=[
                FetchTopic(topic=name, topic_id=self._topic_ids[name], partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(data: PartitionData) -> Fetched:
    """The whole batches of a response; a batch that cannot be read ends them."""
    if data.error_code or data.records is None:
        return Fetched()
    assert isinstance(data.records, memoryview), "the decoder does not copy records"
    batches: list[Batch] = []
    with suppress(DecodeError):
        batches.extend(
            Batch(batch.last_offset, batch.crc)
            for batch in iterate_batches(data.records, allow_partial=True)
        )
    return Fetched(data.high_watermark, batches)


class Fetchers:
    """One fetcher for each broker."""

    def __init__(self, fetchers: Iterable[Fetcher]) -> None:
        self._fetchers = list(fetchers)
        self._threads = ThreadPoolExecutor(max_workers=max(1, len(self._fetchers)))

    def fetch(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, dict[int, Fetched]]:
        """Fetch each partition from each of its brokers, from these offsets on."""
        results: dict[TopicPartition, dict[int, Fetched]] = {}
        responses = self._threads.map(lambda fetcher: fetcher.fetch(offsets), self._fetchers)
        for fetcher, response in zip(self._fetchers, responses, strict=True):
            for partition, fetched in response.items():
                results.setdefault(partition, {})[fetcher.broker_id] = fetched
        return results

    def close(self) -> None:
        """End the threads and close the connections."""
        self._threads.shutdown()
        for fetcher in self._fetchers:
            fetcher.close()
