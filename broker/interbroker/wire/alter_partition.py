"""AlterPartition: value <-> message, versions 0-3.

Source: KIP-497, KIP-841, KIP-903; Kafka's AlterPartitionRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from odradek.controller.decide.isr import AlterIsr
from odradek.controller.image.image import PartitionState
from odradek.protocol.errors import ErrorCode, error_of
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from odradek.protocol.topic_partition import ZERO_UUID

TOPIC_IDS_FROM: Final = 2
BROKER_EPOCHS_FROM: Final = 3

Proposal = tuple[str, AlterIsr]
"""(topic, proposed state of one of its partitions)."""
AlteredPartition = PartitionState | ErrorCode
"""The state that was written, or the error."""


def alter_partition_message(
    broker_id: int,
    broker_epoch: int,
    proposals: Sequence[Proposal],
    topic_id: Callable[[str], UUID],
    version: int,
) -> AlterPartitionRequest:
    """The message of a leader; `topic_id` is asked from version 2 on."""
    topics: dict[str, AlterPartitionRequestTopicData] = {}
    for name, proposal in proposals:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AlterPartitionRequestTopicData(
                topic_name=name,
                topic_id=topic_id(name) if version >= TOPIC_IDS_FROM else ZERO_UUID,
                partitions=[],
            )
        with_epochs = version >= BROKER_EPOCHS_FROM
        topic.partitions.append(
            AlterPartitionRequestPartitionData(
                partition_index=proposal.partition,
                leader_epoch=proposal.leader_epoch,
                new_isr=[] if with_epochs else list(proposal.isr),
                new_isr_with_epochs=[
                    BrokerState(
                        broker_id=broker, broker_epoch=proposal.broker_epochs.get(broker, -1)
                    )
                    for broker in (proposal.isr if with_epochs else ())
                ],
                leader_recovery_state=proposal.leader_recovery_state,
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )


def alter_partition_proposals(
    topic: str, data: AlterPartitionRequestTopicData, version: int
) -> list[Proposal]:
    """The proposals of the message for the partitions of one topic."""
    proposals = []
    for partition in data.partitions:
        states = partition.new_isr_with_epochs
        isr = (
            (state.broker_id for state in states)
            if version >= BROKER_EPOCHS_FROM
            else partition.new_isr
        )
        proposals.append(
            (
                topic,
                AlterIsr(
                    partition.partition_index,
                    partition.leader_epoch,
                    tuple(isr),
                    partition.partition_epoch,
                    partition.leader_recovery_state,
                    {state.broker_id: state.broker_epoch for state in states},
                ),
            )
        )
    return proposals


def altered_partition(
    index: int, altered: AlteredPartition, version: int
) -> AlterPartitionResponsePartitionData:
    """The part of a response for one partition."""
    if isinstance(altered, PartitionState):
        return AlterPartitionResponsePartitionData(
            partition_index=index,
            error_code=ErrorCode.NONE,
            leader_id=altered.leader,
            leader_epoch=altered.leader_epoch,
            isr=list(altered.isr),
            leader_recovery_state=altered.leader_recovery_state,
            partition_epoch=altered.partition_epoch,
        )
    if altered is ErrorCode.INELIGIBLE_REPLICA and version < TOPIC_IDS_FROM:
        altered = ErrorCode.OPERATION_NOT_ATTEMPTED
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        error_code=altered,
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
    )


def alter_partition_results(
    response: AlterPartitionResponse,
    proposals: Sequence[Proposal],
    topic_id: Callable[[str], UUID],
    version: int,
) -> list[AlteredPartition]:
    """The results of the controller, in the order of the proposals.

    A partition that it left out has UNKNOWN_SERVER_ERROR.
    """
    responses: dict[tuple[str | UUID, int], AlterPartitionResponsePartitionData] = {}
    for topic in response.topics:
        key = topic.topic_id if version >= TOPIC_IDS_FROM else topic.topic_name
        for partition in topic.partitions:
            responses[key, partition.partition_index] = partition
    results: list[AlteredPartition] = []
    for name, proposal in proposals:
        key = topic_id(name) if version >= TOPIC_IDS_FROM else name
        data = responses.get((key, proposal.partition))
        results.append(ErrorCode.UNKNOWN_SERVER_ERROR if data is None else _altered(data))
    return results


def _altered(data: AlterPartitionResponsePartitionData) -> AlteredPartition:
    error = error_of(data.error_code)
    if error is not ErrorCode.NONE:
        return error
    return PartitionState(
        data.leader_id,
        data.leader_epoch,
        tuple(data.isr),
        data.partition_epoch,
        -1,
        data.leader_recovery_state,
    )
