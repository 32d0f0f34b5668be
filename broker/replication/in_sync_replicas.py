"""Keeps the in-sync replicas of the partitions that this broker leads: expand, shrink, commit.

A follower's fetch may add it; a timer removes those that have not caught up within
replica.lag.time.max.ms.  The controller decides: one AlterPartition is in flight, with all
partitions that were waiting for it, and one change of a partition at a time.

    response for a partition                                what happens
    its state, in this leader epoch                         committed
    INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED             not made: back to what is committed
    FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION and others  unknown: LeaderAndIsr will say
      of `AWAITED_STATE`
    another error, or one of the whole request              sent again after `RETRY_MS`

A change ends with its leader epoch: what is answered later is ignored.
Differs from Kafka: an error of one partition that is sent again waits `RETRY_MS` too; the high
watermark is looked at with each round of the timer, so that a follower which is not in sync and
stops does not hold it back until the next append.
Source: KIP-497; Kafka's AlterPartitionManager, Partition.handleAlterPartitionError and -Update.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from odradek.broker.purgatory import Purgatory, Wheel
from odradek.broker.replication.fetch_session import FetchPartition
from odradek.broker.replication.leader import InSyncState, PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.image.image import PartitionState
from odradek.protocol.errors import ErrorCode
from odradek.runtime.clock import Clock
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending

RETRY_MS: Final = 50
LINES_MAX: Final = 8
"""Partitions that are logged one by one, of those that change together."""
NOT_MADE: Final = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""The controller knows the partition epoch, and has not changed the partition."""
AWAITED_STATE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)

Altered = list[PartitionState | ErrorCode]

logger = logging.getLogger("odradek.replication")


class AlterPartitionSender(Protocol):
    """The way to the active controller."""

    def alter(self, proposals: Sequence[tuple[str, AlterIsr]]) -> Pending[Altered]:
        """Ask for other in-sync replicas: (topic, proposal) for each partition.

        returns  for each proposal the state now in force, or the error
        fails    when the whole request does; it is sent again then
        """


class InSyncChange(NamedTuple):
    """A change of one partition, which counts while the leader has the same in-sync state."""

    partition: Partition
    leader: PartitionLeader
    state: InSyncState

    def is_current(self) -> bool:
        """Whether neither LeaderAndIsr nor a response has ended the change."""
        return self.partition.leader is self.leader and self.leader.in_sync is self.state

    def proposal(self) -> tuple[str, AlterIsr]:
        """(topic, what the controller is asked for)."""
        in_sync = self.state.proposed
        assert in_sync is not None, "a change proposes something"
        partition, followers = self.partition, self.leader.followers
        # A fetch may arrive after its broker has died and registered again with a shorter log.
        broker_epochs = {
            broker_id: followers[broker_id].broker_epoch
            for broker_id in in_sync
            if broker_id in followers
        }
        return partition.topic, AlterIsr(
            partition.index,
            partition.leader_epoch,
            in_sync,
            partition.partition_epoch,
            broker_epochs=broker_epochs,
        )


