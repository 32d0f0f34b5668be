"""Transactions that are made request by request, on one connection to a broker that coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, time
from typing import Any, Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.support.pauses import pause
from tests.support.wire import Wire

TIMEOUT_MS: Final = 900_000
TRANSACTION: Final = 1
READY_TIMEOUT_S: Final = 90.0


class Producer(NamedTuple):
    """A producer id as it was given."""

    transactional_id: str | None
    producer_id: int
    epoch: int


def create_topics(wire: Wire, topics: Mapping[str, int]) -> None:
    """Create topics, by their number of partitions; their records are kept however old they are."""
    rows = [
        CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name="retention.ms", value="-1")],
        )
        for name, count in topics.items()
    ]
    request = CreateTopicsRequest(topics=rows, timeout_ms=30_000, validate_only=False)
    # The metadata of Apache's broker may still be empty when it reports its start.
    made = (0, ErrorCode.TOPIC_ALREADY_EXISTS)
    until(
        lambda: wire.call(request, 5),
        lambda response: all(topic.error_code in made for topic in response.topics),
    )


def begin(
    wire: Wire,
    transactional_id: str,
    partitions: Mapping[str, list[int]] | None = None,
    *,
    timeout_ms: int = TIMEOUT_MS,
) -> Producer:
    """Ask for a producer id, and begin a transaction unless `partitions` is None."""
    asked = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
    until(lambda: wire.call(asked, 3), lambda response: not response.error_code)
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    given = until(lambda: wire.call(request, 4), lambda response: not response.error_code)
    producer = Producer(transactional_id, given.producer_id, given.producer_epoch)
    if partitions is not None:
        topics = [
            AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in partitions.items()
        ]
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        until(
            lambda: wire.call(added, 3),
            lambda response: (
                not any(
                    result.partition_error_code
                    for topic in response.results_by_topic_v3_and_below
                    for result in topic.results_by_partition
                )
            ),
        )
    return producer


def produce(
    wire: Wire,
    producer: Producer,
    topic: str,
    partition: int,
    *,
    age_ms: int = 0,
    is_transactional: bool = True,
) -> None:
    """Write one batch of one record, the first of its producer in this partition."""
    batch = build_batch(
        [Record(b"key", b"value", timestamp_ms=int(time() * 1000) - age_ms)],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=is_transactional,
    )
    request = ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=memoryview(batch))],
            )
        ],
    )
    until(
        lambda: wire.call(request, 9),
        lambda response: not response.responses[0].partition_responses[0].error_code,
    )


def end(wire: Wire, producer: Producer, *, is_committed: bool) -> None:
    """End a transaction; its markers are written later."""
    assert producer.transactional_id is not None
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=is_committed,
    )
    until(lambda: wire.call(request, 3), lambda response: not response.error_code)


def until(ask: Callable[[], Any], is_ready: Callable[[Any], bool]) -> Any:
    """Repeat a call until its response is ready."""
    deadline_s = monotonic() + READY_TIMEOUT_S
    while True:
        response = ask()
        if is_ready(response):
            return response
        assert monotonic() < deadline_s, f"the broker does not get ready: {response}"
        pause()
