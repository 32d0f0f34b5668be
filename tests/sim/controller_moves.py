"""A controller is deposed in the midst of a change of in-sync replicas.

late write      the former controller does not learn of it, and is asked for one more change
late request    what it has sent arrives when the new controller's requests have
slow takeover   the new one reads slowly, and is asked for a change meanwhile
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.protocol.topic_partition import TopicPartition
from tests.sim.ensemble import HOST
from tests.sim.script import Link, Script

BEFORE_SHRINK_US: Final = 1_400_000
"""Of the time after which a replica that does not fetch leaves the in-sync replicas."""
DEAF_US: Final = 900_000
"""Shorter than the silence after which a broker gives its connection up."""
SHRINK_US: Final = 3_000_000
ELECTION_US: Final = 500_000
LATE_US: Final = 300_000


class ControllerMoves:
    """For a partition with three replicas."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def make(self, key: TopicPartition, number: int) -> None:
        """Begin, when nothing is wrong.

        number  chooses what happens
        """
        script = self._script
        former = script.ensemble.controller_id()
        state = script.oracle.state_of(key)
        if state is None or former is None or not script.is_whole(key):
            return
        followers = sorted(replica for replica in state.isr if replica != state.leader)
        # The former controller fetches on, if it follows.
        lagging = next(follower for follower in followers if follower != former)
        kinds = (self._write_late, self._request_late, self._take_over_slowly)
        lag = (self._name(lagging), self._name(state.leader))
        script.cut(lag)
        kinds[number % len(kinds)](key, former, lagging, lag)

    def _name(self, broker_id: int) -> str:
        return self._script.oracle.processes[broker_id].host.name

    def _depose(self, former: int) -> None:
        self._script.world.note(f"controller {former} is deposed within a change")
        self._script.world.counts["deposed within a change"] += 1
        self._script.ensemble.depose()

    def _write_late(self, key: TopicPartition, former: int, lagging: int, lag: Link) -> None:
        """Neither it nor the leader hears of another controller until the leader has asked it."""
        script = self._script

        def depose() -> None:
            state = script.oracle.state_of(key)
            if script.world.is_calm or state is None or script.ensemble.controller_id() != former:
                script.heal([lag])
                return
            deaf = {former, state.leader}
            links = [
                (self._name(broker_id), self._name(other))
                for broker_id in sorted(script.oracle.processes)
                for other in sorted(deaf)
                if broker_id not in deaf
            ]
            links += [(HOST, self._name(broker_id)) for broker_id in sorted(deaf)]
            script.cut(*links)
            self._depose(former)
            script.heal_later([lag, *links], DEAF_US)

        script.world.after(BEFORE_SHRINK_US, depose)

    def _request_late(self, key: TopicPartition, former: int, lagging: int, lag: Link) -> None:
        held = (self._name(former), self._name(lagging))
        links = [lag, held]
        self._script.cut(held)
        self._when_shrunk(
            key,
            lagging,
            lambda: self._move(former, lambda _: self._script.heal_later(links, LATE_US), links),
            links,
        )

    def _take_over_slowly(self, key: TopicPartition, former: int, lagging: int, lag: Link) -> None:
        """The replica catches up while the new controller reads."""
        script = self._script

        def slow(elected: int) -> None:
            link = (HOST, self._name(elected))
            script.cut(link)
            script.heal([lag])
            script.heal_later([link], DEAF_US)

        self._when_shrunk(key, lagging, lambda: self._move(former, slow, [lag]), [lag])

    def _when_shrunk(
        self, key: TopicPartition, lagging: int, then: Callable[[], None], links: list[Link]
    ) -> None:
        def is_shrunk() -> bool:
            state = self._script.oracle.state_of(key)
            return state is not None and lagging not in state.isr

        self._script.wait(is_shrunk, then, lambda: self._script.heal(links), SHRINK_US)

    def _move(self, former: int, then: Callable[[int], None], links: list[Link]) -> None:
        """Depose the controller; `then` gets the next one."""
        script = self._script
        if script.ensemble.controller_id() != former:
            script.heal(links)
            return
        self._depose(former)

        def go_on() -> None:
            elected = script.ensemble.controller_id()
            assert elected is not None, "it was waited for"
            then(elected)

        script.wait(
            lambda: script.ensemble.controller_id() is not None,
            go_on,
            lambda: script.heal(links),
            ELECTION_US,
        )
