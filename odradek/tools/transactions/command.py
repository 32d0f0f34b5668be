"""`odradek transactions`: the commands, flags, lines and exit codes of `kafka-transactions.sh` 3.9.

    list                       transactional ids with their coordinators and states
    describe                   the state of a transactional id
    describe-producers         the producers that a partition knows
    find-hanging               transactions that no coordinator is going to end
    abort                      end such a transaction
    forceTerminateTransaction  abort what a transactional id has under way (of Kafka 4)

Exit codes: 0 success; 1 failure, or help; 2 an invalid command line.  The reason is on stderr.
Source: Kafka 3.9's TransactionsCommand, KIP-664; forceTerminateTransaction is Kafka 4's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import time
from typing import Final, TypeVar

from odradek.protocol.messages.describe_producers import ProducerState
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.errors import ToolError, error_text, partition_text
from odradek.tools.options import OptionsError
from odradek.tools.run import KAFKA_VERSION, WRONG_USAGE, run_tool
from odradek.tools.tables import print_table
from odradek.tools.transactions.options import HelpShown, TransactionOptions, VersionShown, parse
from odradek.tools.transactions.queries import (
    AbortSpec,
    AdminError,
    abort_transaction,
    describe_producers,
    describe_transactions,
    fence_producer,
    list_transactions,
    state_name,
)

MAX_TIMEOUT_MINUTES: Final = 15
MINUTE_MS: Final = 60_000
BATCH: Final = 500
"""Topics or partitions in one request."""
NONE: Final = "None"
LISTED: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBED: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
PRODUCERS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
HANGING: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)

Item = TypeVar("Item")
OpenTransaction = tuple[TopicPartition, ProducerState]
"""A transaction that is open in a partition."""


def main(arguments: Sequence[str]) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = parse(arguments)
    except HelpShown as shown:
        print(shown)
        return 1
    except VersionShown:
        print(KAFKA_VERSION)
        return 0
    except OptionsError as error:
        print(error, file=sys.stderr)
        return WRONG_USAGE
    bootstrap = _required(options, "bootstrap-server")
    with open_client(bootstrap, options.value("command-config")) as client:
        ACTIONS[options.command](client, options)
    return 0


def _list(client: Client, options: TransactionOptions) -> None:
    duration_ms = options.number("duration-filter")
    with _failing("Failed to list transactions"):
        listed = list_transactions(client, duration_ms=-1 if duration_ms is None else duration_ms)
    rows = [
        (state.transactional_id, node_id, state.producer_id, state_name(state.transaction_state))
        for node_id, states in listed.items()
        for state in states
    ]
    print_table(LISTED, rows)


def _describe(client: Client, options: TransactionOptions) -> None:
    name = _required(options, "transactional-id")
    with _failing(f"Failed to describe transaction state of transactional-id `{name}`"):
        described = describe_transactions(client, [name])[name]
        if described is None:
            raise AdminError(
                f"DescribeTransactions request for transactionalId `{name}` failed because the ID "
                "could not be found"
            )
    state = described.state
    has_begun = state.transaction_start_time_ms >= 0
    row = (
        described.coordinator_id,
        name,
        state.producer_id,
        state.producer_epoch,
        state_name(state.transaction_state),
        state.transaction_timeout_ms,
        state.transaction_start_time_ms if has_begun else NONE,
        _now_ms() - state.transaction_start_time_ms if has_begun else NONE,
        ",".join(map(partition_text, described.partitions)),
    )
    print_table(DESCRIBED, [row])


def _describe_producers(client: Client, options: TransactionOptions) -> None:
    partition = _partition(options)
    broker_id = options.number("broker-id")
    on = "leader" if broker_id is None else f"broker {broker_id}"
    with _failing(
        f"Failed to describe producers for partition {partition_text(partition)} on {on}"
    ):
        producers = describe_producers(client, [partition], broker_id)[partition]
    rows = [
        (
            producer.producer_id,
            producer.producer_epoch,
            max(producer.coordinator_epoch, -1),
            producer.last_sequence,
            producer.last_timestamp_ms,
            NONE if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
        )
        for producer in producers
    ]
    print_table(PRODUCERS, rows)


def _abort(client: Client, options: TransactionOptions) -> None:
    partition = _partition(options)
    start_offset = options.number("start-offset")
    producer_id = options.number("producer-id")
    if start_offset is not None:
        spec = _abort_spec(client, partition, start_offset)
    elif producer_id is not None:
        spec = AbortSpec(
            partition,
            producer_id,
            _given(options, "producer-epoch"),
            # A producer whose first transaction hangs has none; 0 is at most what a leader has.
            max(_given(options, "coordinator-epoch"), 0),
        )
    else:
        raise ToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers "
            "on 3.0 or above) or with --producer-id, --producer-epoch, and --coordinator-epoch "
            "(for older brokers)"
        )
    with _failing(f"Failed to abort transaction {spec}"):
        abort_transaction(client, spec)


def _abort_spec(client: Client, partition: TopicPartition, start_offset: int) -> AbortSpec:
    text = partition_text(partition)
    with _failing(f"Failed to validate producer state for partition {text}"):
        producers = describe_producers(client, [partition])[partition]
    for producer in producers:
        if start_offset >= 0 and producer.current_txn_start_offset == start_offset:
            coordinator_epoch = max(producer.coordinator_epoch, 0)
            return AbortSpec(
                partition, producer.producer_id, producer.producer_epoch, coordinator_epoch
            )
    raise ToolError(
        f"Could not find any open transactions starting at offset {start_offset} on partition "
        f"{text}"
    )


def _find_hanging(client: Client, options: TransactionOptions) -> None:
    topic, broker_id = options.value("topic"), options.number("broker-id")
    if topic is None and broker_id is None:
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope "
            "of the search"
        )
    partition = options.number("partition")
    if partition is not None and topic is None:
        raise ToolError("The --partition argument requires --topic to be provided")
    minutes = options.number("max-transaction-timeout")
    now_ms = _now_ms()
    oldest_ms = now_ms - (MAX_TIMEOUT_MINUTES if minutes is None else minutes) * MINUTE_MS
    if topic is not None and partition is not None:
        partitions = [TopicPartition(topic, partition)]
    else:
        partitions = _partitions_to_search(client, topic, broker_id)
    rows = [
        (
            *key,
            producer.producer_id,
            producer.producer_epoch,
            max(producer.coordinator_epoch, -1),
            producer.current_txn_start_offset,
            producer.last_timestamp_ms,
            int((now_ms - producer.last_timestamp_ms) / MINUTE_MS),
        )
        for key, producer in _without_expected(
            client, _open_transactions(client, partitions, broker_id, oldest_ms)
        )
    ]
    print_table(HANGING, rows)


def _partitions_to_search(
    client: Client, topic: str | None, broker_id: int | None
) -> list[TopicPartition]:
    """The partitions with a replica on the broker, of all topics unless one is named."""
    names = [topic] if topic is not None else [row.name or "" for row in client.metadata().topics]
    partitions = []
    for batch in _batches(names):
        for row in client.metadata(list(batch)).topics:
            with _failing(f"Failed to describe {len(batch)} topics"):
                if row.error_code:
                    raise AdminError(error_text(row.error_code))
            partitions += [
                TopicPartition(row.name or "", partition.partition_index)
                for partition in sorted(row.partitions, key=lambda each: each.partition_index)
                if broker_id is None or broker_id in partition.replica_nodes
            ]
    return partitions


def _open_transactions(
    client: Client, partitions: Sequence[TopicPartition], broker_id: int | None, oldest_ms: int
) -> list[OpenTransaction]:
    """The transactions whose producers have written nothing since `oldest_ms`."""
    on = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
    transactions: list[OpenTransaction] = []
    for batch in _batches(partitions):
        with _failing(f"Failed to describe producers for {len(batch)} partitions on broker {on}"):
            producers = describe_producers(client, batch, broker_id)
        transactions += [
            (partition, state)
            for partition, states in producers.items()
            for state in states
            if state.current_txn_start_offset >= 0 and state.last_timestamp_ms < oldest_ms
        ]
    return transactions


def _without_expected(
    client: Client, candidates: Sequence[OpenTransaction]
) -> list[OpenTransaction]:
    """The open transactions for which no coordinator has a marker to write, by producer."""
    producer_ids = list(dict.fromkeys(producer.producer_id for _, producer in candidates))
    if not producer_ids:
        return []
    with _failing(f"Failed to list transactions for {len(producer_ids)} producers"):
        listed = list_transactions(client, producer_ids=producer_ids)
    ids = {
        row.producer_id: row.transactional_id
        for rows in listed.values()
        for row in rows
        if row.producer_id in producer_ids
    }
    with _failing(f"Failed to describe {len(ids)} transactions"):
        descriptions = describe_transactions(client, ids.values())
    expected = {
        producer_id: description.partitions
        for producer_id, name in ids.items()
        if (description := descriptions[name]) is not None
    }
    return sorted(
        (
            (partition, producer)
            for partition, producer in candidates
            if partition not in expected.get(producer.producer_id, ())
        ),
        key=lambda row: row[1].producer_id,
    )


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def _force_terminate(client: Client, options: TransactionOptions) -> None:
    name = _required(options, "transactionalId")
    with _failing(f"Failed to force terminate transactionalId `{name}`"):
        fence_producer(client, name)


ACTIONS: Final[dict[str, Callable[[Client, TransactionOptions], None]]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}


def _partition(options: TransactionOptions) -> TopicPartition:
    return TopicPartition(_required(options, "topic"), int(_required(options, "partition")))


def _required(options: TransactionOptions, name: str) -> str:
    value = options.value(name)
    assert value is not None, f"parse requires --{name}"
    return value


def _given(options: TransactionOptions, name: str) -> int:
    number = options.number(name)
    if number is None:
        raise ToolError(f"Missing required argument --{name}")
    return number


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Begin the text of an AdminError with Kafka's words for the step that failed."""
    try:
        yield
    except AdminError as error:
        text = f"{what}: {error}. Enable debug logging for additional detail."
        raise ToolError(text) from error


def _now_ms() -> int:
    return int(time() * 1000)
