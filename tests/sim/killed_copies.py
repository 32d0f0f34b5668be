"""A broker copies a compacted log to a new disk, comes into sync, and is killed with its leader.

Before its own cleaner has been there, nothing on its disk says that the holes of its log were
compacted.  No controller sees the deaths, so it is in sync when it follows again.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from tests.sim.process import Process
from tests.sim.script import Script

WAIT_US: Final = 3_000_000
DELAYS_MS_MAX: Final = (400, 2_500)
"""From the moment when the copy is in sync to its death.  In the longer one its cleaner comes, and
then what it has written last is taken away: it is killed before."""
CLEANER_CHECKPOINT: Final = "/a/cleaner-offset-checkpoint"


class KilledCopies:
    """They need compacted topics, and clients that write."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def make(self, key: TopicPartition, number: int) -> None:
        """Begin, when every replica is in sync, and leader and controller are two brokers.

        number  chooses when the copy is killed
        """
        script = self._script
        state = script.oracle.state_of(key)
        controller_id = script.ensemble.controller_id()
        if state is None or not script.is_whole(key) or state.leader == controller_id:
            return
        processes = script.oracle.processes
        leader, controller = processes[state.leader], processes.get(controller_id or -1)
        (copy,) = [
            process for process in processes.values() if process not in (leader, controller)
        ][:1]
        if controller is None or not self._has_holes(key, leader):
            return
        script.world.note(f"{key}: broker {copy.broker_id} will be a copy of {leader.broker_id}")
        script.fail(copy, lambda _: None)

        def is_out() -> bool:
            now = script.oracle.state_of(key)
            return now is not None and copy.broker_id not in now.isr

        def copy_again() -> None:
            copy.lose_disk()
            copy.start()
            script.wait(lambda: script.is_whole(key), kill_later, lambda: None, WAIT_US)

        def kill_later() -> None:
            delay_ms = (number >> 1) % DELAYS_MS_MAX[number & 1]
            script.world.after(delay_ms * 1_000, kill)

        def kill() -> None:
            if not script.world.is_calm and script.is_whole(key):
                self._kill(key, leader, copy, controller, is_cleaned=bool(number & 1))

        script.wait(is_out, copy_again, copy.start, WAIT_US)

    def _kill(
        self,
        key: TopicPartition,
        leader: Process,
        copy: Process,
        controller: Process,
        *,
        is_cleaned: bool,
    ) -> None:
        """Kill all three; when the session of the controller ends, the others are back."""
        script, session_id = self._script, controller.session_id()
        script.world.counts["killed copy"] += self._has_holes(key, copy)
        controller.kill()

        def start(process: Process) -> None:
            if process is copy and is_cleaned and copy.disk.exists(CLEANER_CHECKPOINT):
                script.world.counts["cleaning without its checkpoint"] += 1
                copy.disk.remove(CLEANER_CHECKPOINT)
            process.start()

        for process in (leader, copy):
            script.fail(process, start)

        def end_session() -> None:
            if session_id in script.ensemble.sessions:
                script.ensemble.expire(session_id)
            script.world.after(500_000, start_controller)

        def start_controller() -> None:
            if not controller.is_up:
                controller.start()

        script.wait(
            lambda: leader.has_session() and copy.has_session(), end_session, end_session, WAIT_US
        )

    def _has_holes(self, key: TopicPartition, process: Process) -> bool:
        """Whether a cleaning has removed records, there or where they were copied from."""
        node = process.node
        partition = None if node is None else node.parts.partitions.get(*key)
        if partition is None:
            return False
        bases = partition.log.segments.base_offsets
        sizes = [segment.size for segment in partition.log.segments]
        return any(
            size < (end - start) * RECORD_BYTES_LEAST
            for start, end, size in zip(bases, bases[1:], sizes, strict=False)
        )


RECORD_BYTES_LEAST: Final = 61
"""A batch has at least its header, and each record is in a batch of its own."""
