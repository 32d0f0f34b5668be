"""ElectLeaders (key 43): elects the preferred leaders of partitions, or any replica that is alive.

Served: 0-2, by the controller.  The response is sent when the metadata have the new leaders.
    0   preferred leaders (KIP-183)
    1   unclean elections too, an error of the whole request (KIP-460)
    2   flexible encoding (KIP-482)
All partitions (None) leave those out that need no election.
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (its topic is being
    deleted), ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE,
    NOT_CONTROLLER, REQUEST_TIMED_OUT (elected, but not in the metadata within the time-out).
    Of the request: UNKNOWN_SERVER_ERROR (an unknown type of election).
Source: KIP-183, KIP-460; Kafka's KafkaApis.handleElectLeaders, DelayedElectLeader.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Delayed
from odradek.broker.handlers.shared.waiting import Checklist, wait_for
from odradek.broker.replication.leadership import topic_key
from odradek.broker.security.acl.permission import ALTER_CLUSTER
from odradek.controller.decide.elections import ElectionType
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import Later, pause

ElectionResults = Mapping[TopicPartition, int | BrokerError]


async def run(context: Context, request: ElectLeadersRequest) -> Delayed:
    """Have the controller elect, then wait for the leaders in the metadata."""
    require(context, ALTER_CLUSTER)
    if request.election_type not in tuple(ElectionType):
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    keys = await _partitions(context, request)
    elected = context.services.controller.requests.elect_leaders(
        ElectionType(request.election_type), keys
    )
    led: Checklist[tuple[TopicPartition, int | BrokerError]] = Checklist(
        lambda row: _leader(context, row[0]) == row[1]
    )

    def respond(results: ElectionResults) -> Later[ElectLeadersResponse] | None:
        rows = ((key, results[key]) for key in keys)
        successes = (row for row in rows if not isinstance(row[1], BrokerError))
        return _response(request, results) if led.is_complete(successes) else None

    def expire() -> Later[ElectLeadersResponse]:
        late = BrokerError(ErrorCode.REQUEST_TIMED_OUT)
        results = dict(elected.result()) if elected.is_done else dict.fromkeys(keys, late)
        for key, result in results.items():
            if not isinstance(result, BrokerError) and _leader(context, key) != result:
                results[key] = late
        return _response(request, results)

    return wait_for(
        context,
        elected,
        request.timeout_ms,
        respond=respond,
        expire=expire,
        watch=tuple(dict.fromkeys(topic_key(key.topic) for key in keys)),
    )


def failed(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    """Give every partition the error; the request itself has none, not even NOT_CONTROLLER."""
    del message
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if code is ErrorCode.NOT_CONTROLLER else code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[_row(index, BrokerError(code)) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


async def _partitions(context: Context, request: ElectLeadersRequest) -> list[TopicPartition]:
    keys: dict[TopicPartition, None] = {}
    if request.topic_partitions is None:
        for name, topic in context.services.controller.image.topics.items():
            keys |= {TopicPartition(name, index): None for index in sorted(topic.partitions)}
            await pause()
    for named in request.topic_partitions or ():
        keys |= {TopicPartition(named.topic, index): None for index in named.partitions}
        await pause()
    return list(keys)


def _leader(context: Context, key: TopicPartition) -> int | None:
    partition = context.services.controller.image.partition(*key)
    return None if partition is None or partition.state is None else partition.state.leader


async def _response(request: ElectLeadersRequest, results: ElectionResults) -> ElectLeadersResponse:
    rows: dict[str, list[PartitionResult]] = {}
    for key, result in results.items():
        await pause()
        refusal = result if isinstance(result, BrokerError) else None
        is_needless = refusal is not None and refusal.code is ErrorCode.ELECTION_NOT_NEEDED
        if request.topic_partitions is not None or not is_needless:
            rows.setdefault(key.topic, []).append(_row(key.partition, refusal))
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=partition_results)
            for topic, partition_results in rows.items()
        ],
    )


def _row(partition: int, refusal: BrokerError | None) -> PartitionResult:
    return PartitionResult(
        partition_id=partition,
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
    )
