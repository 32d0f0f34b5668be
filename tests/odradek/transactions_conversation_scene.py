"""The scene for the transaction tools: transactional ids in every state, and hanging transactions.

Requests are made by hand: a transaction hangs when a producer writes without its coordinator, which
needs a broker that does not verify (SETTINGS).
"""

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
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.support.wire import Wire

SETTINGS: Final[Mapping[str, str]] = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
TOPICS: Final = {"orders": 4, "bills": 1}
TIMEOUT_MS: Final = 900_000
OLD_MS: Final = 20 * 60_000
"""How long ago the records of hanging transactions were written."""
HANGING_ID: Final = 424_242
IDEMPOTENT_ID: Final = 777_777
"""Like HANGING_ID a producer id that no coordinator knows."""
TRANSACTION: Final = 1
READY_TIMEOUT_S: Final = 90.0


class Producer(NamedTuple):
    """A producer id as it was given."""

    transactional_id: str | None
    producer_id: int
    epoch: int


def make_scene(address: str) -> None:
    """Create the scene on an empty broker."""
    with Wire(address) as wire:
        _make_topics(wire)
        begin(wire, "only-an-id")
        ongoing = begin(wire, "ongoing-transaction", {"orders": [0, 1]})
        produce(wire, ongoing, "orders", 0)
        produce(wire, ongoing, "orders", 1)
        for name, is_committed in (("committed", True), ("aborted", False)):
            ended = begin(wire, name, {"orders": [0], "bills": [0]})
            produce(wire, ended, "orders", 0)
            produce(wire, ended, "bills", 0)
            end(wire, ended, is_committed=is_committed)
        produce(wire, Producer(None, IDEMPOTENT_ID, 3), "bills", 0, is_transactional=False)
        for partition in (2, 3):
            produce(wire, Producer("hanging", HANGING_ID, 1), "orders", partition, age_ms=OLD_MS)
        # Its coordinator knows the producer, and knows nothing of this partition.
        strays = begin(wire, "strays", {"bills": [0]})
        produce(wire, strays, "orders", 3, age_ms=OLD_MS)
        produce(wire, strays, "bills", 0, age_ms=OLD_MS)


def _make_topics(wire: Wire) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name="retention.ms", value="-1")],
        )
        for name, count in TOPICS.items()
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=False)
    made = (0, ErrorCode.TOPIC_ALREADY_EXISTS)
    until(
        lambda: wire.call(request, 5),
        lambda response: all(topic.error_code in made for topic in response.topics),
    )


def begin(
    wire: Wire, transactional_id: str, partitions: Mapping[str, list[int]] | None = None
) -> Producer:
    """Ask for a producer id, and begin a transaction unless `partitions` is None."""
    asked = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
    until(lambda: wire.call(asked, 3), lambda response: not response.error_code)
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
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
                    one.partition_error_code
                    for topic in response.results_by_topic_v3_and_below
                    for one in topic.results_by_partition
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
    """End a transaction, and wait until its markers are written."""
    assert producer.transactional_id is not None
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=is_committed,
    )
    until(lambda: wire.call(request, 3), lambda response: not response.error_code)
    asked = DescribeTransactionsRequest(transactional_ids=[producer.transactional_id])
    until(
        lambda: wire.call(asked, 0),
        lambda response: response.transaction_states[0].transaction_state.startswith("Complete"),
    )


def until(ask: Callable[[], Any], is_ready: Callable[[Any], bool]) -> Any:
    """Repeat a call until its response is ready."""
    deadline_s = monotonic() + READY_TIMEOUT_S
    while True:
        response = ask()
        if is_ready(response):
            return response
        assert monotonic() < deadline_s, f"the broker does not get ready: {response}"
