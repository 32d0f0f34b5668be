"""Two failovers in a row, each before the next leader has what the last one wrote (KIP-279).

The leader of epoch 1 writes what one follower gets and the other one does not.  The latter leads in
epoch 2, writes other records at these offsets, and dies before others have them.  The former leads
in epoch 3: its last record is of epoch 1, and it has more of that epoch than the returning broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from tests.sim.ensemble import Ensemble
from tests.sim.network import Network
from tests.sim.oracle import Oracle
from tests.sim.process import Process
from tests.sim.world import World

STEP_US: Final = 5_000
WAIT_US: Final = 1_200_000
"""Shorter than the lag with which a replica leaves the in-sync replicas."""


class TwoFailovers:
    """They need clients that write with acks=1."""

    def __init__(
        self,
        world: World,
        network: Network,
        ensemble: Ensemble,
        oracle: Oracle,
        *,
        start_later: Callable[[Process], None],
    ) -> None:
        self._world = world
        self._network = network
        self._ensemble = ensemble
        self._oracle = oracle
        self._start_later = start_later

    def make(self, key: TopicPartition) -> None:
        """Begin, when every replica is in sync and nothing else is wrong."""
        state = self._oracle.state_of(key)
        if state is None or len(state.isr) < 3 or state.leader < 0 or self._network.cuts:
            return
        replicas = self._oracle.assignment_of(key.topic).partitions[key.partition]
        processes = self._oracle.processes
        first = processes[state.leader]
        second, third = (processes[one] for one in replicas if one != state.leader)
        if not all(one.is_serving and not one.loop.is_paused for one in processes.values()):
            return
        self._world.note(f"{key}: {first.broker_id}, {second.broker_id} will fail in a row")
        names = first.host.name, second.host.name, third.host.name
        links = [(names[0], names[1]), (names[1], names[0]), (names[1], names[2])]
        self._network.cuts.update(links[:2])

        def heal() -> None:
            kept = sorted(self._network.cuts.difference(links))
            self._network.heal()
            self._network.cuts.update(kept)

        def fail_first() -> None:
            self._network.cuts.add(links[2])
            self._fail(first)
            self._wait(lambda: self._has_written(key, second), fail_second, heal)

        def fail_second() -> None:
            self._world.counts["two failovers"] += 1
            self._fail(second)
            heal()

        self._wait(lambda: self._end(key, third) > self._end(key, second), fail_first, heal)

    def _wait(
        self, is_so: Callable[[], bool], then: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        left = WAIT_US // STEP_US

        def look() -> None:
            nonlocal left
            left -= 1
            if self._world.is_calm:
                return
            if is_so():
                then()
            elif left:
                self._world.after(STEP_US, look)
            else:
                give_up()

        look()

    def _end(self, key: TopicPartition, process: Process) -> int:
        partition = None if process.node is None else process.node.parts.partitions.get(*key)
        return -1 if partition is None else partition.log.end_offset

    def _has_written(self, key: TopicPartition, process: Process) -> bool:
        """Whether it leads, and has written something since then."""
        partition = None if process.node is None else process.node.parts.partitions.get(*key)
        if partition is None or partition.leader is None:
            return False
        return partition.log.end_offset > partition.leader.epoch_start_offset

    def _fail(self, process: Process) -> None:
        if not process.is_up:
            return
        session_id = process.session_id()
        process.kill()
        if session_id in self._ensemble.sessions:
            self._ensemble.expire(session_id)
        self._start_later(process)
