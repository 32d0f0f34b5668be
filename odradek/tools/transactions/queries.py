"""Ask coordinators about transactional ids, and leaders about producers, as Kafka's admin client.

Source: Kafka 3.9's ListTransactionsHandler, DescribeTransactionsHandler, DescribeProducersHandler,
AbortTransactionHandler, FenceProducersHandler, PartitionLeaderStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from odradek.protocol.messages.list_transactions import TransactionState as TransactionListing
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import TRANSACTION, BrokerConnection, Client
from odradek.tools.errors import ToolError, error_text, partition_text

COORDINATOR_MOVES: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
LEADER_MOVES: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
FENCING_TIMEOUT_MS: Final = 60_000
"""Kafka: default.api.timeout.ms, which the fenced producer's id gets as its transaction timeout."""
FENCING_VERSION: Final = 5
"""The version of InitProducerId; later ones add nothing for fencing."""
MARKERS_VERSION: Final = 1
"""The version of WriteTxnMarkers; version 2 is for coordinators."""
BY_DURATION: Final = 1
"""The first version of ListTransactions that filters by duration."""
STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)

Found = TypeVar("Found")


class AdminError(ToolError):
    """A call of the admin client failed; the message is that of its exception."""


class TransactionDescription(NamedTuple):
    """The state of a transactional id."""

    coordinator_id: int
    state: TransactionState

    @property
    def partitions(self) -> list[TopicPartition]:
        """Sorted."""
        return sorted(
            TopicPartition(topic.topic, index)
            for topic in self.state.topics
            for index in topic.partitions
        )


class AbortSpec(NamedTuple):
    """An abort marker, and the partition that gets it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    def __str__(self) -> str:
        return (
            f"AbortTransactionSpec(topicPartition={partition_text(self.partition)}, "
            f"producerId={self.producer_id}, producerEpoch={self.producer_epoch}, "
            f"coordinatorEpoch={self.coordinator_epoch})"
        )


def state_name(name: str) -> str:
    """The state, as Kafka's tool names it."""
    return name if name in STATES else "Unknown"


def list_transactions(
    client: Client, *, producer_ids: Iterable[int] = (), duration_ms: int = -1
) -> dict[int, list[TransactionListing]]:
    """Transactional ids by the broker that coordinates them.

    producer_ids  only ids with one of these producers, unless it is empty
    raises        AdminError, ClientError
    """
    request = ListTransactionsRequest(
        state_filters=[], producer_id_filters=list(producer_ids), duration_filter_ms=duration_ms
    )
    brokers = {broker.node_id: broker for broker in client.metadata([]).brokers}

    def ask(node_id: int) -> list[TransactionListing] | None:
        connection = client.connection(brokers[node_id])
        version = connection.version_of(ListTransactionsRequest)
        if version < BY_DURATION and duration_ms >= 0:
            raise AdminError(
                "Duration filter can be set only when using API version 1 or higher. If client is "
                "connected to an older broker, do not specify duration filter or set duration "
                "filter to -1."
            )
        response = connection.request(request, ListTransactionsResponse, BY_DURATION)
        if response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return None
        if response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            raise AdminError(
                f"ListTransactions request sent to broker {node_id} failed because the "
                "coordinator is shutting down"
            )
        if response.error_code:
            raise AdminError(
                f"ListTransactions request sent to broker {node_id} failed with an unexpected "
                "exception"
            )
        return list(response.transaction_states)

    return {
        node_id: _retried(client, "listTransactions", partial(ask, node_id))
        for node_id in sorted(brokers)
    }


def describe_transactions(
    client: Client, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | None]:
    """The state of each id; None for one that is not known.

    raises  AdminError, ClientError
    """
    descriptions: dict[str, TransactionDescription | None] = {}
    names = sorted(set(transactional_ids))

    def attempt() -> bool | None:
        for node_id, connection, ids in _coordinators(client, names, descriptions):
            request = DescribeTransactionsRequest(transactional_ids=ids)
            response = connection.request(request, DescribeTransactionsResponse)
            for state in response.transaction_states:
                if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    descriptions[state.transactional_id] = None
                elif state.error_code not in COORDINATOR_MOVES:
                    _check_id("DescribeTransactions", state.transactional_id, state.error_code)
                    descriptions[state.transactional_id] = TransactionDescription(node_id, state)
        return True if len(descriptions) == len(names) else None

    _retried(client, "describeTransactions", attempt)
    return descriptions


def _coordinators(
    client: Client, ids: Sequence[str], done: Mapping[str, Any]
) -> list[tuple[int, BrokerConnection, list[str]]]:
    """(broker, connection, ids) of those ids that are not yet found."""
    left = [name for name in ids if name not in done]
    rows: dict[int, tuple[BrokerConnection, list[str]]] = {}
    for row in client.coordinators(left, TRANSACTION) if left else []:
        if row.error_code in COORDINATOR_MOVES:
            continue
        key = f"CoordinatorKey(idValue='{row.key}', type=TRANSACTION)"
        if row.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise AdminError(
                f"FindCoordinator request for transactionalId `{key}` failed due to authorization "
                "failure"
            )
        if row.error_code:
            raise AdminError(
                f"FindCoordinator request for key `{key}` failed due to an unexpected error"
            )
        connection = client.connection(row)
        rows.setdefault(row.node_id, (connection, []))[1].append(row.key)
    return [(node_id, connection, names) for node_id, (connection, names) in rows.items()]


def _check_id(call: str, name: str, code: int) -> None:
    if not code:
        return
    reason = "unexpected error"
    if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        is_fencing = call == "InitProducerId"
        reason = "transactional ID authorization failure" if is_fencing else "authorization failure"
    elif code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        reason = "cluster authorization failure"
    raise AdminError(f"{call} request for transactionalId `{name}` failed due to {reason}")


