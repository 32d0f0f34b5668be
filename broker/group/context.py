"""What the shards of a coordinator need of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.group.limits import Limits, Memory, Now
from odradek.broker.group.unreadable import Refuse
from odradek.broker.purgatory import Purgatory, Wheel
from odradek.broker.settings.groups import ConsumerSettings
from odradek.runtime.clock import Clock

if TYPE_CHECKING:
    from odradek.broker.group.consumer.topics import TopicDirectory


class Doors:
    """The parts of a node that a shard reaches.

    codec              of the batches that it writes, 0 none
    consumer           what bounds groups of the new protocol
    commit_timeout_ms  how long an append waits for the replicas
    refuse             which groups are refused when records cannot be read
    """

    __slots__ = (
        "clock",
        "codec",
        "commit_timeout_ms",
        "consumer",
        "directory",
        "limits",
        "memory",
        "purgatory",
        "refuse",
        "wheel",
    )

    def __init__(
        self,
        purgatory: Purgatory,
        wheel: Wheel,
        clock: Clock,
        limits: Limits,
        *,
        codec: int = 0,
        commit_timeout_ms: int = 5_000,
        consumer: ConsumerSettings | None = None,
        refuse: Refuse = Refuse.GROUP,
    ) -> None:
        self.purgatory = purgatory
        self.wheel = wheel
        self.clock = clock
        self.limits = limits
        self.codec = codec
        self.commit_timeout_ms = commit_timeout_ms
        self.consumer = consumer or ConsumerSettings()
        self.refuse = refuse
        self.directory: TopicDirectory | None = None
        """The topics; there once somebody leads a partition of groups."""
        self.memory = Memory(limits.pending_bytes_max)

    def now(self) -> Now:
        """The time."""
        return Now(self.clock.now_ms(), self.clock.monotonic_ms())