class InSyncReplicas:
    """Changes the in-sync replicas of the partitions that this broker leads (AlterPartition)."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        purgatory: Purgatory,
        sender: AlterPartitionSender,
        wheel: Wheel,
        clock: Clock,
        metrics: BrokerMetrics,
    ) -> None:
        self._partitions = partitions
        self._purgatory = purgatory
        self._sender = sender
        self._wheel = wheel
        self._clock = clock
        self._metrics = metrics
        self._waiting: dict[Partition, InSyncChange] = {}
        """Not sent yet; at most one for each partition."""
        self._checked_ms = clock.monotonic_ms()
        """When the replicas were looked at last."""
        self._was_late = False
        """The last check came after a stall."""
        self._is_in_flight = False
        """A request has no response yet, or is to be sent again after a pause."""
        self._last_failure = ""
        self._lines: list[str] = []
        """To be logged when all changes of a round or of a response are made."""

    def on_fetch(
        self, partition: Partition, replica_id: int, broker_epoch: int, requested: FetchPartition
    ) -> None:
        """A follower has fetched; its log equals the leader's up to the offset it fetched from.

        broker_epoch  of the follower's registration; -1 if it does not say
        """
        leader = partition.leader
        assert leader is not None, "a follower fetches from the leader"
        follower = leader.followers[replica_id]
        former_end, former_start = follower.log_end_offset, follower.log_start_offset
        follower.on_fetch(
            requested.fetch_offset,
            requested.log_start_offset,
            leader_end_offset=partition.log.end_offset,
            broker_epoch=broker_epoch,
            now_ms=self._clock.monotonic_ms(),
        )
        if replica_id not in leader.in_sync.committed:
            expansion = leader.propose_expansion(replica_id, partition.high_watermark)
            if expansion is not None:
                self._submit(InSyncChange(partition, leader, expansion))
        has_moved = former_end != follower.log_end_offset and partition.update_high_watermark()
        if has_moved or former_start != follower.log_start_offset:
            self._purgatory.notify(partition)

    def check(self) -> None:
        """Remove the replicas that lag behind; every half of replica.lag.time.max.ms.

        The first check after a stall removes none: followers whose fetches were parked meanwhile
        could not fetch again.  Differs from Kafka: it removes them.
        """
        now_ms = self._clock.monotonic_ms()
        since_ms = now_ms - self._checked_ms
        self._checked_ms = now_ms
        was_late, self._was_late = self._was_late, False
        for partition in self._partitions.all():
            leader = partition.leader
            if leader is None or not leader.followers or partition.log.is_offline:
                continue
            if since_ms > leader.rules.lag_time_max_ms * 3 // 4 and not was_late:
                self._was_late = True
            else:
                self._shrink(partition, leader)
            if partition.update_high_watermark():
                self._purgatory.notify(partition)
        self._log("shrinking ISR")
        if not self._is_in_flight:
            self._send()

    def _shrink(self, partition: Partition, leader: PartitionLeader) -> None:
        log = partition.log
        lagging = leader.out_of_sync(log.end_offset, self._clock.monotonic_ms())
        shrink = leader.propose_shrink(log.end_offset, self._clock.monotonic_ms())
        if shrink is None:
            return
        assert shrink.proposed is not None, "a change proposes something"
        self._lines.append(
            f"{partition.topic}-{partition.index}: shrinking ISR from "
            f"{_ids(shrink.committed)} to {_ids(shrink.proposed)}; "
            f"high watermark {log.high_watermark}, end offset {log.end_offset}; out of sync: "
            + ", ".join(_describe(leader, broker) for broker in lagging)
        )
        self._waiting[partition] = InSyncChange(partition, leader, shrink)

    def _submit(self, change: InSyncChange) -> None:
        self._waiting[change.partition] = change
        if not self._is_in_flight:
            self._send()

    def _send(self) -> None:
        """Send everything that waits and still counts."""
        waiting, self._waiting = self._waiting, {}
        changes = [change for change in waiting.values() if change.is_current()]
        self._is_in_flight = bool(changes)
        if changes:
            pending = self._sender.alter([change.proposal() for change in changes])
            pending.on_done(lambda done: self._on_response(changes, done))

    def _on_response(self, changes: Sequence[InSyncChange], done: Pending[Altered]) -> None:
        try:
            results = done.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, the request is sent again
            self._note_failure(repr(error))
            self._send_later(changes)
            return
        self._last_failure = ""
        refused = [
            change
            for change, result in zip(changes, results, strict=True)
            if change.is_current() and not self._settle(change, result)
        ]
        if self._lines:
            self._wheel.add(self._clock.monotonic_ms(), self._purgatory.run_notified)
            self._log("ISR updated")
        if refused:
            self._send_later(refused)
        else:
            self._send()

    def _send_later(self, changes: Sequence[InSyncChange]) -> None:
        for change in changes:
            self._waiting.setdefault(change.partition, change)
        self._wheel.add(self._clock.monotonic_ms() + RETRY_MS, self._send)

    def _log(self, what: str) -> None:
        """Log a line for each partition, or for all others together when a broker takes many."""
        lines, self._lines = self._lines, []
        for line in lines[:LINES_MAX]:
            logger.info("%s", line)
        if len(lines) > LINES_MAX:
            logger.info("%s: %d more partitions", what, len(lines) - LINES_MAX)

    def _note_failure(self, failure: str) -> None:
        """Log a failure once, however often the request is sent again."""
        if failure != self._last_failure:
            logger.warning("AlterPartition has failed and is sent again: %s", failure)
        self._last_failure = failure

    def _settle(self, change: InSyncChange, result: PartitionState | ErrorCode) -> bool:
        """Apply the controller's decision; False if the change is to be sent again."""
        partition, leader = change.partition, change.leader
        if isinstance(result, PartitionState):
            is_older = result.partition_epoch < partition.partition_epoch
            if result.leader_epoch != partition.leader_epoch or is_older:
                return True
            if len(change.state.maximal) > len(change.state.committed):
                self._metrics.isr_expands += 1
            else:
                self._metrics.isr_shrinks += 1
            partition.commit_in_sync(leader, result)
            self._lines.append(
                f"{partition.topic}-{partition.index}: ISR updated to {_ids(result.isr)}, "
                f"partition epoch {result.partition_epoch}"
            )
            # Requests wait for the high watermark, but the number of in-sync replicas counts too.
            self._purgatory.notify(partition)
            return True
        self._metrics.failed_isr_updates += 1
        if result in NOT_MADE:
            leader.revert()
            return True
        return result in AWAITED_STATE


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _describe(leader: PartitionLeader, broker: int) -> str:
    follower = leader.followers.get(broker)
    if follower is None:
        return f"broker {broker}"
    return f"broker {broker} (end offset {follower.log_end_offset})"
