"""All groups of a simulation, members that take the places of others, and the end of their work."""

from __future__ import annotations

from typing import Final

from odradek.broker.topics import OFFSETS_TOPIC
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.clients import ClientHost
from tests.sim.consumer_members import ConsumerMember
from tests.sim.group_history import GroupHistory
from tests.sim.group_members import RESTART_US, GroupClient, Member
from tests.sim.oracle import Oracle
from tests.sim.plan import Plan
from tests.sim.transactions import start

UNFILLED_ONE_IN: Final = 3
"""Of how many deaths one is left to the coordinator: no other member joins in that place."""


class GroupWorkload:
    """Starts the members of a plan."""

    def __init__(
        self, plan: Plan, clients: ClientHost, oracle: Oracle, keys: list[TopicPartition]
    ) -> None:
        self._clients = clients
        self._oracle = oracle
        self._keys = keys
        self._history = GroupHistory(clients.world)
        oracle.on_committed[OFFSETS_TOPIC] = self._history.on_committed
        self._members: dict[str, list[Member]] = {}
        self._waiting = 0
        """Members that are to be started."""
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        """What the coordinators have returned last."""
        self._fetching: dict[str, None] = {}
        self._kinds: dict[str, str] = {}
        for number, (members, kind) in enumerate(
            zip(plan.group_members, plan.group_kinds, strict=True)
        ):
            self._kinds[f"group-{number}"] = kind
            for place in range(members):
                self._start(f"group-{number}", place)

    def _start(self, group: str, place: int) -> None:
        def start_again() -> None:
            self._waiting -= 1
            self._start(group, place)

        def on_death() -> None:
            others = [
                member
                for member in self._members[group]
                if not member.is_dead and not member.is_replaced
            ]
            if others and not self._clients.world.random.randrange(UNFILLED_ONE_IN):
                return
            self._waiting += 1
            delay_us = self._clients.world.random.randrange(1, RESTART_US)
            self._clients.after(delay_us, start_again)

        kind = self._kinds[group]
        member = (ConsumerMember if kind == "consumer" else Member)(
            self._clients,
            self._history,
            group,
            self._keys,
            on_death=on_death,
            instance_id=f"instance-{place}" if kind == "static" else None,
        )
        self._members.setdefault(group, []).append(member)
        start(member.run())

    def trouble(self) -> str | None:
        """Why not every group is stable with all partitions read."""
        if self._waiting:
            return f"{self._waiting} members are not started"
        for group, members in self._members.items():
            alive = [member for member in members if not member.is_dead]
            states = {(member.generation, member.is_settled) for member in alive}
            if states != {(self._history.newest(group), True)}:
                return f"members of {group} are in generations {states}"
            owned = sorted(key for member in alive for key in member.owned)
            if owned != sorted(self._keys):
                return f"members of {group} own {owned}"
            for key in self._keys:
                committed = self._history.committed(group, key)
                if max(0, committed) != len(self._oracle.of(key).batches):
                    return f"{group} has committed {committed} for {key}"
            why = self._trouble_with_offsets(group)
            if why is not None:
                return why
        return None

    def _trouble_with_offsets(self, group: str) -> str | None:
        """Why the coordinator is not known to return the offsets that are committed.

        They are fetched again when they differ: members commit as long as something else is not
        whole yet.  No offset and offset 0 are the same: nothing waits for a commit of 0.
        """
        expected = {key: max(0, self._history.committed(group, key)) for key in self._keys}
        offsets = self._offsets.get(group)
        if offsets == expected:
            return None
        if group not in self._fetching:
            self._fetching[group] = None
            start(self._fetch(group))
        return f"the offsets of {group} are {offsets}, by the log {expected}"

    async def _fetch(self, group: str) -> None:
        client = GroupClient(self._clients, self._history, group, self._keys)
        offsets = await client.fetch_offsets(self._keys)
        self._offsets[group] = {key: max(0, offset) for key, offset in offsets.items()}
        del self._fetching[group]

    def check_end(self) -> None:
        """No generation that was assigned is lost."""
        self._history.check_end()
