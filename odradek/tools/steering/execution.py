"""Executes reassignments, a bounded number at a time, with throttles that are removed at the end.

What is under way when it starts is waited for, so that a plan that was interrupted goes on: it is
made again of the cluster's present state, and no file is kept.
Source: Cruise Control's Executor; KIP-455 (reassignments), KIP-73 (throttles).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client, ClientError
from odradek.tools.cluster_status.queries import config_values
from odradek.tools.cluster_status.render import partition_names
from odradek.tools.configs.resources import TOPIC, Resource, alter
from odradek.tools.errors import ToolError, partition_text
from odradek.tools.leader_election import elect_preferred
from odradek.tools.reassign_partitions.cluster import alter_reassignments, list_reassignments
from odradek.tools.reassign_partitions.plan import ReplicaAssignment
from odradek.tools.reassign_partitions.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    delete_rates,
    moves_of,
    throttle_moves,
)
from odradek.tools.steering.cluster_queries import ClusterState, partition_statuses, read_disks
from odradek.tools.steering.plan_render import MoveProgress

POLL_S: Final = 0.5
REPORT_S: Final = 5.0
STALL_TIMEOUT_MS: Final = 300_000
"""How long a plan may make no progress."""
CANCEL_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_MS: Final = 5_000
"""Bounds the wait for each response to a plan that is stopped, perhaps since a broker is frozen."""


def report(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


class ExecutionLimits(NamedTuple):
    """How fast a plan may go."""

    batch: int
    """Partitions that move at a time."""
    throttle: int | None = None
    """Bytes a second of a broker; None: unbounded."""
    stall_timeout_ms: int = STALL_TIMEOUT_MS


class PlanExecution:
    def __init__(
        self,
        client: Client,
        state: ClusterState,
        targets: ReplicaAssignment,
        limits: ExecutionLimits,
        elected: Iterable[TopicPartition],
    ) -> None:
        """elected  partitions whose preferred leaders are elected at the end, where others lead"""
        self._client = client
        self._limits = limits
        self._targets = {partition: tuple(target) for partition, target in targets.items()}
        self._ongoing = state.ongoing
        self._partitions = state.partitions
        self._under_way = {row.partition: row.replicas for row in state.model.partitions}
        self._all: dict[TopicPartition, tuple[int, ...]] = {
            **{partition: self._under_way[partition] for partition in state.ongoing},
            **self._targets,
        }
        """Partition -> its replicas at the end."""
        self._sizes = {
            row.partition: row.size_bytes
            for row in state.model.partitions
            if row.partition in self._all
        }
        self._added = {
            partition: [
                node_id
                for node_id in target
                if node_id not in state.partitions[partition].replicas
                or (partition in state.ongoing and node_id in state.ongoing[partition].adding)
            ]
            for partition, target in self._all.items()
        }
        self._elected = list(elected)
        self._waiting = list(self._targets)
        self._moving: dict[TopicPartition, None] = dict.fromkeys(state.ongoing)

    def run(self) -> None:
        """Move everything, remove throttles, elect preferred leaders.

        raises  ToolError when it makes no progress, or is refused; KeyboardInterrupt when it is
                stopped.  Reassignments that are under way are cancelled then, and no response is
                waited for longer than STOP_TIMEOUT_MS
        """
        if not self._all:
            self._elect()
            return
        try:
            self._throttle()
            self._move()
        except BaseException:
            self._stop()
            raise
        self._remove_throttles()
        self._elect()

    def _stop(self) -> None:
        # A request may be half sent or half read.
        self._client.close()
        self._client.set_timeout(STOP_TIMEOUT_MS)
        try:
            cancel_reassignments(self._client, self._moving)
            self._remove_throttles()
        except ToolError as error:
            report(f"Not undone: {error}; `odradek rebalance --cancel` does it later")

    def _remove_throttles(self) -> None:
        topics = {partition.topic for partition in self._all}
        remove_throttles(self._client, topics)

    def _throttle(self) -> None:
        if self._limits.throttle is None or not any(self._added.values()):
            return
        replicas = {partition: self._partitions[partition].replicas for partition in self._targets}
        moves = moves_of(self._ongoing, self._targets, replicas)
        throttle_moves(self._client, moves, self._limits.throttle)
        report(f"The inter-broker throttle limit was set to {self._limits.throttle} B/s")

    def _move(self) -> None:
        started_s = progressed_s = time.monotonic()
        reported_s = -REPORT_S
        last: MoveProgress | None = None
        first_bytes: int | None = None
        while True:
            now_s = time.monotonic()
            if now_s - progressed_s > self._limits.stall_timeout_ms / 1000:
                raise ToolError(self._stalled())
            try:
                self._advance()
                copied = self._copied_bytes()
            except ClientError as error:
                # A broker went away; the others, or the next controller, are asked again.
                report(f"{error}; trying again")
                self._client.close()
                time.sleep(POLL_S)
                continue
            first_bytes = copied if first_bytes is None else first_bytes
            all_bytes = sum(
                self._sizes[partition] * len(added) for partition, added in self._added.items()
            )
            progress = MoveProgress(
                len(self._all) - len(self._waiting) - len(self._moving),
                len(self._all),
                max(0, copied - first_bytes),
                max(0, all_bytes - first_bytes),
                now_s - started_s,
            )
            if last is None or progress[:3] != last[:3]:
                progressed_s, last = now_s, progress
            is_done = not self._waiting and not self._moving
            if is_done or now_s - reported_s >= REPORT_S:
                reported_s = now_s
                report(progress.line())
            if is_done:
                return
            time.sleep(POLL_S)

    def _advance(self) -> None:
        """Note what has ended, and start as many as may be under way."""
        current = list_reassignments(self._client)
        for partition in [partition for partition in self._moving if partition not in current]:
            del self._moving[partition]
        chosen = self._waiting[: max(0, self._limits.batch - len(self._moving))]
        if not chosen:
            return
        self._check_unchanged(chosen)
        # Noted first: if the request is interrupted, they may be under way.
        self._moving.update(dict.fromkeys(chosen))
        errors = alter_reassignments(
            self._client, {partition: self._targets[partition] for partition in chosen}
        )
        self._waiting = self._waiting[len(chosen) :]
        if errors:
            partition = min(errors)
            raise ToolError(f"{partition_text(partition)} cannot be moved: {errors[partition]}")

    def _check_unchanged(self, chosen: Sequence[TopicPartition]) -> None:
        """Refuse to move what has other replicas than the plan was made of."""
        topics = sorted({partition.topic for partition in chosen})
        statuses = partition_statuses(self._client.metadata(topics))
        for partition in chosen:
            expected = [self._partitions[partition].replicas]
            if partition in self._ongoing:
                expected.append(self._under_way[partition])
            if partition not in statuses or statuses[partition].replicas not in expected:
                raise ToolError(
                    f"{partition_text(partition)} has changed since the plan was made; run again"
                )

    def _copied_bytes(self) -> int:
        brokers = {broker.node_id: broker for broker in self._client.metadata([]).brokers}
        partial: dict[int, dict[TopicPartition, int]] = {}
        for node_id in sorted(
            {node_id for partition in self._moving for node_id in self._added[partition]}
        ):
            # Others go on while a broker is away.
            with suppress(ClientError):
                if node_id in brokers:
                    partial[node_id] = read_disks(self._client, brokers[node_id]).sizes
        total = 0
        for partition, added in self._added.items():
            if partition in self._moving:
                present = [
                    partial[node_id].get(partition, 0) for node_id in added if node_id in partial
                ]
                total += sum(min(size, self._sizes[partition]) for size in present)
            elif partition not in self._waiting:
                total += self._sizes[partition] * len(added)
        return total

    def _stalled(self) -> str:
        live = [broker.node_id for broker in self._client.metadata([]).brokers]
        away = sorted(
            {
                node_id
                for partition in self._moving
                for node_id in self._all[partition]
                if node_id not in live
            }
        )
        why = f"; not registered: {', '.join(map(str, away))}" if away else ""
        return (
            f"no progress for {self._limits.stall_timeout_ms} ms of "
            f"{partition_names(sorted(self._moving))}{why}"
        )

    def _elect(self) -> None:
        def is_seen() -> bool | None:
            states = partition_statuses(self._client.metadata())
            return (
                all(
                    partition not in states or states[partition].replicas == target
                    for partition, target in self._all.items()
                )
                or None
            )

        self._client.retry(is_seen)
        lead_by_preferred(self._client, self._elected)


def lead_by_preferred(client: Client, partitions: Iterable[TopicPartition]) -> None:
    """Elect the preferred leader where another one leads and the preferred one is in sync.

    raises  ToolError
    """
    states = partition_statuses(client.metadata())
    chosen = [
        partition
        for partition in sorted(partitions)
        if partition in states
        for state in (states[partition],)
        if state.leader != state.replicas[0] and state.replicas[0] in state.isr
    ]
    if chosen:
        elect_preferred(client, chosen)
        report(f"Preferred leaders elected: {len(chosen)}")


def cancel_reassignments(
    client: Client, partitions: Iterable[TopicPartition] | None = None
) -> list[TopicPartition]:
    """Cancel reassignments that are under way, and wait until they are; returns them.

    partitions  None: all
    raises      ToolError
    """
    chosen = None if partitions is None else list(partitions)
    if chosen == []:
        return []
    current = sorted(list_reassignments(client, chosen))
    if not current:
        return []
    # A reassignment that ends meanwhile is refused, which is as good.
    errors = alter_reassignments(client, dict.fromkeys(current))
    deadline = time.monotonic() + CANCEL_TIMEOUT_S
    while list_reassignments(client, current):
        if time.monotonic() > deadline:
            name = min(errors, default=current[0])
            raise ToolError(f"{partition_text(name)} is not cancelled: {errors.get(name, 'late')}")
        time.sleep(POLL_S)
    report(f"Cancelled: {len(current)} reassignments ({partition_names(current)})")
    return current


def remove_throttles(client: Client, topics: Iterable[str]) -> None:
    """Delete the throttles of reassignments from topics, and from the brokers that do it.

    raises  ToolError
    """
    for topic in throttled_topics(client, sorted(topics)):
        alter(client, Resource(TOPIC, topic), {}, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    brokers = sorted(broker.node_id for broker in client.metadata([]).brokers)
    for broker, error in delete_rates(client, brokers, (LEADER_RATE, FOLLOWER_RATE)).items():
        report(f"The throttle of broker {broker} is left: {error}")


def throttled_topics(client: Client, topics: Sequence[str]) -> list[str]:
    """The topics that name replicas whose traffic is bounded.

    raises  ToolError
    """
    throttled = {
        topic
        for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)
        for topic, value in config_values(client.any(), TOPIC, topics, name).items()
        if value
    }
    return sorted(throttled)
