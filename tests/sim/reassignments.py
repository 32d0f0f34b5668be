"""A controller moves a partition to itself alone, and stops for long once it is elected.

It has not handled its own request to lead yet, and the replicas that it was about to remove are in
sync still: one of them is elected meanwhile.  When the former controller goes on, it leads in an
epoch that has passed; what it writes then is not committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.controller.znodes.zk_data import PartitionStateZnode
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.process import Process
from tests.sim.script import Script

WAIT_US: Final = 1_500_000


class StoppedLeader:
    """Needs clients that write to a leader that is no longer one."""

    def __init__(
        self,
        script: Script,
        reassign: Callable[[TopicPartition, list[int]], bool],
        pause: Callable[[Process], None],
    ) -> None:
        """
        reassign  to these brokers; False: it is not possible now
        pause     for longer than a session
        """
        self._script = script
        self._reassign = reassign
        self._pause = pause

    def make(self, key: TopicPartition) -> None:
        """Begin, when nothing is wrong."""
        script = self._script
        if not script.is_whole(key):
            return
        if self._is_led_by_the_controller(key):
            script.ensemble.depose()
        script.wait(
            lambda: script.is_whole(key) and not self._is_led_by_the_controller(key),
            lambda: self._move(key),
            lambda: None,
            WAIT_US,
        )

    def _is_led_by_the_controller(self, key: TopicPartition) -> bool:
        controller_id, state = (
            self._script.ensemble.controller_id(),
            self._script.oracle.state_of(key),
        )
        return controller_id is None or state is None or state.leader == controller_id

    def _move(self, key: TopicPartition) -> None:
        controller_id = self._script.ensemble.controller_id()
        assert controller_id is not None, "it was looked at"
        states = self._script.ensemble.states

        def stop(written: TopicPartition, state: PartitionStateZnode) -> None:
            if written == key and state.leader == controller_id:
                states.on_changed = None
                self._script.world.note(f"{key}: {controller_id} is elected, and stops")
                self._script.world.counts["stopped leader"] += 1
                self._pause(self._script.oracle.processes[controller_id])

        if self._reassign(key, [controller_id]):
            states.on_changed = stop
