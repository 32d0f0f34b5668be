"""What the controller says to a leader's wish to change the in-sync replicas.  Pure.

Source: KIP-497, KIP-704, KIP-841; Kafka's KafkaController.tryProcessAlterPartition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from odradek.controller.image import RECOVERED, RECOVERING, Image, PartitionImage, PartitionState
from odradek.protocol.errors import BrokerError, ErrorCode


@dataclass(frozen=True, slots=True)
class AlterIsr:
    """A leader's wish for one partition."""

    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """The data version of the state that the leader knows."""
    leader_recovery_state: int = RECOVERED


def check_sender(image: Image, broker_id: int, broker_epoch: int) -> None:
    """Whether the leader is the broker that is registered now.

    raises  BrokerError STALE_BROKER_EPOCH, for the whole request
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise BrokerError(ErrorCode.STALE_BROKER_EPOCH)


def decide_alter_isr(
    image: Image, partition: PartitionImage | None, leader_id: int, wish: AlterIsr
) -> PartitionState:
    """The state to write with its version checked; the known state itself when it is the same.

    raises  BrokerError UNKNOWN_TOPIC_OR_PARTITION, NOT_CONTROLLER, FENCED_LEADER_EPOCH,
            INVALID_UPDATE_VERSION, INVALID_REQUEST, INELIGIBLE_REPLICA (versions below 2 of the
            request say OPERATION_NOT_ATTEMPTED for it)
    """
    state = partition.state if partition is not None else None
    if state is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wish.partition_epoch > state.partition_epoch or wish.leader_epoch > state.leader_epoch:
        raise BrokerError(ErrorCode.NOT_CONTROLLER)
    if wish.leader_epoch < state.leader_epoch:
        raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
    if (
        leader_id == state.leader
        and sorted(wish.isr) == sorted(state.isr)
        and wish.leader_recovery_state == state.leader_recovery_state
    ):
        return state
    if wish.partition_epoch < state.partition_epoch:
        raise BrokerError(ErrorCode.INVALID_UPDATE_VERSION)
    if wish.leader_recovery_state == RECOVERING and (
        len(wish.isr) > 1 or state.leader_recovery_state == RECOVERED
    ):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if not all(image.is_live(one) for one in wish.isr):
        raise BrokerError(ErrorCode.INELIGIBLE_REPLICA)
    return replace(
        state,
        isr=wish.isr,
        leader_recovery_state=wish.leader_recovery_state,
        controller_epoch=image.controller_epoch,
    )
