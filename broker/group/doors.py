"""What the shards of a coordinator need of their node."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from broker.delayed import Purgatory, Wheel
from broker.group.consumer.settings import ConsumerSettings
from broker.group.limits import Limits, Memory, Now
from runtime.clock import Clock

if TYPE_CHECKING:
    from broker.group.consumer.topics import TopicDirectory
    from broker.group.shard import Shard
    from broker.group.state import Group

GIVEN_ID_BYTES: Final = 2_000
"""An id that was given out, without its characters, and a group that may exist for it alone."""


class GivenIds:
    """Ids that members were told and have not used yet, in all shards, oldest first.

    Differs from Kafka, which keeps them all for a session timeout: a flood of joins without an id
    (KAFKA-7610) costs no more than `bytes_max`; beyond it the oldest are dropped, and a client that
    comes with one later is told another.
    """

    def __init__(self, bytes_max: int) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._oldest: deque[tuple[Shard, Group, str]] = deque()

    def __len__(self) -> int:
        return len(self._oldest)

    def add(self, shard: Shard, group: Group, member_id: str) -> None:
        """One more; the oldest go when they are too many."""
        self._oldest.append((shard, group, member_id))
        self.used_bytes += _given_bytes(group, member_id)
        while self.used_bytes > self._bytes_max:
            shard, group, member_id = self._oldest.popleft()
            self.used_bytes -= _given_bytes(group, member_id)
            shard.withdraw(group, member_id)


def _given_bytes(group: Group, member_id: str) -> int:
    return GIVEN_ID_BYTES + len(group.group_id) + len(member_id)


class Doors:
    """The parts of a node that a shard reaches.

    codec              of the batches that it writes, 0 none
    consumer           what bounds groups of the new protocol
    commit_timeout_ms  how long an append waits for the replicas
    """

    __slots__ = (
        "clock",
        "codec",
        "commit_timeout_ms",
        "consumer",
        "directory",
        "given_ids",
        "limits",
        "memory",
        "purgatory",
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
    ) -> None:
        self.purgatory = purgatory
        self.wheel = wheel
        self.clock = clock
        self.limits = limits
        self.codec = codec
        self.commit_timeout_ms = commit_timeout_ms
        self.consumer = consumer or ConsumerSettings()
        self.directory: TopicDirectory | None = None
        """The topics; there once somebody leads a partition of groups."""
        self.memory = Memory()
        self.given_ids = GivenIds(limits.pending_bytes_max)

    def now(self) -> Now:
        """The time."""
        return Now(self.clock.now_ms(), self.clock.monotonic_ms())
