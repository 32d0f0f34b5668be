"""`odradek drain BROKER`: another broker leads what it leads, and others have its replicas.

Leaders move first, then replicas.  A broker that is not registered is drained, too.
Exit codes: 0 success; 1 failure, also when the cluster cannot do without the broker; 2 an invalid
command line; 130 when it is stopped, after it has cancelled what was under way.
Kafka has no such tool.  Source: Cruise Control's remove_broker and demote_broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.cluster_status.queries import MIN_ISR, TOPIC, config_values
from odradek.tools.cluster_status.render import partition_names
from odradek.tools.errors import ToolError
from odradek.tools.options import CLIENT_FLAGS, Options, OptionsError, read_flags
from odradek.tools.run_command import run_with_client
from odradek.tools.steering.cluster_model import ClusterModel, ModelBroker
from odradek.tools.steering.cluster_queries import (
    ClusterState,
    PartitionStatus,
    partition_statuses,
    read_cluster,
    read_disks,
)
from odradek.tools.steering.execution import ExecutionLimits, PlanExecution, report
from odradek.tools.steering.plan_render import plan_lines
from odradek.tools.steering.proposal import RebalanceProposal, propose_drain
from odradek.tools.steering.rebalance import EXECUTION_FLAGS, execution_limits, stopped_by_signals

WHAT_IT_DOES: Final = (
    "This tool moves leaders and replicas off a broker: odradek drain BROKER --execute"
)
FLAGS: Final = (*CLIENT_FLAGS, *EXECUTION_FLAGS, *read_flags("drain"))


def main(arguments: Sequence[str]) -> int:
    words = list(arguments)
    if words and not words[0].startswith("-"):
        words.insert(0, "--broker")
    return run_with_client(words, WHAT_IT_DOES, _act, FLAGS, ["broker"])


def _act(client: Client, options: Options) -> None:
    broker = options.number_or("broker", -1)
    if options.has("dry-run") and options.has("execute"):
        raise OptionsError("--dry-run and --execute exclude each other")
    limits = execution_limits(options)
    execution = limits if options.has("execute") else None
    state = read_state(client, broker)
    with stopped_by_signals():
        if options.has("leaders-only"):
            check_leaves_enough(client, state.partitions, broker)
            move_leaders(client, state, broker, execution)
        else:
            drain(client, state, broker, execution)


def read_state(client: Client, broker: int) -> ClusterState:
    """The cluster, with a broker of which it has replicas at least.

    raises  ToolError
    """
    state = read_cluster(client)
    registered = [row.node_id for row in state.model.brokers]
    if broker not in registered and broker not in state.missing:
        raise ToolError(f"the cluster has no broker {broker}")
    others = [node_id for node_id in state.missing if node_id != broker]
    if others:
        raise ToolError(
            f"brokers {', '.join(map(str, others))} have replicas and are not registered"
        )
    if broker not in registered:
        brokers = (*state.model.brokers, ModelBroker(broker))
        state = state._replace(model=state.model._replace(brokers=brokers))
    return state


def check_leaves_enough(client: Client, statuses: Statuses, broker: int) -> None:
    """Refuse what would leave partitions without a leader, or without enough replicas in sync.

    raises  ToolError
    """
    alone = without_other_leader(statuses, broker)
    if alone:
        raise ToolError(
            f"{len(alone)} partitions have no other replica in sync ({partition_names(alone)}): "
            f"they have no leader without broker {broker}"
        )
    topics = sorted({partition.topic for partition in statuses})
    min_isr = config_values(client.any(), TOPIC, topics, MIN_ISR)
    few = [
        partition
        for partition, status in statuses.items()
        if broker in status.isr
        and len(status.isr) - 1 < min(int(min_isr.get(partition.topic, "1")), len(status.replicas))
    ]
    if few:
        raise ToolError(
            f"{len(few)} partitions would be under min.insync.replicas without broker {broker}: "
            f"{partition_names(few)}"
        )


def move_leaders(
    client: Client, state: ClusterState, broker: int, limits: ExecutionLimits | None
) -> None:
    """Let others lead what the broker leads, where they can; their order of replicas changes.

    limits  None: print the plan and change nothing
    raises  ToolError; KeyboardInterrupt when it is stopped
    """
    targets = leaders_off(state.model, state.partitions, broker)
    led = [partition for partition, status in state.partitions.items() if status.leader == broker]
    for line in plan_lines(state.model, RebalanceProposal(targets, (), ())):
        print(line)
    if limits is None:
        return
    # Nothing is copied: all can change at once.
    at_once = limits._replace(batch=len(targets) + 1)
    PlanExecution(client, state, targets, at_once, {*targets, *led}).run()
    alone = without_other_leader(state.partitions, broker)
    wait_until_left(client, broker, alone, of_replicas=False)
    report(f"Broker {broker} leads nothing" if not alone else f"Left: {partition_names(alone)}")


def drain(client: Client, state: ClusterState, broker: int, limits: ExecutionLimits | None) -> None:
    """Move leaders, then replicas.

    limits  None: print the plan and change nothing
    raises  ToolError; KeyboardInterrupt when it is stopped
    """
    proposal = propose_drain(state.model, [broker])
    lagging = [
        partition
        for partition, status in state.partitions.items()
        if partition not in state.ongoing
        and broker in status.replicas
        and set(status.replicas) - set(status.isr) - {broker}
    ]
    if lagging:
        raise ToolError(
            f"{len(lagging)} partitions have other replicas that are not in sync "
            f"({partition_names(lagging)}): nothing is moved"
        )
    if limits is None:
        for line in plan_lines(state.model, proposal):
            print(line)
        return
    leads = any(status.leader == broker for status in state.partitions.values())
    if leads or leaders_off(state.model, state.partitions, broker):
        move_leaders(client, state, broker, limits)
        state = read_state(client, broker)
        proposal = propose_drain(state.model, [broker])
    for line in plan_lines(state.model, proposal):
        print(line, flush=True)
    PlanExecution(client, state, proposal.targets, limits, proposal.targets).run()
    wait_until_left(client, broker, (), of_replicas=True)
    report(f"Broker {broker} leads nothing and holds nothing")


def wait_until_left(
    client: Client, broker: int, except_for: Sequence[TopicPartition], *, of_replicas: bool
) -> None:
    """Wait until the broker leads nothing, or has no replica and has deleted its logs.

    raises  ToolError when it still does after the time-out of the client
    """
    left: list[TopicPartition] = []

    def has_left() -> bool | None:
        metadata = client.metadata()
        left[:] = [
            partition
            for partition, status in partition_statuses(metadata).items()
            if partition not in except_for
            and (broker in status.replicas if of_replicas else status.leader == broker)
        ]
        if of_replicas and not left:
            for row in metadata.brokers:
                if row.node_id == broker:
                    left[:] = sorted(read_disks(client, row).sizes)
        return True if not left else None

    if client.retry(has_left) is None:
        verb = "has" if of_replicas else "leads"
        raise ToolError(f"broker {broker} still {verb} {len(left)}: {partition_names(left)}")


Statuses = Mapping[TopicPartition, PartitionStatus]


def leaders_off(
    model: ClusterModel, statuses: Statuses, broker: int
) -> dict[TopicPartition, tuple[int, ...]]:
    """New orders of replicas, so that the preferred leader is another broker, in sync.

    The brokers with the fewest leaders are preferred.  A partition that has no other replica in
    sync is left out.
    """
    led = {row.node_id: 0 for row in model.brokers}
    for row in model.partitions:
        led[row.replicas[0]] = led.get(row.replicas[0], 0) + 1
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    for row in model.partitions:
        in_sync = statuses[row.partition].isr
        chosen = [node_id for node_id in row.replicas if node_id != broker and node_id in in_sync]
        if row.replicas[0] != broker or not chosen:
            continue
        leader = min(chosen, key=lambda node_id: led[node_id])
        led[leader] += 1
        swapped = {leader: broker, broker: leader}
        targets[row.partition] = tuple(swapped.get(node_id, node_id) for node_id in row.replicas)
    return targets


def without_other_leader(statuses: Statuses, broker: int) -> list[TopicPartition]:
    """Partitions that would have no leader without the broker."""
    return [
        partition
        for partition, status in statuses.items()
        if broker in status.replicas and not set(status.isr) - {broker}
    ]
