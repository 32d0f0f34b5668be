"""Leader election of partitions.  Pure.

| election | leader | in-sync replicas | recovery state |
|--|--|--|--|
| first | first live replica | all live replicas | recovered |
| offline | first replica that is live and in sync | those that are live | kept |
| offline, no live replica in sync, unclean allowed | first live replica | leader | recovering |
| reassign | first target that is live and in sync | kept | kept |
| preferred | the first replica, if live and in sync | kept | kept |
| controlled shutdown | first in sync that is not shutting down | without those | kept |
| replica offline | kept, or none when it led | without it; one alone stays | kept |
| unseen bounce, another is live in sync | kept, or none if it bounced | without those | kept |
| unseen bounce, no other is live in sync | kept | kept | kept |

Every election but the first raises the leader epoch by one.
Source: Kafka's Election, PartitionStateMachine, ReplicaStateMachine; KIP-704.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from odradek.controller.image.image import (
    NO_LEADER,
    RECOVERING,
    Image,
    PartitionImage,
    PartitionState,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition


class Strategy(Enum):
    OFFLINE = "offline"
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled shutdown"


class ElectionType(IntEnum):
    """The election that a client asks for with ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


class Election(NamedTuple):
    """A decided leader; LeaderAndIsr is sent only after the state is written by compare-and-set."""

    state: PartitionState
    recipients: tuple[int, ...]
    """The brokers that get LeaderAndIsr."""


def decide_first_leader(image: Image, topic: str, partition: PartitionImage) -> Election | None:
    """The state of a partition that has none; None while no replica is live."""
    live = _live(image, topic, partition, partition.replicas)
    if not live:
        return None
    state = PartitionState(
        leader=live[0],
        leader_epoch=0,
        isr=live,
        partition_epoch=0,
        controller_epoch=image.controller_epoch,
    )
    return Election(state, live)


def decide_election(
    image: Image,
    topic: str,
    partition: PartitionImage,
    strategy: Strategy,
    *,
    is_unclean_allowed: bool = False,
) -> Election | None:
    """The next state, or None when there is no candidate.

    partition  has the state that was read last; the write expects its partition epoch
    """
    state = partition.state
    assert state is not None, "a partition without a state has its first election"
    match strategy:
        case Strategy.OFFLINE:
            return _offline(image, topic, partition, state, is_unclean_allowed)
        case Strategy.REASSIGN:
            target = tuple(
                replica for replica in partition.replicas if replica not in partition.removing
            )
            live = _live(image, topic, partition, target)
            leader = next(
                (replica for replica in target if replica in live and replica in state.isr), None
            )
            return _elected(image, state, leader, state.isr, target)
        case Strategy.PREFERRED:
            live = _live(image, topic, partition, partition.replicas[:1])
            leader = next((replica for replica in live if replica in state.isr), None)
            return _elected(image, state, leader, state.isr, partition.replicas)
        case Strategy.CONTROLLED_SHUTDOWN:
            live = _live(image, topic, partition, partition.replicas, or_shutting_down=True)
            isr = tuple(replica for replica in state.isr if replica not in image.shutting_down)
            leader = next((replica for replica in live if replica in isr), None)
            return _elected(image, state, leader, isr, live)


def decide_replica_offline(image: Image, state: PartitionState, broker: int) -> PartitionState:
    """The state without an offline replica; the same object when the replica was not in sync."""
    if broker not in state.isr:
        return state
    isr = (
        state.isr
        if len(state.isr) == 1
        else tuple(replica for replica in state.isr if replica != broker)
    )
    leader = NO_LEADER if state.leader == broker else state.leader
    return state._replace(
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=isr,
        controller_epoch=image.controller_epoch,
    )


