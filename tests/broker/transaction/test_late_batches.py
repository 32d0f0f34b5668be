"""A batch that arrives after the marker of its transaction never opens one that stays open."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import ProduceRequest
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.chapters.cluster import TRANSACTION, wait_for_coordinator
from tests.scripts.chapters.offsets import LATEST, where
from tests.scripts.chapters.transaction_coordinator import (
    SETTINGS,
    Producer,
    add_request,
    begin,
    end_request,
    settle,
)
from tests.scripts.talk import Talk
from tests.support.node_thread import running_node

TOPIC: Final = "t"
ID: Final = "tx"
PRODUCE: Final = 9
ROUNDS: Final = 60
SENT: Final = (
    ErrorCode.NONE,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
"""Stored in an open transaction, or refused."""


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with running_node(tmp_path, SETTINGS) as address:
        talk = Talk(address)
        talk.make_topic(TOPIC, 2)
        wait_for_coordinator(talk, TRANSACTION)
        yield talk
        talk.close()


def record(producer: Producer, sequence: int, partition: int = 0) -> ProduceRequest:
    """A transactional batch of one record."""
    content = batch(
        1,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
    return produce_request(TOPIC, content, partition=partition, transactional_id=ID)


def error_of(response: Any) -> ErrorCode:
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def produce(talk: Talk, producer: Producer, sequence: int, partition: int = 0) -> ErrorCode:
    return error_of(talk.quiet(record(producer, sequence, partition), PRODUCE))


def add(talk: Talk, producer: Producer, *partitions: int) -> None:
    """Add partitions, once the markers of the last transaction are written."""
    request = add_request(ID, producer, *partitions, topic=TOPIC)

    def codes() -> list[int]:
        added = talk.quiet(request, 3).results_by_topic_v3_and_below
        return [
            result.partition_error_code for topic in added for result in topic.results_by_partition
        ]

    errors = talk.until(
        "the partitions", codes, lambda codes: ErrorCode.CONCURRENT_TRANSACTIONS not in codes
    )
    assert not any(errors), errors


def end(talk: Talk, producer: Producer, *, is_commit: bool = True) -> None:
    assert talk.quiet(end_request(ID, producer, is_commit=is_commit), 3).error_code == 0
    settle(talk, ID)


def is_stable(talk: Talk, partition: int = 0) -> bool:
    """Whether no transaction is open in a partition."""
    high, stable = (
        talk.quiet(where(LATEST, topic=TOPIC, partition=partition, isolation=isolation), 6)
        for isolation in (0, 1)
    )
    return bool(high.topics[0].partitions[0].offset == stable.topics[0].partitions[0].offset)


@pytest.mark.parametrize("is_commit", [True, False])
def test_batch_after_the_marker_is_refused_and_opens_nothing(talk: Talk, is_commit: bool) -> None:
    producer = begin(talk, ID)
    add(talk, producer, 0)
    assert produce(talk, producer, 0) is ErrorCode.NONE
    end(talk, producer, is_commit=is_commit)
    assert produce(talk, producer, 1) is ErrorCode.INVALID_TXN_STATE
    assert is_stable(talk)


def test_batch_of_a_fenced_producer_is_refused_and_opens_nothing(talk: Talk) -> None:
    zombie = begin(talk, ID)
    add(talk, zombie, 0)
    assert produce(talk, zombie, 0) is ErrorCode.NONE
    producer = begin(talk, ID)
    assert produce(talk, zombie, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    # Nor where the zombie has not written before, and where no marker was written either.
    assert produce(talk, zombie, 0, partition=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert is_stable(talk)
    assert is_stable(talk, 1)
    add(talk, producer, 0)
    assert produce(talk, producer, 0) is ErrorCode.NONE
    end(talk, producer)
    assert is_stable(talk)


def test_late_batch_in_the_next_transaction_is_refused_unless_that_has_its_partition(
    talk: Talk,
) -> None:
    producer = begin(talk, ID)
    add(talk, producer, 0)
    assert produce(talk, producer, 0) is ErrorCode.NONE
    end(talk, producer)
    add(talk, producer, 1)
    assert produce(talk, producer, 1) is ErrorCode.INVALID_TXN_STATE
    assert is_stable(talk)
    add(talk, producer, 0)
    assert produce(talk, producer, 1) is ErrorCode.NONE
    assert not is_stable(talk)
    end(talk, producer)
    assert is_stable(talk)


def test_batches_that_race_with_the_end_leave_no_open_transaction(talk: Talk) -> None:
    """The end is sent on one connection and a batch on another, in both orders, without waiting."""
    first, second = talk.connect(), talk.connect()
    refused = 0
    for number in range(ROUNDS):
        producer = begin(talk, ID)
        add(talk, producer, 0, 1)
        assert produce(talk, producer, 0) is ErrorCode.NONE
        request = end_request(ID, producer, is_commit=number % 3 > 0)
        # To a partition that the transaction has opened, and to one that it has not.
        late = record(producer, (number + 1) % 2, partition=number % 2)
        if number % 4 < 2:
            first.send(request, 3)
            second.send(late, PRODUCE)
        else:
            second.send(late, PRODUCE)
            first.send(request, 3)
        ended, sent = first.receive(ApiKey.END_TXN, 3), second.receive(ApiKey.PRODUCE, PRODUCE)
        assert ended.error_code == 0
        error = error_of(sent)
        assert error in SENT, error
        refused += error is not ErrorCode.NONE
        settle(talk, ID)
        for partition in (0, 1):
            talk.until("a stable partition", partial(is_stable, talk, partition), bool)
    assert 0 < refused < ROUNDS
