"""The goals of a proposal, in their order of priority.  Pure.

A goal measures by how much a placement misses it: its excess.  A proposal lowers the excess of one
goal after the other, and no step raises that of a goal before it.
Source: Cruise Control's RackAwareDistributionGoal, ReplicaCapacityGoal, DiskCapacityGoal,
ReplicaDistributionGoal, DiskUsageDistributionGoal, NetworkInboundUsageDistributionGoal,
TopicReplicaDistributionGoal, LeaderReplicaDistributionGoal, LeaderBytesInDistributionGoal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from odradek.tools.steering.cluster_model import ClusterModel, Load
from odradek.tools.steering.replica_placement import PlacementAction, ReplicaPlacement

BALANCE: Final = 0.05
"""How far a broker may be from its share, as a part of it: together the spread is below 10 %."""
REPLICAS_MAX: Final = 10_000
"""Replicas of a broker.  Cruise Control: max.replicas.per.broker."""
DISK_MAX: Final = 0.8
"""The part of a disk that logs may fill.  Cruise Control: disk.capacity.threshold."""
TOPIC_GAP: Final = 1
"""Replicas of a topic by which a broker may miss its share."""


class GoalPart(NamedTuple):
    """A goal, or what a large goal reaches in one place: a topic, or a partition."""

    pairs: Callable[[ReplicaPlacement], Iterator[tuple[int, int]]]
    """Source and destination, the most promising first."""
    indexes: Sequence[int] | None = None
    """Only these partitions; None: all."""


class BalanceGoal(Protocol):
    """What a placement should be like."""

    name: str
    load: Load
    """By which replicas are chosen."""
    leads: bool
    """A change of the leader may serve the goal."""
    exchanges: bool
    """An exchange of two replicas may serve the goal."""

    def excess(self, placement: ReplicaPlacement) -> float:
        """How much a placement misses the goal; 0: it does not."""

    def raised(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        """What an action adds to the excess."""

    def cost(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        """What an action adds to the unevenness that the goal looks at, also within its limits."""

    def parts(self, placement: ReplicaPlacement) -> Iterator[GoalPart]:
        """What to improve."""


class Limits(NamedTuple):
    """Between which loads a broker has to stay, and its share."""

    lower: float
    upper: float
    share: float

    def missed(self, amount: float) -> float:
        if amount > self.upper:
            return amount - self.upper
        return self.lower - amount if amount < self.lower else 0.0


class DistributionGoal:
    """Every broker bears its share of a load."""

    def __init__(
        self, name: str, load: Load, limits: Mapping[int, Limits], *, leads: bool = False
    ) -> None:
        """limits  by broker; without those that are not to bear anything"""
        self.name = name
        self.load = load
        self.leads = leads
        self.exchanges = load is not Load.REPLICAS
        self._limits = limits
        self._unit = sum(limit.share for limit in limits.values()) / len(limits) or 1.0

    def excess(self, placement: ReplicaPlacement) -> float:
        missed = (
            limit.missed(placement.loads[node_id][self.load])
            for node_id, limit in self._limits.items()
        )
        return sum(missed) / self._unit

    def raised(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        amount = action.shifted[self.load]
        if not amount:
            return 0.0
        total = 0.0
        for node_id, added in ((action.source, -amount), (action.destination, amount)):
            limit = self._limits.get(node_id)
            if limit is not None:
                before = placement.loads[node_id][self.load]
                total += limit.missed(before + added) - limit.missed(before)
        return total / self._unit

    def cost(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        total = 0.0
        amount = action.shifted[self.load]
        if amount:
            for node_id, added in ((action.source, -amount), (action.destination, amount)):
                limit = self._limits.get(node_id)
                if limit is not None:
                    distance = placement.loads[node_id][self.load] - limit.share
                    total += added * (2 * distance + added)
        return total / self._unit**2

    def parts(self, placement: ReplicaPlacement) -> Iterator[GoalPart]:
        yield GoalPart(self._pairs)

    def _pairs(self, placement: ReplicaPlacement) -> Iterator[tuple[int, int]]:
        amounts = {node_id: placement.loads[node_id][self.load] for node_id in self._limits}
        yield from pairs_of(amounts, self._limits)


def pairs_of(
    amounts: Mapping[int, float], limits: Mapping[int, Limits]
) -> Iterator[tuple[int, int]]:
    """Brokers above their limits with all that bear less; then those below theirs."""

    def distance(node_id: int) -> tuple[float, int]:
        return amounts[node_id] - limits[node_id].share, node_id

    ascending = sorted(limits, key=distance)
    for source in reversed(ascending):
        if amounts[source] <= limits[source].upper:
            break
        for destination in ascending:
            if destination != source:
                yield source, destination
    for destination in ascending:
        if amounts[destination] >= limits[destination].lower:
            break
        for source in reversed(ascending):
            if destination != source:
                yield source, destination


class TopicDistributionGoal:
    """Every broker has its share of the replicas of each topic."""

    load = Load.REPLICAS
    leads = False
    exchanges = True

    def __init__(self, name: str, placement: ReplicaPlacement, brokers: Sequence[int]) -> None:
        self.name = name
        self._limits: dict[str, dict[int, Limits]] = {}
        self._indexes: dict[str, list[int]] = {}
        for index in range(len(placement.partitions)):
            self._indexes.setdefault(placement.topic(index), []).append(index)
        for topic, counts in placement.topic_replicas.items():
            share = sum(counts.values()) / len(brokers)
            limit = Limits(math.floor(share) - TOPIC_GAP, math.ceil(share) + TOPIC_GAP, share)
            self._limits[topic] = dict.fromkeys(brokers, limit)

    def excess(self, placement: ReplicaPlacement) -> float:
        return float(
            sum(
                limit.missed(placement.topic_replicas[topic][node_id])
                for topic, limits in self._limits.items()
                for node_id, limit in limits.items()
            )
        )

    def raised(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        total = 0.0
        for topic, node_id, added in _topic_changes(placement, action):
            limit = self._limits[topic].get(node_id)
            if limit is not None:
                before = placement.topic_replicas[topic][node_id]
                total += limit.missed(before + added) - limit.missed(before)
        return total

    def cost(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        total = 0.0
        for topic, node_id, added in _topic_changes(placement, action):
            limit = self._limits[topic].get(node_id)
            if limit is not None:
                distance = placement.topic_replicas[topic][node_id] - limit.share
                total += added * (2 * distance + added) / max(1.0, limit.share) ** 2
        return total / len(self._limits)

    def parts(self, placement: ReplicaPlacement) -> Iterator[GoalPart]:
        for topic, limits in self._limits.items():

            def pairs(
                now: ReplicaPlacement, topic: str = topic, limits: Mapping[int, Limits] = limits
            ) -> Iterator[tuple[int, int]]:
                counts = now.topic_replicas[topic]
                return pairs_of({node_id: float(counts[node_id]) for node_id in limits}, limits)

            yield GoalPart(pairs, self._indexes[topic])


def _topic_changes(
    placement: ReplicaPlacement, action: PlacementAction
) -> Iterator[tuple[str, int, int]]:
    """Topic, broker, and how many replicas it has more."""
    changes = action.changes
    topics = [placement.topic(change.row) for change in changes]
    if changes[0].is_leadership or (len(changes) == 2 and topics[0] == topics[1]):
        return
    for change, topic in zip(changes, topics, strict=True):
        yield topic, change.source, -1
        yield topic, change.destination, 1


class RackGoal:
    """The replicas of a partition are spread over the racks as evenly as their number allows."""

    load = Load.DISK
    leads = False
    exchanges = True

    def __init__(self, name: str, racks: Mapping[int, str], brokers: Sequence[int]) -> None:
        """
        racks    of each broker; a broker without one is a rack of its own
        brokers  those that are to have replicas
        """
        self.name = name
        self._racks = racks
        self._brokers = brokers
        self._rack_count = len(dict.fromkeys(racks[node_id] for node_id in brokers))

    def _excess(self, replicas: Sequence[int]) -> int:
        allowed = -(-len(replicas) // self._rack_count)
        counts: dict[str, int] = {}
        for node_id in replicas:
            rack = self._racks[node_id]
            counts[rack] = counts.get(rack, 0) + 1
        return sum(count - allowed for count in counts.values() if count > allowed)

    def excess(self, placement: ReplicaPlacement) -> float:
        return float(sum(map(self._excess, placement.replicas)))

    def raised(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        total = 0
        for change in action.changes:
            here, there = self._racks[change.source], self._racks[change.destination]
            if here != there and not change.is_leadership:
                racks = [self._racks[node_id] for node_id in placement.replicas[change.row]]
                allowed = -(-len(racks) // self._rack_count)
                total += (racks.count(there) >= allowed) - (racks.count(here) > allowed)
        return float(total)

    def cost(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        return self.raised(placement, action)

    def parts(self, placement: ReplicaPlacement) -> Iterator[GoalPart]:
        for index, replicas in enumerate(placement.replicas):
            if self._excess(replicas):

                def pairs(now: ReplicaPlacement, index: int = index) -> Iterator[tuple[int, int]]:
                    present = now.replicas[index]
                    # A leader stays where it is while a follower can go.
                    for source in reversed(present):
                        for destination in sorted(self._brokers, key=lambda node: now.loads[node]):
                            if destination not in present:
                                yield source, destination

                yield GoalPart(pairs, (index,))


class GoalContext(NamedTuple):
    """What limits are made of."""

    model: ClusterModel
    placement: ReplicaPlacement
    brokers: Sequence[int]
    """The brokers that are to have replicas."""

    def total(self, load: Load) -> float:
        return sum(amounts[load] for amounts in self.placement.loads.values())

    def disks(self) -> dict[int, int]:
        """The brokers whose disks are known."""
        return {
            broker.node_id: broker.disk_bytes
            for broker in self.model.brokers
            if broker.disk_bytes >= 0 and broker.node_id in self.brokers
        }


def _racks(name: str, context: GoalContext) -> BalanceGoal:
    racks = {
        broker.node_id: f"broker {broker.node_id}" if broker.rack is None else f"rack {broker.rack}"
        for broker in context.model.brokers
    }
    return RackGoal(name, racks, context.brokers)


def _replica_capacity(name: str, context: GoalContext) -> BalanceGoal:
    limit = Limits(0.0, REPLICAS_MAX, context.total(Load.REPLICAS) / len(context.brokers))
    return DistributionGoal(name, Load.REPLICAS, dict.fromkeys(context.brokers, limit))


def _disk_capacity(name: str, context: GoalContext) -> BalanceGoal:
    share = context.total(Load.DISK) / len(context.brokers)
    limits = dict.fromkeys(context.brokers, Limits(0.0, math.inf, share))
    for node_id, disk_bytes in context.disks().items():
        limits[node_id] = Limits(0.0, DISK_MAX * disk_bytes, share)
    return DistributionGoal(name, Load.DISK, limits)


def _counts(load: Load) -> Callable[[str, GoalContext], BalanceGoal]:
    """An even number; whole, so that one more or less is even."""

    def goal(name: str, context: GoalContext) -> BalanceGoal:
        share = context.total(load) / len(context.brokers)
        lower = min(math.floor(share), math.ceil(share * (1 - BALANCE)))
        upper = max(math.ceil(share), math.floor(share * (1 + BALANCE)))
        limits = dict.fromkeys(context.brokers, Limits(lower, upper, share))
        return DistributionGoal(name, load, limits, leads=load is Load.LEADERS)

    return goal


def _amounts(load: Load) -> Callable[[str, GoalContext], BalanceGoal]:
    def goal(name: str, context: GoalContext) -> BalanceGoal:
        disks = context.disks() if load is Load.DISK else {}
        if len(disks) < len(context.brokers) or not all(disks.values()):
            disks = dict.fromkeys(context.brokers, 1)
        total, whole = context.total(load), sum(disks.values())
        limits = {}
        for node_id in context.brokers:
            share = total * disks[node_id] / whole
            limits[node_id] = Limits(share * (1 - BALANCE), share * (1 + BALANCE), share)
        return DistributionGoal(name, load, limits, leads=load is Load.LEADER_BYTES_IN)

    return goal


def _topics(name: str, context: GoalContext) -> BalanceGoal:
    return TopicDistributionGoal(name, context.placement, context.brokers)


HARD_GOALS: Final = {
    "racks": _racks,
    "replica-capacity": _replica_capacity,
    "disk-capacity": _disk_capacity,
}
"""Goals that no proposal misses more than before, whatever it is asked for."""
SOFT_GOALS: Final = {
    "replicas": _counts(Load.REPLICAS),
    "disk": _amounts(Load.DISK),
    "bytes-in": _amounts(Load.BYTES_IN),
    "topics": _topics,
    "leaders": _counts(Load.LEADERS),
    "leader-bytes-in": _amounts(Load.LEADER_BYTES_IN),
}
"""In the order of Cruise Control's default.goals."""


def build_goals(names: Sequence[str], context: GoalContext) -> list[BalanceGoal]:
    """The hard goals, and these soft goals, in the order of priority."""
    chosen = {**HARD_GOALS, **{name: SOFT_GOALS[name] for name in SOFT_GOALS if name in names}}
    return [build(name, context) for name, build in chosen.items()]