def decide_unseen_bounce(image: Image, state: PartitionState, written: int) -> PartitionState:
    """The state after in-sync replicas died and registered again while no controller saw it; the
    same object when none did.

    Such a broker may have lost the unflushed end of its log.  It does not lead with it while
    another in-sync replica is live.  A leader without another one gets a new leader epoch: what it
    appends now must not have the offset and the epoch of a record that followers have.
    Differs from Kafka: its controller takes over such a state as it is.

    written  the transaction that wrote the state; a replica comes into sync after its broker has
             registered
    """
    bounced = [
        replica
        for replica in state.isr
        if replica in image.brokers and image.brokers[replica].broker_epoch > written
    ]
    isr = tuple(replica for replica in state.isr if replica not in bounced)
    if bounced and any(image.is_live(replica) for replica in isr):
        return state._replace(
            leader=NO_LEADER if state.leader in bounced else state.leader,
            leader_epoch=state.leader_epoch + 1,
            isr=isr,
            controller_epoch=image.controller_epoch,
        )
    return raise_leader_epoch(image, state) if state.leader in bounced else state


def raise_leader_epoch(image: Image, state: PartitionState) -> PartitionState:
    """Keep the leader in a new leader epoch, so that it learns of changed replicas."""
    return state._replace(
        leader_epoch=state.leader_epoch + 1, controller_epoch=image.controller_epoch
    )


def can_preferred_lead(image: Image, topic: str, partition: PartitionImage) -> bool:
    """Whether the preferred leader is online and in sync."""
    state, preferred = partition.state, partition.replicas[0]
    return (
        state is not None
        and preferred in state.isr
        and image.is_online(preferred, topic, partition.partition)
    )


def check_election(
    image: Image, key: TopicPartition, kind: ElectionType, *, deleting: Collection[str]
) -> None:
    """Refuse an election that a client asks for and that is not needed, or not possible.

    deleting  topics that are being deleted
    raises    BrokerError UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, ELECTION_NOT_NEEDED
    """
    partition = image.partition(*key)
    if partition is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if key.topic in deleting:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    leader = NO_LEADER if partition.state is None else partition.state.leader
    if kind is ElectionType.PREFERRED:
        is_needed = leader != partition.replicas[0]
    else:
        is_needed = not image.is_live(leader)
    if not is_needed:
        raise BrokerError(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )


def no_candidate(key: TopicPartition, kind: ElectionType) -> BrokerError:
    """The error of an election that found no leader."""
    if kind is ElectionType.PREFERRED:
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        strategy = "PreferredReplicaPartitionLeaderElectionStrategy"
    else:
        code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        strategy = "OfflinePartitionLeaderElectionStrategy(true)"
    return BrokerError(
        code,
        f"Failed to elect leader for partition {key.topic}-{key.partition} "
        f"under strategy {strategy}",
    )


def needs_leader(image: Image, topic: str, partition: PartitionImage) -> bool:
    """Whether the partition has no leader, or one that is offline."""
    state = partition.state
    return state is None or not image.is_online(state.leader, topic, partition.partition)


def _live(
    image: Image,
    topic: str,
    partition: PartitionImage,
    brokers: Sequence[int],
    *,
    or_shutting_down: bool = False,
) -> tuple[int, ...]:
    return tuple(
        broker
        for broker in brokers
        if image.is_online(broker, topic, partition.partition, or_shutting_down=or_shutting_down)
    )


def _offline(
    image: Image,
    topic: str,
    partition: PartitionImage,
    state: PartitionState,
    is_unclean_allowed: bool,
) -> Election | None:
    live = _live(image, topic, partition, partition.replicas)
    live_isr = _live(image, topic, partition, state.isr)
    leader = next((replica for replica in live if replica in state.isr), None)
    if leader is not None:
        return _elected(image, state, leader, live_isr, live)
    if not is_unclean_allowed or live_isr or not live:
        return None
    return _elected(
        image, state._replace(leader_recovery_state=RECOVERING), live[0], (live[0],), live
    )


def _elected(
    image: Image,
    state: PartitionState,
    leader: int | None,
    isr: tuple[int, ...],
    recipients: tuple[int, ...],
) -> Election | None:
    if leader is None:
        return None
    assert leader in isr, "a leader is in sync"
    elected = state._replace(
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=isr,
        controller_epoch=image.controller_epoch,
    )
    return Election(elected, recipients)
