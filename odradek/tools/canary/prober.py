"""Sends a record to one broker, and fetches it from there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from uuid import UUID

from odradek.protocol.errors import BrokerError
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records.batch import CRC_START, has_valid_crc, parse_batch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.tools.canary.measurements import Probe
from odradek.tools.client import BrokerConnection, BrokerUnreachable, ClientError
from odradek.tools.errors import error_name

if TYPE_CHECKING:
    from odradek.tools.security.client_security import ClientSecurity

PRODUCE_VERSION: Final = 12
"""The last version that names topics."""
ALL_IN_SYNC: Final = -1
FETCH_BYTES: Final = 1 << 16
NOT_REGISTERED: Final = "NOT_REGISTERED"
UNREACHABLE: Final = "UNREACHABLE"
CLIENT_ERROR: Final = "CLIENT_ERROR"
LOST: Final = "RECORD_LOST"


class Prober:
    """Probes one broker, over one connection as long as it lasts."""

    def __init__(
        self, topic: str, *, client_id: str, timeout_ms: int, security: ClientSecurity | None
    ) -> None:
        """timeout_ms  of each step: connect, produce, fetch"""
        self._topic = topic
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._security = security
        self._connection: BrokerConnection | None = None
        self._address: tuple[str, int] | None = None

    def probe(self, address: tuple[str, int] | None, partition: int, topic_id: UUID) -> Probe:
        """One record there and back.

        address  None when the broker is not registered: then the last one is tried
        """
        if address is not None and address != self._address:
            self.close()
            self._address = address
        if self._address is None:
            return Probe(NOT_REGISTERED, "the broker is not registered")
        try:
            return self._probe(self._connect(*self._address), partition, topic_id)
        except BrokerUnreachable as error:
            self.close()
            return Probe(UNREACHABLE, str(error))
        except ClientError as error:
            self.close()
            return Probe(CLIENT_ERROR, str(error))

    def _connect(self, host: str, port: int) -> BrokerConnection:
        if self._connection is None:
            self._connection = BrokerConnection(
                host,
                port,
                client_id=self._client_id,
                timeout_ms=self._timeout_ms,
                security=self._security,
            )
        return self._connection

    def _probe(self, connection: BrokerConnection, partition: int, topic_id: UUID) -> Probe:
        batch = build_batch([Record(None, b"canary", timestamp_ms=time.time_ns() // 1_000_000)])
        request = ProduceRequest(
            acks=ALL_IN_SYNC,
            timeout_ms=self._timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=self._topic,
                    partition_data=[
                        PartitionProduceData(index=partition, records=memoryview(batch))
                    ],
                )
            ],
        )
        began = time.monotonic()
        response = connection.request(request, ProduceResponse, PRODUCE_VERSION)
        produce_ms = (time.monotonic() - began) * 1_000
        row = response.responses[0].partition_responses[0]
        if row.error_code:
            name = error_name(row.error_code)
            return Probe(name, row.error_message or f"the produce request fails: {name}")
        problem = self._fetch(
            connection, partition, topic_id, row.base_offset, bytes(batch[CRC_START:])
        )
        if problem is not None:
            return problem._replace(produce_ms=produce_ms)
        return Probe(produce_ms=produce_ms, end_to_end_ms=(time.monotonic() - began) * 1_000)

    def _fetch(
        self,
        connection: BrokerConnection,
        partition: int,
        topic_id: UUID,
        offset: int,
        sealed: bytes,
    ) -> Probe | None:
        request = FetchRequest(
            max_wait_ms=self._timeout_ms // 2,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[
                FetchTopic(
                    topic=self._topic,
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            fetch_offset=offset,
                            partition_max_bytes=FETCH_BYTES,
                        )
                    ],
                )
            ],
        )
        response = connection.request(request, FetchResponse)
        code = response.error_code
        if not code:
            data = response.responses[0].partitions[0]
            code = data.error_code
        if code:
            name = error_name(code)
            return Probe(name, f"the fetch request fails: {name}")
        assert data.records is None or isinstance(data.records, memoryview), "records are bytes"
        try:
            batch = parse_batch(data.records or memoryview(b""))
        except BrokerError as error:
            return Probe(LOST, f"offset {offset} cannot be read: {error.message}")
        if (
            batch.base_offset != offset
            or not has_valid_crc(batch)
            or batch.view[CRC_START:] != sealed
        ):
            return Probe(LOST, f"offset {offset} has another record")
        return None

    def close(self) -> None:
        """Close the connection; the next probe opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
