"""The throttles of a reassignment: which replicas, and how fast.

The topic configs name the replicas whose traffic is bounded, as `partition:broker`; the broker
configs hold the rates.
Source: Kafka 3.9's ReassignPartitionsCommand (calculateProposedMoveMap, modifyReassignmentThrottle,
modifyLogDirThrottle, clearAllThrottles).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client, ClientError
from odradek.tools.configs.resources import BROKER, TOPIC, Resource, alter
from odradek.tools.errors import ToolError
from odradek.tools.reassign_partitions.cluster import OngoingReassignment, live_brokers
from odradek.tools.reassign_partitions.log_dir_moves import TerseError
from odradek.tools.reassign_partitions.plan import ReassignmentPlan, ReplicaAssignment

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


class Move(NamedTuple):
    """A partition that moves."""

    sources: Collection[int]
    destinations: Collection[int]


def moves_of(
    current: Mapping[TopicPartition, OngoingReassignment],
    proposed: ReplicaAssignment,
    replicas: ReplicaAssignment,
) -> dict[TopicPartition, Move]:
    """The moves that are under way, and those that are proposed.

    replicas  the present replicas of the proposed partitions
    """
    moves = {
        partition: Move(
            [replica for replica in under_way.replicas if replica not in under_way.adding],
            under_way.adding,
        )
        for partition, under_way in current.items()
    }
    for partition, targets in proposed.items():
        before = moves.get(partition)
        sources = replicas[partition] if before is None else before.sources
        moves[partition] = Move(sources, [target for target in targets if target not in sources])
    return moves


def leader_throttles(moves: Mapping[TopicPartition, Move]) -> dict[str, str]:
    """Topic -> the replicas that others read from."""
    return _throttles({partition: move.sources for partition, move in moves.items()})


def follower_throttles(moves: Mapping[TopicPartition, Move]) -> dict[str, str]:
    """Topic -> the replicas that are added."""
    return _throttles(
        {
            partition: [
                destination for destination in move.destinations if destination not in move.sources
            ]
            for partition, move in moves.items()
        }
    )


def _throttles(brokers: Mapping[TopicPartition, Iterable[int]]) -> dict[str, str]:
    replicas: dict[str, dict[str, None]] = {}
    for partition, ids in brokers.items():
        of_topic = replicas.setdefault(partition.topic, {})
        of_topic.update(dict.fromkeys(f"{partition.partition}:{broker}" for broker in ids))
    return {topic: ",".join(sorted(words)) for topic, words in replicas.items()}


def throttle_moves(
    client: Client, moves: Mapping[TopicPartition, Move], bytes_per_second: int
) -> None:
    """Bound the traffic of moves between brokers.

    raises  ToolError
    """
    followers = follower_throttles(moves)
    for topic, leaders in leader_throttles(moves).items():
        throttles = {LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers[topic]}
        alter(client, Resource(TOPIC, topic), throttles, ())
    rate = str(bytes_per_second)
    brokers = [broker for move in moves.values() for broker in (*move.sources, *move.destinations)]
    for broker in sorted(dict.fromkeys(brokers)):
        rates = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
        alter(client, Resource(BROKER, str(broker)), rates, ())


def throttle_log_dirs(client: Client, brokers: Iterable[int], bytes_per_second: int) -> None:
    """Bound the traffic of moves between log directories.

    raises  ToolError
    """
    for broker in dict.fromkeys(brokers):
        rate = {LOG_DIRS_RATE: str(bytes_per_second)}
        alter(client, Resource(BROKER, str(broker)), rate, ())
    print(f"The replica-alter-dir throttle limit was set to {bytes_per_second} B/s")


def clear_throttles(client: Client, plan: ReassignmentPlan) -> None:
    """Delete the throttles of all brokers and of the topics of a plan.

    raises  ToolError; TerseError with those that are left at brokers that cannot be reached
    """
    targets = [broker for _, replicas in plan.partitions for broker in replicas]
    brokers = sorted({*live_brokers(client), *targets})
    plural = "" if len(brokers) == 1 else "s"
    print(f"Clearing broker-level throttles on broker{plural} {','.join(map(str, brokers))}")
    failures = delete_rates(client, brokers, (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE))
    topics = sorted({partition.topic for partition, _ in plan.partitions})
    plural = "" if len(topics) == 1 else "s"
    print(f"Clearing topic-level throttles on topic{plural} {','.join(topics)}")
    for topic in topics:
        alter(client, Resource(TOPIC, topic), {}, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    # Differs from Kafka: its tool fails at a broker that is away, before it comes to topics.
    for error in failures.values():
        if not isinstance(error, ClientError):
            raise error
    if failures:
        raise TerseError(
            "\n".join(
                f"The throttle of broker {broker} is left: {error}"
                for broker, error in failures.items()
            )
        )


def delete_rates(
    client: Client, brokers: Iterable[int], names: Sequence[str]
) -> dict[int, ToolError]:
    """Delete configs of brokers, which each broker does itself; those that it fails at, and why.

    A rate of replication that is left has no effect once no topic names replicas for it.
    """
    failures: dict[int, ToolError] = {}
    for broker in brokers:
        try:
            alter(client, Resource(BROKER, str(broker)), {}, names)
        except ToolError as error:
            # The next request must not read the response of this one.
            client.close()
            failures[broker] = error
    return failures
