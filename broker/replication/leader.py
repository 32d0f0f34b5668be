"""The leader's view of a partition: how far each other replica is, and which are in sync.

Pure.  The high watermark may rise to what the maximal in-sync replicas have; the log stores it.

    in-sync replicas     committed   maximal (for the high watermark)
    no change in flight  the same    the same
    expansion in flight  as before   with the new one: it counts at once
    shrink in flight     as before   as before: those to be removed count until it is confirmed

A change that the controller neither confirmed nor refused stays in flight until the next leader
epoch, which has a `PartitionLeader` of its own.
Source: KIP-16, KIP-497, KIP-841, KIP-903; Kafka's Partition, PartitionState, Replica, ReplicaState.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from odradek.broker.replication.follower_replica import FollowerReplica

UNDER_MIN_ISR: Final = -1


class InSyncRules(NamedTuple):
    """The limits by which another replica is in sync."""

    lag_time_max_ms: int
    """replica.lag.time.max.ms"""
    is_live: Callable[[int], bool]
    """Whether a broker is registered."""
    monotonic_ms: Callable[[], int]
    """The time of fetches and lags, which callers pass as `now_ms`."""


class InSyncState(NamedTuple):
    """The in-sync replicas, and the change that the controller was asked for."""

    committed: tuple[int, ...]
    """Replicas that the controller confirmed last."""
    maximal: tuple[int, ...]
    """Replicas that the high watermark waits for; the committed ones are among them."""
    proposed: tuple[int, ...] | None = None
    """The change in flight."""

    @classmethod
    def of(cls, in_sync: Iterable[int]) -> InSyncState:
        """No change is in flight."""
        committed = tuple(in_sync)
        return cls(committed, committed)


class PartitionLeader:
    """State of one leader epoch.

    followers           the other replicas, by broker, and what else is in sync; empty for a
                        partition of one replica
    in_sync             which replicas are in sync, this broker's among them unless an operator has
                        edited the znode
    epoch_start_offset  log end offset when the leader epoch began
    leads_since_epoch   the leader epoch since which this broker has led without a break: the log
                        was not truncated since then
    """

    __slots__ = (
        "epoch_start_offset",
        "followers",
        "in_sync",
        "leads_since_epoch",
        "replica_id",
        "rules",
    )

    def __init__(
        self,
        *,
        replica_id: int,
        leader_epoch: int,
        replicas: Iterable[int],
        in_sync: Iterable[int],
        end_offset: int,
        rules: InSyncRules,
        now_ms: int,
        previous: PartitionLeader | None = None,
    ) -> None:
        """previous  the state of the leader epoch before, when this broker led in it

        A reassignment that moves the leadership names the new replicas alone while those to be
        removed are in sync still.  One of them may be elected next, so the high watermark waits for
        them, too.  Differs from Kafka, whose new leader then commits alone.
        """
        self.replica_id = replica_id
        self.epoch_start_offset = end_offset
        self.leads_since_epoch: int = (
            leader_epoch if previous is None else previous.leads_since_epoch
        )
        self.in_sync = InSyncState.of(in_sync)
        self.rules = rules
        previous_followers = {} if previous is None else previous.followers
        self.followers: dict[int, FollowerReplica] = {}
        for broker in dict.fromkeys((*replicas, *self.in_sync.committed)):
            if broker != replica_id:
                follower = (
                    FollowerReplica()
                    if broker not in previous_followers
                    else previous_followers[broker]
                )
                is_in_sync = broker in self.in_sync.committed
                follower.begin_epoch(end_offset, now_ms if is_in_sync else None)
                self.followers[broker] = follower

    def continues(self, former: PartitionLeader | None) -> bool:
        """Whether this broker has led all the time since `former` was its state."""
        return former is not None and former.leads_since_epoch == self.leads_since_epoch

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Whether acks=all is refused: too few replicas are committed as in sync.

        min.insync.replicas counts for no more than there are replicas.
        """
        required_count = min(min_insync_replicas, 1 + len(self.followers))
        return len(self.in_sync.committed) < required_count

    def lost_min_isr(self, min_insync_replicas: int) -> bool:
        """Whether too few replicas are in sync for what was appended before; an expansion in flight
        counts."""
        return len(self.in_sync.maximal) < min(min_insync_replicas, 1 + len(self.followers))

    def replicated_end(
        self, end_offset: int, *, log_end_offset: int, min_insync_replicas: int, now_ms: int
    ) -> int:
        """Exclusive end of what may be committed, or `UNDER_MIN_ISR`.

        It waits for the maximal in-sync replicas, and for those that may soon be: live, and caught
        up within the lag.  Else a follower might never reach a high watermark that only the leader
        moves.
        end_offset  exclusive end of what this broker may commit, at most `log_end_offset`
        """
        if self.is_under_min_isr(min_insync_replicas):
            return UNDER_MIN_ISR
        rules = self.rules
        maximal = self.in_sync.maximal
        for broker, follower in self.followers.items():
            if follower.log_end_offset < end_offset and (
                broker in maximal
                or (
                    follower.is_caught_up(log_end_offset, now_ms, rules.lag_time_max_ms)
                    and rules.is_live(broker)
                )
            ):
                end_offset = follower.log_end_offset
        return end_offset

    def in_sync_end(self, end_offset: int) -> int:
        """Exclusive end of what every replica has that a clean election may choose.

        It is above the high watermark while fewer than min.insync.replicas are in sync.
        end_offset  of this broker
        """
        for broker in self.in_sync.maximal:
            follower = self.followers.get(broker)
            if follower is not None and follower.log_end_offset < end_offset:
                end_offset = follower.log_end_offset
        return end_offset

    def low_watermark(self, log_start_offset: int) -> int:
        """The lowest log start offset of the live replicas; -1 until each of them has fetched.

        log_start_offset  of this broker
        """
        for broker, follower in self.followers.items():
            if follower.log_start_offset < log_start_offset and self.rules.is_live(broker):
                log_start_offset = follower.log_start_offset
        return log_start_offset

    def propose_expansion(self, broker_id: int, high_watermark: int) -> InSyncState | None:
        """Begin to add a replica that has all that is committed; None when it may not be added.

        It must also have reached the offset where the leader epoch began: below it, records may be
        committed that this broker does not know to be.
        """
        state = self.in_sync
        if state.proposed is not None or broker_id in state.committed:
            return None
        end_offset = self.followers[broker_id].log_end_offset
        if end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if not self.rules.is_live(broker_id):
            return None
        expanded = (*state.committed, broker_id)
        self.in_sync = InSyncState(state.committed, expanded, expanded)
        return self.in_sync

    def out_of_sync(self, log_end_offset: int, now_ms: int) -> list[int]:
        """In-sync replicas that have not caught up within the lag; none while a change is in
        flight."""
        state = self.in_sync
        if state.proposed is not None or state.committed == (self.replica_id,):
            return []
        lag_max_ms = self.rules.lag_time_max_ms
        lagging_replicas = []
        for broker in state.committed:
            if broker == self.replica_id:
                continue
            follower = self.followers.get(broker)
            if follower is None or not follower.is_caught_up(log_end_offset, now_ms, lag_max_ms):
                lagging_replicas.append(broker)
        return lagging_replicas

    def propose_shrink(self, log_end_offset: int, now_ms: int) -> InSyncState | None:
        """Begin to remove the replicas that are `out_of_sync`; None when there are none."""
        lagging = self.out_of_sync(log_end_offset, now_ms)
        if not lagging:
            return None
        committed = self.in_sync.committed
        left = tuple(broker for broker in committed if broker not in lagging)
        self.in_sync = InSyncState(committed, committed, left)
        return self.in_sync

    def commit(self, in_sync: Iterable[int]) -> None:
        """The controller has confirmed these in-sync replicas; no change is in flight."""
        self.in_sync = InSyncState.of(in_sync)

    def revert(self) -> None:
        """The controller has not made the change, and no controller will."""
        self.in_sync = InSyncState.of(self.in_sync.committed)
