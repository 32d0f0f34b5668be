"""Proposes a placement of replicas and leaders.  Pure: equal models give equal proposals.

A greedy search, goal after goal, as Cruise Control's: of the changes that lower the excess of a
goal and raise that of no goal before it, the one that is best for all goals from there on.  Where
brokers are new and the others are balanced, replicas go to the new ones only.
Source: Cruise Control's GoalOptimizer, AbstractGoal, ResourceDistributionGoal.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.errors import ToolError, partition_text
from odradek.tools.steering.cluster_model import (
    ClusterModel,
    Load,
    PlacementAction,
    ReplicaPlacement,
)
from odradek.tools.steering.goals import HARD_GOALS, SOFT_GOALS, BalanceGoal, GoalPart, build_goals

ROUNDS_MAX: Final = 3
"""Times that all goals are gone through."""
MOVED_MAX: Final = 64
EXCHANGED_MAX: Final = 16
"""Replicas of a broker that a step looks at."""
LOOKS_LEAST: Final = 100_000
LOOKS_OF_REPLICA: Final = 100
"""Changes that are looked at for nothing, at 8 us each, before a soft goal is left: what cannot be
reached does not hold up the plan."""
LEAST: Final = 1e-6
"""What a step has to gain."""
EQUAL: Final = 1e-9
COPY_COST: Final = 0.01
"""The cost of copying all data once, beside the unevenness of a broker that is empty, 1."""


class RebalanceProposal(NamedTuple):
    """What to change."""

    targets: dict[TopicPartition, tuple[int, ...]]
    """The new replicas of the partitions that change, sorted; the first is to lead."""
    excess_before: tuple[float, ...]
    excess_after: tuple[float, ...]
    """By goal, in the order of priority."""


def propose(model: ClusterModel, goals: Sequence[str] = SOFT_GOALS) -> RebalanceProposal:
    """Balance a cluster.

    goals    soft goals besides the hard ones; their order is fixed
    returns  a proposal that misses no hard goal more than before, and whose excess, compared goal
             after goal, is not higher
    """
    new = [
        broker.node_id
        for broker in model.brokers
        if all(broker.node_id not in row.replicas for row in model.partitions)
    ]
    old = tuple(broker for broker in model.brokers if broker.node_id not in new)
    if not model.partitions:
        return RebalanceProposal({}, (), ())
    destinations = [broker.node_id for broker in model.brokers]
    if new and not copies(model, propose(model._replace(brokers=old), goals)):
        destinations = new
    return _Search(model, goals, destinations, ()).run()


def propose_drain(model: ClusterModel, leaving: Collection[int]) -> RebalanceProposal:
    """Move all replicas off brokers, and nothing else.

    raises  ToolError when a partition cannot keep its number of replicas, or the disks are full
    """
    destinations = [broker.node_id for broker in model.brokers if broker.node_id not in leaving]
    for row in model.partitions:
        if len(row.replicas) > len(destinations) and set(row.replicas) & set(leaving):
            raise ToolError(
                f"{partition_text(row.partition)} has {len(row.replicas)} replicas, and "
                f"{len(destinations)} brokers would be left"
            )
    return _Search(model, SOFT_GOALS, destinations, leaving).run()


def copies(model: ClusterModel, proposal: RebalanceProposal) -> dict[TopicPartition, list[int]]:
    """The brokers that get a new replica, by partition; without partitions that get none."""
    before = {row.partition: row.replicas for row in model.partitions}
    added = {
        partition: [node_id for node_id in target if node_id not in before[partition]]
        for partition, target in proposal.targets.items()
    }
    return {partition: brokers for partition, brokers in added.items() if brokers}


class _Search:
    def __init__(
        self,
        model: ClusterModel,
        goals: Sequence[str],
        destinations: Sequence[int],
        leaving: Collection[int],
    ) -> None:
        self._model = model
        self._placement = ReplicaPlacement(model)
        self._destinations = destinations
        self._leaving = leaving
        staying = [broker.node_id for broker in model.brokers if broker.node_id not in leaving]
        self._is_restricted = not leaving and len(destinations) < len(staying)
        self._goals = build_goals(goals, model, self._placement, staying)
        replicas = sum(len(row.replicas) for row in model.partitions)
        self._steps_left = 4 * replicas
        soft = len(self._goals) - len(HARD_GOALS)
        self._looks_left = [math.inf] * len(HARD_GOALS) + [
            LOOKS_LEAST + LOOKS_OF_REPLICA * replicas
        ] * soft
        """By goal: the changes that are looked at for nothing."""
        self._all_bytes = sum(row.size_bytes * len(row.replicas) for row in model.partitions) or 1

    def run(self) -> RebalanceProposal:
        before = self._excess()
        if self._leaving:
            self._evacuate()
        else:
            for _ in range(ROUNDS_MAX):
                changed = [self._improve(rank) for rank in range(len(self._goals))]
                if not any(changed):
                    break
        targets = {
            row.partition: tuple(replicas)
            for row, replicas in zip(self._model.partitions, self._placement.replicas, strict=True)
            if tuple(replicas) != row.replicas
        }
        return RebalanceProposal(dict(sorted(targets.items())), before, self._excess())

    def _excess(self) -> tuple[float, ...]:
        return tuple(goal.excess(self._placement) for goal in self._goals)

    def _improve(self, rank: int) -> bool:
        """Lower the excess of a goal as far as it goes; whether there was a step."""
        goal, has_changed = self._goals[rank], False
        for part in goal.parts(self._placement):
            while self._steps_left > 0 and self._looks_left[rank] > 0:
                action = self._best(rank, part)
                if action is None:
                    break
                self._placement.apply(action)
                self._steps_left -= 1
                has_changed = True
        return has_changed

    def _best(self, rank: int, part: GoalPart) -> PlacementAction | None:
        goal = self._goals[rank]
        for source, destination in part.pairs(self._placement):
            for actions in self._kinds(goal, part, source, destination):
                best: tuple[float, PlacementAction] | None = None
                looks = 0
                for action in actions:
                    looks += 1
                    score = self._score(rank, action)
                    if score is not None and (best is None or score < best[0] - EQUAL):
                        best = score, action
                if best is not None:
                    return best[1]
                self._looks_left[rank] -= looks
                if self._looks_left[rank] <= 0:
                    return None
        return None

    def _kinds(
        self, goal: BalanceGoal, part: GoalPart, source: int, destination: int
    ) -> Iterator[Iterator[PlacementAction]]:
        """Changes from one broker to another, the cheapest kind first."""
        placement = self._placement
        if goal.leads:
            leadable = placement.leadable(source, destination)
            yield (placement.lead(index, source, destination) for index in leadable)
        if destination not in self._destinations:
            return
        forth = placement.movable(source, destination, part.indexes)
        chosen = self._nearest(goal.load, forth, source, destination, MOVED_MAX)
        yield (placement.move(index, source, destination) for index in chosen)
        if self._is_restricted:
            return
        held = _evenly([*placement.held[destination]], 2 * EXCHANGED_MAX)
        back = placement.movable(destination, source, held)
        for index in chosen[:EXCHANGED_MAX] if goal.exchanges else ():
            least = placement.loads_on(index, source)[goal.load]
            yield (
                placement.exchange(index, other, source, destination)
                for other in back
                if goal.load is Load.REPLICAS
                or placement.loads_on(other, destination)[goal.load] < least
            )

    def _nearest(
        self, load: Load, indexes: Sequence[int], source: int, destination: int, count: int
    ) -> list[int]:
        """Partitions whose load is nearest to what should move, and a few others of them."""
        loads = self._placement.loads
        difference = (loads[source][load] - loads[destination][load]) / 2

        def distance(index: int) -> float:
            return abs(self._placement.loads_on(index, source)[load] - difference)

        ordered = sorted(indexes, key=distance)
        if len(ordered) <= count:
            return ordered
        return ordered[: count // 2] + _evenly(ordered[count // 2 :], count // 2)

    def _score(self, rank: int, action: PlacementAction) -> float | None:
        """The cost of an action for a goal and those after it; None: it does not serve the goal, or
        a goal before it forbids it."""
        placement, goals = self._placement, self._goals
        if goals[rank].raised(placement, action) > -LEAST:
            return None
        # Racks come first, and are the slowest to look at.
        for goal in reversed(goals[:rank]):
            if goal.raised(placement, action) > EQUAL:
                return None
        for goal in goals[rank + 1 : len(HARD_GOALS)]:
            if goal.raised(placement, action) > EQUAL:
                return None
        return self._cost(rank, action)

    def _cost(self, rank: int, action: PlacementAction) -> float:
        total = sum(goal.cost(self._placement, action) for goal in self._goals[rank:])
        for change in action.changes:
            if not change.is_leadership:
                row = self._model.partitions[change.row]
                copied = (change.destination not in row.replicas) - (
                    change.source not in row.replicas
                )
                total += COPY_COST * copied * row.size_bytes / self._all_bytes
        return total

    def _evacuate(self) -> None:
        """Give each replica of the leaving brokers to another one, the largest first."""
        placement = self._placement
        hard = self._goals[: len(HARD_GOALS)]
        rows = [
            (-row.size_bytes, index, node_id)
            for index, row in enumerate(self._model.partitions)
            for node_id in row.replicas
            if node_id in self._leaving
        ]
        for _, index, source in sorted(rows):
            best: tuple[tuple[float, float], PlacementAction] | None = None
            for destination in self._destinations:
                if destination in placement.replicas[index]:
                    continue
                action = placement.move(index, source, destination)
                missed = sum(max(0.0, goal.raised(placement, action)) for goal in hard)
                score = missed, self._cost(len(HARD_GOALS), action)
                if best is None or score < best[0]:
                    best = score, action
            assert best is not None, "there are as many brokers as replicas"
            if best[0][0] > EQUAL:
                name = partition_text(self._model.partitions[index].partition)
                raise ToolError(
                    f"no broker can take {name} of broker {source}: racks, disks "
                    "or the number of replicas do not allow it"
                )
            placement.apply(best[1])


def _evenly(indexes: Sequence[int], count: int) -> list[int]:
    """At most `count`, from everywhere in the sequence."""
    step = -(-len(indexes) // count) or 1
    return list(indexes[::step])