def fence_producer(client: Client, transactional_id: str) -> None:
    """Take the next epoch of an id, which aborts its ongoing transaction.

    raises  AdminError, ClientError
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS
    )

    def attempt() -> bool | None:
        for _, connection, _ in _coordinators(client, [transactional_id], {}):
            response = connection.request(request, InitProducerIdResponse, FENCING_VERSION)
            if response.error_code in (*COORDINATOR_MOVES, ErrorCode.CONCURRENT_TRANSACTIONS):
                continue
            _check_id("InitProducerId", transactional_id, response.error_code)
            return True
        return None

    _retried(client, "fenceProducers", attempt)


def describe_producers(
    client: Client, partitions: Sequence[TopicPartition], broker_id: int | None = None
) -> dict[TopicPartition, list[ProducerState]]:
    """The producers that each partition knows, on its leader or on the broker that is named.

    raises  AdminError, ClientError
    """
    producers: dict[TopicPartition, list[ProducerState]] = {}

    def attempt() -> bool | None:
        left = [partition for partition in partitions if partition not in producers]
        by_broker = _leaders(client, left) if broker_id is None else {broker_id: left}
        for node_id, led in by_broker.items():
            response = client.broker(node_id).request(_by_topic(led), DescribeProducersResponse)
            for topic in response.topics:
                for partition in topic.partitions:
                    key = TopicPartition(topic.name, partition.partition_index)
                    if _is_described(key, partition.error_code, partition.error_message, broker_id):
                        producers[key] = list(partition.active_producers)
        return True if all(partition in producers for partition in partitions) else None

    _retried(client, "describeProducers", attempt)
    return {partition: producers[partition] for partition in sorted(set(partitions))}


def _by_topic(partitions: Sequence[TopicPartition]) -> DescribeProducersRequest:
    topics: dict[str, TopicRequest] = {}
    for partition in partitions:
        empty = TopicRequest(name=partition.topic, partition_indexes=[])
        topics.setdefault(partition.topic, empty).partition_indexes.append(partition.partition)
    return DescribeProducersRequest(topics=list(topics.values()))


def _is_described(
    partition: TopicPartition, code: int, message: str | None, broker_id: int | None
) -> bool:
    """Whether the producers are in the response; False: ask again."""
    if not code:
        return True
    text = partition_text(partition)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        if broker_id is None:
            return False
        raise AdminError(
            f"Failed to describe active producers for partition {text} on brokerId {broker_id}"
        )
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        raise AdminError(
            f"Failed to fetch metadata for partition {text} due to invalid topic error: "
            f"{message or error_text(code)}"
        )
    reason = "unexpected error"
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        reason = f"authorization failure on topic `{partition.topic}`"
    raise AdminError(f"Failed to describe active producers for partition {text} due to {reason}")


def _leaders(
    client: Client, partitions: Sequence[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """Partitions by the broker that leads them; those without a leader are left out."""
    rows: dict[int, list[TopicPartition]] = {}
    names = list(dict.fromkeys(partition.topic for partition in partitions))
    topics = {topic.name: topic for topic in client.metadata(names).topics}
    for partition in partitions:
        topic = topics[partition.topic]
        if topic.error_code:
            _check_topic(partition, topic.error_code)
            continue
        for row in topic.partitions:
            if row.partition_index != partition.partition:
                continue
            if row.error_code and row.error_code not in LEADER_MOVES:
                raise AdminError(
                    f"Unexpected error during metadata lookup for {partition_text(partition)}"
                )
            if not row.error_code and row.leader_id >= 0:
                rows.setdefault(row.leader_id, []).append(partition)
    return rows


def _check_topic(partition: TopicPartition, code: int) -> None:
    what = f"Failed to fetch metadata for partition {partition_text(partition)} due to"
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise AdminError(f"{what} topic authorization failure")
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        raise AdminError(f"{what} invalid topic `{partition.topic}`")
    if code not in LEADER_MOVES:
        raise AdminError(f"{what} unexpected error for topic `{partition.topic}`")


def abort_transaction(client: Client, spec: AbortSpec) -> None:
    """Have the leader write an abort marker.

    raises  AdminError, ClientError
    """
    topic, index = spec.partition
    marker = WritableTxnMarker(
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=spec.coordinator_epoch,
    )

    def attempt() -> bool | None:
        for node_id in _leaders(client, [spec.partition]):
            response = client.broker(node_id).request(
                WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, MARKERS_VERSION
            )
            codes = [
                partition.error_code
                for row in response.markers
                for topic_row in row.topics
                for partition in topic_row.partitions
            ]
            if len(codes) != 1:
                raise AdminError("WriteTxnMarkers response included unexpected marker entries")
            if codes[0] not in LEADER_MOVES:
                _check_marker(spec, codes[0])
                return True
        return None

    _retried(client, "abortTransaction", attempt)


def _check_marker(spec: AbortSpec, code: int) -> None:
    if not code:
        return
    reason = f"failed due to unexpected error: {error_text(code)}"
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        reason = "failed due to cluster authorization error"
    elif code == ErrorCode.INVALID_PRODUCER_EPOCH:
        reason = "failed due an invalid producer epoch"
    elif code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        reason = (
            f"failed since the provided coordinator epoch {spec.coordinator_epoch} has been fenced "
            "by the active coordinator"
        )
    raise AdminError(f"WriteTxnMarkers request with {spec} {reason}")


def _retried(client: Client, call: str, attempt: Callable[[], Found | None]) -> Found:
    result = client.retry(attempt)
    if result is None:
        raise AdminError(f"Timed out waiting for a node assignment. Call: {call}")
    return result
