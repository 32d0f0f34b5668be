"""Transactions that are open in a partition, and that no coordinator is going to end (KIP-664).

Source: Kafka 3.9's TransactionsCommand.FindHangingTransactionsCommand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from odradek.protocol.messages.describe_producers import ProducerState
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.errors import error_text
from odradek.tools.transactions.queries import (
    AdminError,
    TransactionDescription,
    describe_producers,
    describe_transactions,
    list_transactions,
)

BATCH: Final = 500
"""Topics or partitions in one request."""

Item = TypeVar("Item")


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer: ProducerState


class HangingError(AdminError):
    """A step of the search failed; `str` of the error has Kafka's words for the step."""

    def __init__(self, what: str, error: AdminError) -> None:
        super().__init__(str(error))
        self.what = what


def partitions_to_search(
    client: Client, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    """The partitions with a replica on the broker, of all topics unless one is named.

    raises  HangingError, ClientError
    """
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    if topic is not None:
        names = [topic]
    else:
        names = [row.name for row in client.metadata().topics if row.name is not None]
    partitions = []
    for batch in _batches(names):
        for row in client.metadata(list(batch)).topics:
            if row.error_code:
                error = AdminError(error_text(row.error_code))
                raise HangingError(f"Failed to describe {len(batch)} topics", error)
            assert row.name is not None, "a topic without an error has its name"
            partitions += [
                TopicPartition(row.name, partition.partition_index)
                for partition in sorted(row.partitions, key=lambda each: each.partition_index)
                if broker_id is None or broker_id in partition.replica_nodes
            ]
    return partitions


def open_transactions(
    client: Client,
    partitions: Sequence[TopicPartition],
    broker_id: int | None,
    is_old: Callable[[ProducerState], bool],
) -> list[OpenTransaction]:
    """The open transactions of producers that `is_old` chooses.

    raises  HangingError, ClientError
    """
    transactions = []
    for batch in _batches(partitions):
        try:
            producers = describe_producers(client, batch, broker_id)
        except AdminError as error:
            on = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
            what = f"Failed to describe producers for {len(batch)} partitions on broker {on}"
            raise HangingError(what, error) from error
        transactions += [
            OpenTransaction(partition, state)
            for partition, states in producers.items()
            for state in states
            if state.current_txn_start_offset >= 0 and is_old(state)
        ]
    return transactions


def hanging_transactions(
    client: Client, candidates: Sequence[OpenTransaction]
) -> list[OpenTransaction]:
    """The candidates whose partition is in no transaction that a coordinator has of their producer.

    raises  HangingError, ClientError
    """
    by_producer: dict[int, list[OpenTransaction]] = {}
    for candidate in candidates:
        by_producer.setdefault(candidate.producer.producer_id, []).append(candidate)
    if not by_producer:
        return []
    ids = _transactional_ids(client, list(by_producer))
    try:
        descriptions = describe_transactions(client, ids.values())
    except AdminError as error:
        raise HangingError(f"Failed to describe {len(ids)} transactions", error) from error
    return without_expected(by_producer, ids, descriptions)


def without_expected(
    by_producer: Mapping[int, Sequence[OpenTransaction]],
    ids: Mapping[int, str],
    descriptions: Mapping[str, TransactionDescription | None],
) -> list[OpenTransaction]:
    """The open transactions for which no coordinator has a marker to write.

    ids  the transactional ids of producers; those that no coordinator knows are missing
    """
    transactions: list[OpenTransaction] = []
    for producer_id in sorted(by_producer):
        name = ids.get(producer_id)
        description = None if name is None else descriptions[name]
        expected = [] if description is None else description.partitions
        transactions += [
            transaction
            for transaction in by_producer[producer_id]
            if transaction.partition not in expected
        ]
    return transactions


def _transactional_ids(client: Client, producer_ids: Sequence[int]) -> dict[int, str]:
    try:
        listed = list_transactions(client, producer_ids=producer_ids)
    except AdminError as error:
        what = f"Failed to list transactions for {len(producer_ids)} producers"
        raise HangingError(what, error) from error
    return {
        row.producer_id: row.transactional_id
        for rows in listed.values()
        for row in rows
        if row.producer_id in producer_ids
    }


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
