"""A coordinator of transactions dies with an outcome that its followers lack.

It is cut from them while a transaction is under way, and dies once it has appended that the
transaction is to be committed.  The next coordinator knows nothing of that, so no client may have
been given this outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from odradek.broker.topics import TRANSACTION_TOPIC
from odradek.broker.transaction.metadata import TransactionMetadata, TransactionState
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.process import Process
from tests.sim.script import Link, Script

TRANSACTION_US: Final = 1_500_000
"""In which a transaction is to begin."""
CUT_US: Final = 200_000
"""In which it is to end: what else is appended meanwhile holds the end up."""
ATTEMPTS_MAX: Final = 30
HEALED_US: Final = 20_000
RESPONSE_US: Final = 30_000
"""In which a client would have the outcome."""
ELECTION_US: Final = 500_000


@dataclass(frozen=True)
class Victim:
    """The coordinator of an open transaction."""

    coordinator: Process
    transaction: TransactionMetadata
    links: tuple[Link, ...]

    def decides(self) -> bool:
        """Whether it is about to commit."""
        return self.transaction.pending_state is TransactionState.PREPARE_COMMIT


class CoordinatorDeaths:
    """For the partitions of `__transaction_state`."""

    def __init__(
        self, script: Script, keys: list[TopicPartition], start_later: Callable[[Process], None]
    ) -> None:
        self._script = script
        self._keys = [key for key in keys if key.topic == TRANSACTION_TOPIC]
        self._start_later = start_later

    def make(self, kind: str, attempts: int = ATTEMPTS_MAX) -> None:
        """Begin when a transaction is open.

        attempts  until what the coordinator appends then is an outcome
        """
        script = self._script

        def cut() -> None:
            victim = self._victim()
            assert victim is not None, "it was waited for"
            script.cut(*victim.links)

            def give_up() -> None:
                script.heal(victim.links)
                if attempts > 1:
                    script.world.after(HEALED_US, lambda: self.make(kind, attempts - 1))

            def die() -> None:
                script.world.counts[kind] += 1
                script.world.after(RESPONSE_US, fail)

            def fail() -> None:
                if not script.world.is_calm:
                    script.fail(victim.coordinator, self._start_later)
                # What the dead coordinator has sent would still arrive.
                script.heal_later(victim.links, ELECTION_US)

            script.wait(victim.decides, die, give_up, CUT_US)

        script.wait(lambda: self._victim() is not None, cut, lambda: None, TRANSACTION_US)

    def _victim(self) -> Victim | None:
        oracle = self._script.oracle
        for key in self._keys:
            state = oracle.state_of(key)
            if state is None or not self._script.is_whole(key):
                continue
            leader = oracle.processes[state.leader]
            shard = None
            if leader.node is not None:
                shard = leader.node.services.transactions.shards.get(key.partition)
            for transaction in () if shard is None else shard.ids.values():
                if transaction.current.state is TransactionState.ONGOING:
                    others = [
                        process for process in oracle.processes.values() if process is not leader
                    ]
                    links = tuple((leader.host.name, other.host.name) for other in others)
                    return Victim(leader, transaction, links)
        return None
