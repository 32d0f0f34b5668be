"""InitProducerId, idempotent Produce with its sequences, DescribeProducers."""

from __future__ import annotations

from typing import Any

from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk, versions_of

NAME = "producers"
PRODUCE_VERSION = 9
CACHED_BATCHES = 5


def play(talk: Talk) -> None:
    """Ids, then sequences."""
    talk.make_topic(NAME, 2)
    talk.until(
        "the first producer id", lambda: request_id(talk), lambda response: response.error_code == 0
    )
    for version in versions_of(InitProducerIdRequest):
        new = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        talk.ask("a new id", new, version)
    for label, producer_id, epoch in (
        ("an id without an epoch", 5, -1),
        ("an epoch without an id", -1, 5),
        ("an id and its epoch", 5, 5),
    ):
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        talk.ask(label, request, 4)
    empty = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    talk.ask("an empty transactional id", empty, 4)
    sequences(talk)
    epochs(talk)
    described(talk)


def new_id(talk: Talk, name: str) -> int:
    """A producer id that the golden file shows by this name."""
    response = request_id(talk)
    assert response.error_code == 0, response
    talk.masks.give("producer", response.producer_id, name)
    return int(response.producer_id)


def request_id(talk: Talk) -> Any:
    """The response to a new producer."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    return talk.quiet(request, 4)


def send(
    talk: Talk, label: str, producer_id: int, sequence: int, *, epoch: int = 0, count: int = 2
) -> None:
    """One idempotent batch; partition 0."""
    content = batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    talk.ask(label, produce_request(NAME, content), PRODUCE_VERSION)


def sequences(talk: Talk) -> None:
    """In order, again, out of order, too old."""
    producer_id = new_id(talk, "one")
    for number in range(CACHED_BATCHES + 2):
        send(talk, f"batch {number} in order", producer_id, 2 * number)
    send(talk, "the last batch again", producer_id, 2 * (CACHED_BATCHES + 1))
    send(talk, "the oldest cached batch again", producer_id, 4)
    send(talk, "a batch that is no longer cached", producer_id, 0)
    send(talk, "a gap", producer_id, 100)
    send(talk, "an overlap", producer_id, 13)
    send(talk, "the last sequences in a larger batch", producer_id, 12, count=3)
    send(talk, "a first batch that does not start at 0", new_id(talk, "late"), 7)
    send(talk, "an id that was never given", 987_654_321, 0)
    send(talk, "a sequence below zero", producer_id, -1)
    other_id = new_id(talk, "two")
    send(talk, "the first batch", other_id, 0)
    talk.ask(
        "two batches in one request",
        produce_request(
            NAME,
            batch(2, producer_id=other_id, producer_epoch=0, base_sequence=2)
            + batch(2, producer_id=other_id, producer_epoch=0, base_sequence=4),
        ),
        PRODUCE_VERSION,
    )
    acks_1 = batch(2, producer_id=other_id, producer_epoch=0, base_sequence=2)
    talk.ask("idempotent with acks=1", produce_request(NAME, acks_1, acks=1), PRODUCE_VERSION)


def epochs(talk: Talk) -> None:
    """A newer epoch starts at 0 and fences the older one."""
    producer_id = new_id(talk, "of two epochs")
    send(talk, "epoch 0", producer_id, 0)
    send(talk, "epoch 1 not from 0", producer_id, 2, epoch=1)
    send(talk, "epoch 1 from 0", producer_id, 0, epoch=1)
    send(talk, "epoch 0 again", producer_id, 2, epoch=0)
    send(talk, "epoch -1", producer_id, 2, epoch=-1)
    plain = batch(
        2, producer_id=producer_id, producer_epoch=1, base_sequence=2, is_transactional=True
    )
    talk.ask("transactional without an id", produce_request(NAME, plain), PRODUCE_VERSION)


def described(talk: Talk) -> None:
    """The state that was built up."""
    for label, name, partition in (
        ("producers of the partition", NAME, 0),
        ("producers of an empty partition", NAME, 1),
        ("producers of an unknown partition", NAME, 9),
        ("producers of an unknown topic", "never-made", 0),
    ):
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=[partition])]
        )
        talk.ask(label, request, 0)
