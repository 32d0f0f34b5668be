"""`odradek rebalance`: proposes where replicas and leaders should be, and moves them there.

Exit codes: 0 success, also of a plan that changes nothing; 1 failure; 2 an invalid command line;
130 when it is stopped by Ctrl-C or SIGTERM, after it has cancelled what was under way.
Kafka has no such tool; the goals are those of Cruise Control.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.cluster_status.render import partition_names
from odradek.tools.errors import ToolError
from odradek.tools.options import (
    CLIENT_FLAGS,
    INT64_MAX,
    Options,
    OptionsError,
    positive_number,
    read_flags,
)
from odradek.tools.run_command import run_with_client
from odradek.tools.steering.cluster_queries import ClusterState, partition_statuses, read_cluster
from odradek.tools.steering.execution import (
    STALL_TIMEOUT_MS,
    ExecutionLimits,
    PlanExecution,
    cancel_reassignments,
    remove_throttles,
)
from odradek.tools.steering.goals import SOFT_GOALS
from odradek.tools.steering.plan_render import plan_lines
from odradek.tools.steering.proposal import propose

WHAT_IT_DOES: Final = (
    "This tool balances replicas, leaders, disks and traffic over the brokers of a cluster."
)
SAMPLE_MS: Final = 5_000
BATCH: Final = 10
RATE_GOALS: Final = ("bytes-in", "leader-bytes-in")
MODES: Final = ("dry-run", "execute", "cancel")

EXECUTION_FLAGS: Final = read_flags("plan execution")
FLAGS: Final = (*CLIENT_FLAGS, *EXECUTION_FLAGS, *read_flags("rebalance"))


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, _act, FLAGS)


def _act(client: Client, options: Options) -> None:
    given = [name for name in MODES if options.has(name)]
    if len(given) > 1:
        raise OptionsError(f"--{given[0]} and --{given[1]} exclude each other")
    goals = parse_goals(options)
    exclude = parse_pattern(options)
    limits = execution_limits(options)
    sample_ms = positive_number(options, "sample-ms", SAMPLE_MS)
    if options.has("cancel"):
        cancel(client)
        return
    if not any(goal in goals for goal in RATE_GOALS):
        sample_ms = 0
    state = read_cluster(client, sample_ms=sample_ms, exclude=exclude)
    if state.missing:
        raise ToolError(
            f"brokers {', '.join(map(str, state.missing))} have replicas and are not registered: "
            "start them, or move their replicas with `odradek drain`"
        )
    proposal = propose(state.model, goals)
    if state.ongoing:
        print(f"Under way: {partition_names(sorted(state.ongoing))}")
    for line in plan_lines(state.model, proposal):
        print(line)
    if not options.has("execute"):
        return
    check_in_sync(client, state)
    with stopped_by_signals():
        elected = [row.partition for row in state.model.partitions if not row.is_excluded]
        PlanExecution(client, state, proposal.targets, limits, elected).run()
    print("Done")


def execution_limits(options: Options) -> ExecutionLimits:
    """raises  OptionsError"""
    return ExecutionLimits(
        positive_number(options, "batch", BATCH),
        positive_number(options, "throttle", 1, INT64_MAX) if options.has("throttle") else None,
        positive_number(options, "stall-timeout-ms", STALL_TIMEOUT_MS),
    )


def parse_goals(options: Options) -> tuple[str, ...]:
    """raises  OptionsError"""
    if not options.has("goals"):
        return SOFT_GOALS
    goals = options.list_of("goals")
    for goal in goals or [""]:
        if goal not in SOFT_GOALS:
            raise OptionsError(f"--goals: '{goal}' is not one of {', '.join(SOFT_GOALS)}")
    return tuple(goals)


def parse_pattern(options: Options) -> re.Pattern[str] | None:
    """raises  OptionsError"""
    text = options.value("exclude-topics")
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise OptionsError(f"--exclude-topics: '{text}' is not a pattern: {error}") from error


def check_in_sync(client: Client, state: ClusterState) -> None:
    """Refuse to move replicas while others are not in sync.

    raises  ToolError when they do not get in sync in the time-out of the client
    """
    lagging: list[TopicPartition] = []

    def is_in_sync() -> bool | None:
        lagging[:] = [
            partition
            for partition, now in partition_statuses(client.metadata()).items()
            if partition not in state.ongoing and set(now.isr) != set(now.replicas)
        ]
        return None if lagging else True

    if client.retry(is_in_sync) is None:
        raise ToolError(
            f"{len(lagging)} partitions are under-replicated ({partition_names(lagging)}): "
            "nothing is moved"
        )


def cancel(client: Client) -> None:
    """Cancel what is under way; delete throttles, also those that a killed run has left.

    raises  ToolError
    """
    if not cancel_reassignments(client):
        print("No partition reassignments found.")
    topics = [topic.name for topic in client.metadata().topics if topic.name is not None]
    remove_throttles(client, topics)
    print("Throttles deleted")


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: by KeyboardInterrupt."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
