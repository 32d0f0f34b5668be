"""Replica placement of new partitions.  Pure: the random start and shift are parameters.

Without racks: the first replica of partition p is broker (p + start) mod n of the sorted ids; the
others follow at a distance that grows by one each time p wraps around, so that the partitions led
by one broker have their followers on different ones.  With racks: the same order over the brokers
alternated by rack, skipping racks and brokers that the partition has already while there are
unused ones.
Source: Kafka's AdminUtils.assignReplicasToBrokers, KIP-36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.controller.image.image import BrokerImage
from odradek.protocol.errors import BrokerError, ErrorCode

Placement = dict[int, tuple[int, ...]]


def place(
    brokers: Sequence[BrokerImage],
    *,
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> Placement:
    """Partition -> replicas, preferred leader first, for `partitions` new ones.

    brokers          live ones, in any order
    start, shift     random, not negative
    first_partition  number of the first new partition
    raises           BrokerError INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR;
                     UNKNOWN_SERVER_ERROR without a message when only some brokers have a rack
    """
    if partitions <= 0:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
        )
    if replication_factor <= 0:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if replication_factor > len(brokers):
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
        )
    racks = racks_of(brokers)
    walk = alternate_racks(racks) if racks else sorted(broker.broker_id for broker in brokers)
    count = len(walk)
    placed: Placement = {}
    at_position: dict[tuple[int, int], tuple[int, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        # All that depends on the shift repeats after as many rounds as there are other brokers.
        position = ((partition + start) % count, shift % max(count - 1, 1))
        replicas = at_position.get(position)
        if replicas is None:
            if racks:
                replicas = _rack_aware(walk, racks, *position, replication_factor)
            else:
                replicas = _plain(walk, *position, replication_factor)
            at_position[position] = replicas
        placed[partition] = replicas
    return placed


def racks_of(brokers: Sequence[BrokerImage]) -> dict[int, str]:
    """Broker -> rack; empty when no broker has one.

    raises  BrokerError UNKNOWN_SERVER_ERROR, without a message, when only some have one
    """
    racks = {broker.broker_id: broker.rack for broker in brokers if broker.rack is not None}
    if racks and len(racks) < len(brokers):
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return racks


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """One broker of each rack in turn, racks by name, ids ascending within a rack."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = max((len(ids) for ids in by_rack.values()), default=0)
    return [
        by_rack[rack][index]
        for index in range(rounds)
        for rack in sorted(by_rack)
        if index < len(by_rack[rack])
    ]


def _at(first: int, shift: int, follower: int, count: int) -> int:
    return (first + 1 + (shift + follower) % (count - 1)) % count


def _plain(walk: Sequence[int], first: int, shift: int, replication_factor: int) -> tuple[int, ...]:
    followers = range(replication_factor - 1)
    return (walk[first], *(walk[_at(first, shift, follower, len(walk))] for follower in followers))


def _rack_aware(
    walk: Sequence[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    count = len(walk)
    rack_count = len(dict.fromkeys(racks.values()))
    replicas = [walk[first]]
    used_racks = {racks[walk[first]]: None}
    step = 0
    while len(replicas) < replication_factor:
        broker = walk[_at(first, shift * rack_count, step, count)]
        step += 1
        rack = racks[broker]
        if broker in replicas or (rack in used_racks and len(used_racks) < rack_count):
            continue
        replicas.append(broker)
        used_racks[rack] = None
    return tuple(replicas)
