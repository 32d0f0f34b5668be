"""AlterPartition: whether a leader may change the in-sync replicas.  Pure.

A replica that is not live, or has registered again since it fetched, is not eligible.
Differs from Kafka: its controller in ZooKeeper mode does not look at the broker epochs of KIP-903.
Source: KIP-497, KIP-704, KIP-841, KIP-903; Kafka's KafkaController.tryProcessAlterPartition.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from odradek.controller.image.image import (
    RECOVERED,
    RECOVERING,
    Image,
    PartitionImage,
    PartitionState,
)
from odradek.protocol.errors import BrokerError, ErrorCode


class AlterIsr(NamedTuple):
    """The in-sync replicas that a leader proposes for one partition."""

    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """The data version of the state znode that the leader knows."""
    leader_recovery_state: int = RECOVERED
    broker_epochs: Mapping[int, int] = MappingProxyType({})
    """Broker epochs of in-sync replicas, as far as the leader knows them; -1 is unknown."""


def check_sender(image: Image, broker_id: int, broker_epoch: int) -> None:
    """Refuse a request of a broker that is not registered, or not with this epoch.

    raises  BrokerError STALE_BROKER_EPOCH, for the whole request
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise BrokerError(ErrorCode.STALE_BROKER_EPOCH)


def decide_alter_isr(
    image: Image, partition: PartitionImage | None, leader_id: int, proposal: AlterIsr
) -> PartitionState:
    """The state to write by compare-and-set; the known state itself when nothing changes.

    raises  BrokerError UNKNOWN_TOPIC_OR_PARTITION, NOT_CONTROLLER, FENCED_LEADER_EPOCH,
            INVALID_UPDATE_VERSION, INVALID_REQUEST, INELIGIBLE_REPLICA (OPERATION_NOT_ATTEMPTED
            in responses below version 2)
    """
    state = partition.state if partition is not None else None
    if state is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if (
        proposal.partition_epoch > state.partition_epoch
        or proposal.leader_epoch > state.leader_epoch
    ):
        raise BrokerError(ErrorCode.NOT_CONTROLLER)
    if proposal.leader_epoch < state.leader_epoch:
        raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
    if (
        leader_id == state.leader
        and sorted(proposal.isr) == sorted(state.isr)
        and proposal.leader_recovery_state == state.leader_recovery_state
    ):
        return state
    if proposal.partition_epoch < state.partition_epoch:
        raise BrokerError(ErrorCode.INVALID_UPDATE_VERSION)
    if proposal.leader_recovery_state == RECOVERING and (
        len(proposal.isr) > 1 or state.leader_recovery_state == RECOVERED
    ):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(image, replica, proposal) for replica in proposal.isr):
        raise BrokerError(ErrorCode.INELIGIBLE_REPLICA)
    return state._replace(
        isr=proposal.isr,
        leader_recovery_state=proposal.leader_recovery_state,
        controller_epoch=image.controller_epoch,
    )


def _is_eligible(image: Image, broker_id: int, proposal: AlterIsr) -> bool:
    epoch = proposal.broker_epochs.get(broker_id, -1)
    return image.is_live(broker_id) and epoch in (-1, image.brokers[broker_id].broker_epoch)
