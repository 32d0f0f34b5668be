"""A follower that does not hear its leader leaves the in-sync replicas, and what waits goes on.

Nothing else is wrong, so this is not left to the end of all faults: the leader's records stay
uncommitted as long as the replica counts.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from tests.sim.process import Process
from tests.sim.script import Script

SHRINK_US: Final = 4_000_000
"""The lag of the plans' settings (1.5 s), the time between two looks (half of it), the change."""


class LaggingFollowers:
    """They need clients that write."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def make(self, key: TopicPartition) -> None:
        """Begin, when every replica is in sync and nothing else is wrong."""
        script = self._script
        state = script.oracle.state_of(key)
        if state is None or not script.is_whole(key):
            return
        replicas = script.oracle.assignment_of(key.topic).partitions[key.partition]
        processes = script.oracle.processes
        leader = processes[state.leader]
        followers = [
            replica
            for replica in replicas
            if replica != state.leader and not _controls(processes[replica])
        ]
        follower = processes[followers[0]]
        script.world.note(f"{key}: {follower.broker_id} will not hear {leader.broker_id}")
        names = leader.host.name, follower.host.name
        links = [names, names[::-1]]
        script.cut(*links)

        def is_out() -> bool:
            now = script.oracle.state_of(key)
            return now is not None and follower.broker_id not in now.isr

        def go_on() -> None:
            script.world.counts["lagging follower"] += 1
            script.heal(links)

        def give_up() -> None:
            script.world.fail(
                f"{key}: broker {follower.broker_id} has not heard its leader for "
                f"{SHRINK_US // 1_000} ms and is in sync: {script.oracle.state_of(key)}"
            )

        script.wait(is_out, go_on, give_up, SHRINK_US)


def _controls(process: Process) -> bool:
    return process.node is not None and process.node.services.controller.is_active
