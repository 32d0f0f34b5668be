"""Two failovers in a row, each before the next leader has what the last one wrote (KIP-279).

The leader of epoch 1 writes what one follower gets and the other one does not.  The latter leads in
epoch 2, writes other records at these offsets, and dies before others have them.  The former leads
in epoch 3: its last record is of epoch 1, and it has more of that epoch than the returning broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from tests.sim.process import Process
from tests.sim.script import Script

WAIT_US: Final = 1_200_000
"""Shorter than the lag with which a replica leaves the in-sync replicas."""


class TwoFailovers:
    """Makes the two failovers of a partition; its clients write with acks=1."""

    def __init__(self, script: Script, start_later: Callable[[Process], None]) -> None:
        self._script = script
        self._start_later = start_later

    def make(self, key: TopicPartition) -> None:
        """Begin, when every replica is in sync and nothing else is wrong."""
        script = self._script
        state = script.oracle.state_of(key)
        if state is None or not script.is_whole(key):
            return
        replicas = script.oracle.assignment_of(key.topic).partitions[key.partition]
        processes = script.oracle.processes
        first = processes[state.leader]
        second, third = (processes[replica] for replica in replicas if replica != state.leader)
        script.world.note(f"{key}: {first.broker_id}, {second.broker_id} will fail in a row")
        names = first.host.name, second.host.name, third.host.name
        links = [(names[0], names[1]), (names[1], names[0]), (names[1], names[2])]
        script.cut(*links[:2])

        def fail_first() -> None:
            script.cut(links[2])
            script.fail(first, self._start_later)
            script.wait(
                lambda: self._has_written(key, second),
                fail_second,
                lambda: script.heal(links),
                WAIT_US,
            )

        def fail_second() -> None:
            script.world.counts["two failovers"] += 1
            script.fail(second, self._start_later)
            script.heal(links)

        script.wait(
            lambda: self._end(key, third) > self._end(key, second),
            fail_first,
            lambda: script.heal(links),
            WAIT_US,
        )

    def _end(self, key: TopicPartition, process: Process) -> int:
        partition = None if process.node is None else process.node.parts.partitions.get(*key)
        return -1 if partition is None else partition.log.end_offset

    def _has_written(self, key: TopicPartition, process: Process) -> bool:
        """Whether it leads, and has written something since then."""
        partition = None if process.node is None else process.node.parts.partitions.get(*key)
        if partition is None or partition.leader is None:
            return False
        return partition.log.end_offset > partition.leader.epoch_start_offset
