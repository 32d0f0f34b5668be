"""The goals of a proposal, in their order of priority.  Pure.

A goal measures by how much a placement misses it: its excess.  A proposal lowers the excess of one
goal after the other, and no step raises that of a goal before it.
Source: Cruise Control's RackAwareDistributionGoal, ReplicaCapacityGoal, DiskCapacityGoal,
ReplicaDistributionGoal, DiskUsageDistributionGoal, NetworkInboundUsageDistributionGoal,
TopicReplicaDistributionGoal, LeaderReplicaDistributionGoal, LeaderBytesInDistributionGoal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from odradek.tools.steering.cluster_model import (
    ClusterModel,
    Load,
    PlacementAction,
    ReplicaPlacement,
)

BALANCE: Final = 0.05
"""How far a broker may be from its share, as a part of it: together the spread is below 10 %."""
REPLICAS_MAX: Final = 10_000
"""Replicas of a broker.  Cruise Control: max.replicas.per.broker."""
DISK_MAX: Final = 0.8
"""The part of a disk that logs may fill.  Cruise Control: disk.capacity.threshold."""
TOPIC_GAP: Final = 1
"""Replicas of a topic by which a broker may miss its share."""
HARD_GOALS: Final = ("racks", "replica-capacity", "disk-capacity")
"""Goals that no proposal misses more than before, whatever it is asked for."""
SOFT_GOALS: Final = ("replicas", "disk", "bytes-in", "topics", "leaders", "leader-bytes-in")
"""In the order of Cruise Control's default.goals."""
LOADS: Final = {
    "replica-capacity": Load.REPLICAS,
    "disk-capacity": Load.DISK,
    "replicas": Load.REPLICAS,
    "disk": Load.DISK,
    "bytes-in": Load.BYTES_IN,
    "leaders": Load.LEADERS,
    "leader-bytes-in": Load.LEADER_BYTES_IN,
}
"""What the goals look at that are distributions of a load."""


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

    def raised(self, amount: float, added: float) -> float:
        """How much more is missed when something is added to an amount."""
        return self.missed(amount + added) - self.missed(amount)

    def cost(self, amount: float, added: float) -> float:
        """How much the square of the distance from the share grows."""
        return added * (2 * (amount - self.share) + added)


class DistributionGoal:
    """Every broker bears its share of a load."""

    def __init__(self, name: str, load: Load, limits: Mapping[int, Limits]) -> None:
        """limits  by broker; without those that are not to bear anything"""
        self.name = name
        self.load = load
        self.leads = load in (Load.LEADERS, Load.LEADER_BYTES_IN)
        self.exchanges = load is not Load.REPLICAS
        self._limits = limits
        self._unit = sum(limit.share for limit in limits.values()) / len(limits) or 1.0

    def excess(self, placement: ReplicaPlacement) -> float:
        missed = (
            limit.missed(placement.loads[node_id][self.load])
            for node_id, limit in self._limits.items()
        )
        return sum(missed) / self._unit

    def _shifts(
        self, placement: ReplicaPlacement, action: PlacementAction
    ) -> list[tuple[Limits, float, float]]:
        """Limits, load before and added load, for each broker of an action."""
        amount = action.shifted[self.load]
        if not amount:
            return []
        return [
            (self._limits[node_id], placement.loads[node_id][self.load], added)
            for node_id, added in ((action.source, -amount), (action.destination, amount))
            if node_id in self._limits
        ]

    def raised(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        shifts = self._shifts(placement, action)
        return sum(limit.raised(before, added) for limit, before, added in shifts) / self._unit

    def cost(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        shifts = self._shifts(placement, action)
        return sum(limit.cost(before, added) for limit, before, added in shifts) / self._unit**2

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

    def _shifts(
        self, placement: ReplicaPlacement, action: PlacementAction
    ) -> Iterator[tuple[Limits, int, int]]:
        """Limits, replicas before and how many more, for each topic and broker of an action."""
        changes = action.changes
        topics = [placement.topic(change.row) for change in changes]
        if changes[0].is_leadership or (len(changes) == 2 and topics[0] == topics[1]):
            return
        for change, topic in zip(changes, topics, strict=True):
            for node_id, added in ((change.source, -1), (change.destination, 1)):
                if node_id in self._limits[topic]:
                    before = placement.topic_replicas[topic][node_id]
                    yield self._limits[topic][node_id], before, added

    def raised(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        shifts = self._shifts(placement, action)
        return float(sum(limit.raised(before, added) for limit, before, added in shifts))

    def cost(self, placement: ReplicaPlacement, action: PlacementAction) -> float:
        costs = (
            limit.cost(before, added) / max(1.0, limit.share) ** 2
            for limit, before, added in self._shifts(placement, action)
        )
        return sum(costs) / len(self._limits)

    def parts(self, placement: ReplicaPlacement) -> Iterator[GoalPart]:
        for topic, limits in self._limits.items():

            def pairs(
                now: ReplicaPlacement, topic: str = topic, limits: Mapping[int, Limits] = limits
            ) -> Iterator[tuple[int, int]]:
                counts = now.topic_replicas[topic]
                return pairs_of({node_id: float(counts[node_id]) for node_id in limits}, limits)

            yield GoalPart(pairs, self._indexes[topic])


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


def build_goals(
    names: Collection[str], model: ClusterModel, placement: ReplicaPlacement, brokers: Sequence[int]
) -> list[BalanceGoal]:
    """The hard goals, and these soft goals, in the order of priority.

    brokers  those that are to have replicas
    """
    chosen = [*HARD_GOALS, *(name for name in SOFT_GOALS if name in names)]
    return [_goal(name, model, placement, brokers) for name in chosen]


def _goal(
    name: str, model: ClusterModel, placement: ReplicaPlacement, brokers: Sequence[int]
) -> BalanceGoal:
    if name == "racks":
        racks = {
            row.node_id: f"broker {row.node_id}" if row.rack is None else f"rack {row.rack}"
            for row in model.brokers
        }
        return RackGoal(name, racks, brokers)
    if name == "topics":
        return TopicDistributionGoal(name, placement, brokers)
    load = LOADS[name]
    disks = {
        row.node_id: row.disk_bytes
        for row in model.brokers
        if row.disk_bytes >= 0 and row.node_id in brokers
    }
    total = sum(amounts[load] for amounts in placement.loads.values())
    share = total / len(brokers)
    if name == "replica-capacity":
        limits = dict.fromkeys(brokers, Limits(0.0, REPLICAS_MAX, share))
    elif name == "disk-capacity":
        limits = {
            node_id: Limits(0.0, DISK_MAX * disks.get(node_id, math.inf), share)
            for node_id in brokers
        }
    elif load in (Load.REPLICAS, Load.LEADERS):
        # An even number is whole, so that one more or less is even.
        lower = min(math.floor(share), math.ceil(share * (1 - BALANCE)))
        upper = max(math.ceil(share), math.floor(share * (1 + BALANCE)))
        limits = dict.fromkeys(brokers, Limits(lower, upper, share))
    else:
        is_by_disk = load is Load.DISK and len(disks) == len(brokers) and all(disks.values())
        parts = disks if is_by_disk else dict.fromkeys(brokers, 1)
        shares = {node_id: total * parts[node_id] / sum(parts.values()) for node_id in brokers}
        limits = {
            node_id: Limits(part * (1 - BALANCE), part * (1 + BALANCE), part)
            for node_id, part in shares.items()
        }
    return DistributionGoal(name, load, limits)
