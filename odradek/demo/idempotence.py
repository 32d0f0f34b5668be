"""`odradek demo idempotence`: a producer that repeats batches whose responses were lost.

The same producer sends twice, without idempotence and with it.  Then two batches by hand: one that
is sent again, and one that leaves a gap in the sequence numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from odradek.demo.claims import Claim, DemoError
from odradek.demo.one_broker import run_demo
from odradek.demo.read_back import read_all
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.testing.broker import Broker
from odradek.tools.client import Client
from odradek.tools.console.library import library

RECORDS: Final = 2_000
RECORDS_IN_BATCH: Final = 50
PASSED: Final = 8
"""Produce requests between two at which the connection is cut: more than are in flight, so that
each time some batches are acknowledged."""
CUTS_MAX: Final = 10
"""Connections of one producer that are cut."""
IN_FLIGHT: Final = 5
"""Requests; the most with idempotence."""
FLUSH_S: Final = 60.0
PRODUCE_VERSION: Final = 9
PLAIN: Final = "plain"
IDEMPOTENT: Final = "idempotent"
BY_HAND: Final = "by-hand"


@dataclass(frozen=True)
class Sent:
    """The fate of the records 0, 1, 2, ... of a producer."""

    cuts: int
    stored: int
    duplicates: int
    missing: int
    out_of_order: int
    """Records that follow a later one."""


@dataclass(frozen=True)
class SentByHand:
    """The fate of batches that were sent by hand."""

    first_offset: int
    repeated_offset: int
    """The base offset in the response when the batch is sent again."""
    gap_error: int
    end_offset: int


def run() -> int:
    """Run the demo; returns the exit code.

    raises  LibraryMissingError, BrokerFailed, KeyboardInterrupt
    """
    return run_demo(
        f"One broker on this machine. A producer sends {RECORDS} records in batches of "
        f"{RECORDS_IN_BATCH}; after every {PASSED} requests\nits connection is cut in place of "
        f"a response, {CUTS_MAX} times at most, and it sends again what has no response.",
        _work,
    )


def _work(broker: Broker) -> Sequence[Claim]:
    for topic in (PLAIN, IDEMPOTENT, BY_HAND):
        broker.create_topic(topic)
    return claims_of(
        _sent(broker, PLAIN), _sent(broker, IDEMPOTENT), _send_by_hand(broker.bootstrap_servers)
    )


def _sent(broker: Broker, topic: str) -> Sent:
    # The broker stores a batch and closes the connection, so that its producer cannot know.
    faults = [
        broker.fault(
            "Produce", topic=topic, close=True, executed=True, times=1, skip=number * PASSED
        )
        for number in range(1, CUTS_MAX + 1)
    ]
    _send(broker.bootstrap_servers, topic, is_idempotent=topic == IDEMPOTENT)
    cuts = sum(fault.hits for fault in faults)
    broker.heal()
    values = read_all(broker.bootstrap_servers, topic, is_committed=False)
    return judged(values, RECORDS, cuts)


def _send(address: str, topic: str, *, is_idempotent: bool) -> None:
    """Send all records, and wait until each is acknowledged.

    raises  DemoError
    """
    errors: list[str] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            errors.append(str(error))

    producer = library().Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": is_idempotent,
            "batch.num.messages": RECORDS_IN_BATCH,
            "linger.ms": 5,
            "max.in.flight": IN_FLIGHT,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=0, on_delivery=on_delivery)
        producer.poll(0)
    left = producer.flush(FLUSH_S)
    if errors or left:
        raise DemoError(f"{len(errors) + left} records are not acknowledged: {errors[:1]}")


def judged(values: Sequence[str], count: int, cuts: int) -> Sent:
    """Compare the values of a log with those that were sent: 0 to `count` - 1."""
    numbers = [int(value) for value in values]
    different = len(set(numbers))
    latest = -1
    out_of_order = 0
    for number in numbers:
        out_of_order += number < latest
        latest = max(latest, number)
    return Sent(cuts, len(numbers), len(numbers) - different, count - different, out_of_order)


def _send_by_hand(address: str) -> SentByHand:
    """Send a batch, the same again, and one whose sequence number is too high.

    raises  ClientError
    """
    with Client(address) as client:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        given = client.any_broker(asked, InitProducerIdResponse)
        first, repeated, gap, last = (
            _produce(client, given.producer_id, given.producer_epoch, sequence)
            for sequence in (0, 0, 5, 1)
        )
    if last.error_code:
        raise DemoError(f"the sequence goes on with an error {ErrorCode(last.error_code).name}")
    return SentByHand(first.base_offset, repeated.base_offset, gap.error_code, last.base_offset + 1)


def _produce(
    client: Client, producer_id: int, epoch: int, sequence: int
) -> PartitionProduceResponse:
    batch = build_batch(
        [Record(None, b"value", timestamp_ms=-1)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=BY_HAND,
                partition_data=[PartitionProduceData(index=0, records=memoryview(batch))],
            )
        ],
    )
    response = client.any_broker(request, ProduceResponse, PRODUCE_VERSION)
    return response.responses[0].partition_responses[0]


def claims_of(plain: Sent, idempotent: Sent, by_hand: SentByHand) -> Sequence[Claim]:
    """Every promise, in the order in which they are printed."""
    gap = ErrorCode(by_hand.gap_error).name
    return [
        Claim(
            _line("enable.idempotence=false", plain),
            plain.cuts > 0 and plain.duplicates > 0 and not plain.missing,
        ),
        Claim(
            _line("enable.idempotence=true ", idempotent),
            idempotent.cuts > 0
            and not (idempotent.duplicates or idempotent.missing or idempotent.out_of_order),
        ),
        Claim(
            f"a batch at offset {by_hand.first_offset} that is sent again with its sequence number "
            f"is acknowledged at offset {by_hand.repeated_offset}; the log ends at "
            f"{by_hand.end_offset} after one more",
            by_hand.first_offset == by_hand.repeated_offset == 0 and by_hand.end_offset == 2,
        ),
        Claim(
            f"a batch that leaves a gap in the sequence is refused: {gap}",
            by_hand.gap_error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ),
    ]


def _line(name: str, sent: Sent) -> str:
    return (
        f"{name}: {sent.cuts} cuts, {sent.stored} records stored, "
        f"{sent.duplicates} duplicates, {sent.missing} missing, {sent.out_of_order} out of order"
    )
