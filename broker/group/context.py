"""The parts of a node that the shards of the group coordinator use."""

from __future__ import annotations

from odradek.broker.coordinator_log.context import CoordinatorContext
from odradek.broker.group.limits import GroupLimits, Now
from odradek.broker.group.member_memory import MemberMemory
from odradek.broker.group.unreadable import Refuse
from odradek.broker.purgatory import Purgatory, Wheel
from odradek.broker.settings.groups import ConsumerGroupSettings
from odradek.runtime.clock import Clock
from odradek.runtime.scheduler import scheduler_of


class GroupContext(CoordinatorContext):
    """Clock, timers, purgatory and settings of the node, and the memory that all groups share.

    codec              compression of the appended batches, 0 none
    commit_timeout_ms  how long an append waits for the replicas
    refuse             which groups are refused when records are unreadable
    """

    __slots__ = ("codec", "commit_timeout_ms", "consumer", "limits", "matching", "memory", "refuse")

    def __init__(
        self,
        purgatory: Purgatory,
        wheel: Wheel,
        clock: Clock,
        limits: GroupLimits,
        *,
        codec: int = 0,
        commit_timeout_ms: int = 5_000,
        consumer: ConsumerGroupSettings | None = None,
        refuse: Refuse = Refuse.GROUP,
    ) -> None:
        super().__init__(purgatory, wheel, clock)
        self.limits = limits
        self.codec = codec
        self.commit_timeout_ms = commit_timeout_ms
        self.consumer = consumer or ConsumerGroupSettings()
        self.refuse = refuse
        self.memory = MemberMemory(limits)
        self.matching = scheduler_of(clock, self.defer, "regular expressions")
        """The expressions of all groups are matched here: their number is up to clients."""

    def now(self) -> Now:
        """The present time, on both clocks."""
        return Now(self.clock.now_ms(), self.clock.monotonic_ms())
