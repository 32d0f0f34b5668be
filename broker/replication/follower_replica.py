"""A replica on another broker, as its fetches show it to the leader.

Pure.  Times are monotonic, in milliseconds.
Source: KIP-16, KIP-903; Kafka's Replica and ReplicaState.
"""

from __future__ import annotations

from typing import Final

UNKNOWN_OFFSET: Final = -1
NO_BROKER_EPOCH: Final = -1
NEVER_MS: Final = -(1 << 62)


class FollowerReplica:
    """How far a replica is; offsets are -1 until it has fetched.

    broker_epoch                  of the broker's registration, from its fetches; -1 if unknown
    last_fetch_ms                 when it fetched last
    last_fetch_leader_end_offset  the leader's log end offset at that time
    last_caught_up_ms             the latest time at which it had all that the leader had
    """

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.broker_epoch = NO_BROKER_EPOCH
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = NEVER_MS
        self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = NEVER_MS

    def begin_epoch(self, leader_end_offset: int, in_sync_since_ms: int | None) -> None:
        """Another leader epoch of the same leader begins, or its first one.

        in_sync_since_ms  now, for an in-sync replica, which gets the whole lag to catch up; None
                          for another one, which does not hold back the high watermark
        """
        since_ms = NEVER_MS if in_sync_since_ms is None else in_sync_since_ms
        self.last_caught_up_ms = since_ms
        if self.log_end_offset != UNKNOWN_OFFSET:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = since_ms

    def on_fetch(
        self,
        fetch_offset: int,
        log_start_offset: int,
        *,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        """The replica has fetched from its log end offset, `fetch_offset`.

        leader_end_offset  the leader's log end offset before the read
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            # It has all that the leader had at its last fetch; with steady appends it may never
            # have all that the leader has now.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = max(
            leader_end_offset, self.last_fetch_leader_end_offset
        )
        self.last_fetch_ms = now_ms
        if broker_epoch != NO_BROKER_EPOCH:
            self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it has all that the leader has, or had within the lag."""
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= lag_max_ms
        )
