"""The state of one following replica.

Pure.
Source: Kafka's PartitionFetchState, ReplicaState.
"""

from __future__ import annotations

from enum import Enum
from typing import Final
from uuid import UUID

from odradek.broker.replication.follower.fetch_session_handler import ReplicaKey, RequestedPartition
from odradek.broker.replication.follower.followed_log import (
    FollowedLog,
    fetch_offset_of,
    last_epoch_before,
)

FIRST_BACKOFF_MS: Final = 20
"""After the first error of a leader that does not lead yet."""


class ReplicaState(Enum):
    """The activity of a following replica."""

    FETCHING = "Fetching"
    TRUNCATING = "Truncating"
    """A truncation is under way; nothing is fetched or appended until its end."""
    OUT_OF_RANGE = "OutOfRange"
    """The leader's offsets are asked for.  Kafka waits for them within the fetcher's thread."""
    FAILED = "Failed"
    """Nothing is fetched until the controller sends another leader epoch."""


class PartitionFetchState:
    """A replica that follows one leader in one leader epoch."""

    __slots__ = (
        "delayed_until_ms",
        "index",
        "is_removal_awaited",
        "key",
        "lag",
        "leader_epoch",
        "log",
        "next_backoff_ms",
        "state",
        "topic",
    )

    lag: int | None
    """Records between the log end offset and the leader's high watermark; None: not known yet."""
    delayed_until_ms: int
    """When fetching goes on after an error; 0: now."""
    is_removal_awaited: bool
    """A truncation waits until the leader has taken this replica out of the in-sync replicas."""
    next_backoff_ms: int
    """The pause after the next error of a leader that does not lead yet; 0: there was none."""

    def __init__(
        self, topic: str, topic_id: UUID, index: int, *, leader_epoch: int, log: FollowedLog
    ) -> None:
        self.topic = topic
        self.index = index
        self.key: ReplicaKey = (topic_id, index)
        self.leader_epoch = leader_epoch
        self.log = log
        self.state = ReplicaState.FETCHING
        self.lag = None
        self.delayed_until_ms = 0
        self.is_removal_awaited = False
        self.next_backoff_ms = 0

    def __repr__(self) -> str:
        return (
            f"PartitionFetchState({self.topic}-{self.index}, epoch {self.leader_epoch}, "
            f"{self.state.value}, {self.log.log_start_offset}..{self.log.end_offset})"
        )

    @property
    def is_ready(self) -> bool:
        """Whether it is fetched now."""
        return self.state is ReplicaState.FETCHING and not self.delayed_until_ms

    @property
    def is_in_sync(self) -> bool:
        """Whether it had all that was replicated at the last fetch; such a replica is not
        throttled."""
        return self.lag is not None and self.lag <= 0

    def delay(self, until_ms: int) -> None:
        """Pause after an error."""
        self.delayed_until_ms = until_ms

    def resume(self) -> None:
        """A pause is over; the leader's offsets are not awaited any longer."""
        self.delayed_until_ms = 0
        if self.state is ReplicaState.OUT_OF_RANGE:
            self.state = ReplicaState.FETCHING

    def next_backoff(self, longest_ms: int) -> int:
        """The pause after an error of a leader that does not lead yet; twice as long each time."""
        backoff_ms = min(self.next_backoff_ms or FIRST_BACKOFF_MS, longest_ms)
        self.next_backoff_ms = 2 * backoff_ms
        return backoff_ms

    def note_appended(self, leader_high_watermark: int) -> None:
        """An append has succeeded, or there was nothing to append."""
        self.note_leader_end(leader_high_watermark)
        self.next_backoff_ms = 0

    def note_leader_end(self, offset: int) -> None:
        """The leader's high watermark, or its log end offset, is known."""
        self.lag = max(0, offset - self.log.end_offset)

    def move_to(self, state: ReplicaState) -> None:
        """Change the state."""
        self.state = state

    def await_removal(self) -> bool:
        """A truncation waits while the replica is in sync; returns whether it is the first time."""
        was_awaited, self.is_removal_awaited = self.is_removal_awaited, True
        return not was_awaited

    def requested(self) -> RequestedPartition:
        """The fields of the next request for this partition."""
        log = self.log
        fetch_offset = fetch_offset_of(log)
        return RequestedPartition(
            fetch_offset,
            last_epoch_before(log, fetch_offset),
            log.log_start_offset,
            self.leader_epoch,
            log.truncation_count,
        )

    def expects(self, sent: RequestedPartition) -> bool:
        """Whether the response to a request is still of use: nothing has changed since."""
        return (
            self.is_ready
            and sent.leader_epoch == self.leader_epoch
            and sent.truncation_count == self.log.truncation_count
            and sent.fetch_offset == fetch_offset_of(self.log)
        )
