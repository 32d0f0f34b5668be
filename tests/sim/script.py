"""Scripted faults wait for a state of the cluster, cut links and heal them.

A script is for what random faults hit too seldom: several events that must come in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from tests.sim.ensemble import Ensemble
from tests.sim.network import Network
from tests.sim.oracle import Oracle
from tests.sim.process import Process
from tests.sim.world import World

STEP_US: Final = 5_000

Link = tuple[str, str]
"""From one host to another."""


class Script:
    """Waits, and cuts links, in one simulation."""

    def __init__(self, world: World, network: Network, ensemble: Ensemble, oracle: Oracle) -> None:
        self.world = world
        self.network = network
        self.ensemble = ensemble
        self.oracle = oracle

    def is_whole(self, key: TopicPartition) -> bool:
        """Whether a partition has all replicas in sync, and nothing is wrong anywhere."""
        state = self.oracle.state_of(key)
        if state is None or len(state.isr) < 3 or state.leader < 0 or self.network.cuts:
            return False
        processes = self.oracle.processes.values()
        return all(process.is_serving and not process.loop.is_paused for process in processes)

    def cut(self, *links: Link) -> None:
        self.network.cuts.update(links)

    def heal(self, links: Collection[Link]) -> None:
        """Others stay cut."""
        kept = sorted(self.network.cuts.difference(links))
        self.network.heal()
        self.network.cuts.update(kept)

    def heal_later(self, links: Collection[Link], delay_us: int) -> None:
        self.world.after(delay_us, lambda: self.heal(links))

    def wait(
        self,
        is_so: Callable[[], bool],
        then: Callable[[], None],
        give_up: Callable[[], None],
        within_us: int,
    ) -> None:
        """Look every few milliseconds; nothing of it happens once faults have ended."""
        left = within_us // STEP_US

        def look() -> None:
            nonlocal left
            left -= 1
            if self.world.is_calm:
                return
            if is_so():
                then()
            elif left:
                self.world.after(STEP_US, look)
            else:
                give_up()

        look()

    def fail(self, process: Process, start_later: Callable[[Process], None]) -> None:
        """Kill a broker, and end its session at once."""
        if not process.is_up:
            return
        session_id = process.session_id()
        process.kill()
        if session_id in self.ensemble.sessions:
            self.ensemble.expire(session_id)
        start_later(process)
