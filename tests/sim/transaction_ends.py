"""What strikes while a transaction ends.

A leader is cut from a follower when a transaction of another coordinator is open.  Once it has
appended the marker, which is then not replicated:

marker of a dead leader  it dies, and the follower leads
disk full at the end     the coordinator's disk is full, and the follower gets the marker
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from odradek.broker.transaction.metadata import TransactionMetadata, TransactionState
from odradek.controller.image.image import INTERNAL_TOPICS
from odradek.protocol.records.batch import CONTROL
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.testing.memory_files import UNLIMITED_BYTES
from tests.sim.process import Process
from tests.sim.script import Link, Script
from tests.sim.stored_batches import stored_batches

TRANSACTION_US: Final = 1_500_000
"""In which a transaction is to begin, and in which it is to end."""
COMPLETE: Final = (TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT)
COMPLETE_US: Final = 200_000
"""In which a coordinator that believes in the marker completes the transaction."""
ATTEMPTS_MAX: Final = 30
HEALED_US: Final = 20_000
ELECTION_US: Final = 500_000
FULL_US: Final = 300_000


@dataclass(frozen=True)
class Victim:
    """A partition with an open transaction; the follower is the next to lead."""

    key: TopicPartition
    leader: Process
    follower: Process
    coordinator: Process
    transaction: TransactionMetadata

    @property
    def link(self) -> Link:
        return self.leader.host.name, self.follower.host.name

    def lacks(self) -> bool:
        """Whether a follower lacks records of the leader."""
        partition = (
            None if self.leader.node is None else self.leader.node.parts.partitions.get(*self.key)
        )
        return partition is not None and partition.log.end_offset > partition.log.high_watermark

    def lacks_markers_only(self) -> bool:
        node = self.leader.node
        partition = None if node is None else node.parts.partitions.get(*self.key)
        if partition is None or partition.log.is_offline:
            return False
        lacking = stored_batches(self.leader, partition.log, partition.log.high_watermark)
        return all(batch.attributes & CONTROL for batch in lacking)

    def is_complete(self) -> bool:
        return self.transaction.current.state in COMPLETE


class TransactionEnds:
    """For partitions to which transactional clients write."""

    def __init__(
        self, script: Script, keys: list[TopicPartition], start_later: Callable[[Process], None]
    ) -> None:
        """keys  those of records, of groups and of transactions"""
        self._script = script
        self._keys = [key for key in keys if key.topic not in INTERNAL_TOPICS]
        self._start_later = start_later

    def make(self, kind: str, attempts: int = ATTEMPTS_MAX) -> None:
        """Begin when a transaction is open.

        attempts  until what the leader appends then is a marker
        """
        script = self._script

        def cut() -> None:
            victim = self._victim()
            assert victim is not None, "it was waited for"
            script.cut(victim.link)

            def give_up() -> None:
                script.heal([victim.link])
                if attempts > 1:
                    script.world.after(HEALED_US, lambda: self.make(kind, attempts - 1))

            def end() -> None:
                if not victim.lacks_markers_only():
                    give_up()
                    return
                script.world.counts[kind] += 1
                if kind == "marker of a dead leader":
                    self._kill(victim)
                else:
                    self._fill_disk(victim)

            script.wait(victim.lacks, end, give_up, TRANSACTION_US)

        script.wait(lambda: self._victim() is not None, cut, lambda: None, TRANSACTION_US)

    def _victim(self) -> Victim | None:
        oracle = self._script.oracle
        for key in self._keys:
            state = oracle.state_of(key)
            producers = oracle.of(key).open_transactions
            if state is None or not producers or not self._script.is_whole(key):
                continue
            replicas = oracle.assignment_of(key.topic).partitions[key.partition]
            follower, last = (
                oracle.processes[replica] for replica in replicas if replica != state.leader
            )
            if last.node is None:
                continue
            for shard in last.node.services.transactions.shards.values():
                for transaction in shard.ids.values():
                    leader = oracle.processes[state.leader]
                    victim = Victim(key, leader, follower, last, transaction)
                    if transaction.current.producer_id in producers and not victim.lacks():
                        return victim
        return None

    def _kill(self, victim: Victim) -> None:
        script = self._script

        def fail() -> None:
            if not script.world.is_calm:
                script.fail(victim.leader, self._start_later)
            # What the dead leader has sent would still arrive.
            script.heal_later([victim.link], ELECTION_US)

        script.wait(victim.is_complete, fail, fail, COMPLETE_US)

    def _fill_disk(self, victim: Victim) -> None:
        process = victim.coordinator
        disk, life = process.disk, process.life
        disk.capacity_bytes = disk.used_bytes()
        self._script.world.note(f"the disk of coordinator {process.broker_id} is full")
        self._script.heal([victim.link])

        def free() -> None:
            if process.life == life:
                disk.capacity_bytes = UNLIMITED_BYTES

        self._script.world.after(FULL_US, free)
