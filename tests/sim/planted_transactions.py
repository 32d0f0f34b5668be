"""Bugs of transactions that the simulator must find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from odradek.broker.replication.leader import PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.broker.topics import OFFSETS_TOPIC
from odradek.broker.transaction import decisions, shard
from odradek.broker.transaction.marker_channels import MarkerChannels
from odradek.broker.transaction.markers import PendingMarkers
from odradek.broker.transaction.metadata import TransactionMetadata
from odradek.broker.transaction.shard import TransactionShard
from odradek.broker.transaction_markers import TransactionMarkers
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from odradek.storage.log.log import Log
from odradek.storage.producers.producer_state import ProducerStates
from tests.sim.plan import Plan
from tests.sim.planting import Bugs

TRANSACTION_BUGS: Final = Bugs()


@TRANSACTION_BUGS.add
def markers_are_not_written_after_a_failover(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over leaves a prepared transaction as it is."""
    loaded, write = TransactionShard._loaded, TransactionShard._write_markers
    is_loading = False

    def forgetting(self: TransactionShard, replay: Any) -> None:
        nonlocal is_loading
        is_loading = True
        loaded(self, replay)
        is_loading = False

    def written(self: TransactionShard, metadata: TransactionMetadata) -> None:
        if not is_loading:
            write(self, metadata)

    patch.setattr(TransactionShard, "_loaded", forgetting)
    patch.setattr(TransactionShard, "_write_markers", written)


@TRANSACTION_BUGS.add
def complete_before_all_markers_are_written(patch: pytest.MonkeyPatch) -> None:
    """A transaction is complete with its first marker."""
    marked = PendingMarkers.marked

    def all_marked(self: PendingMarkers, partitions: Iterable[TopicPartition]) -> None:
        marked(self, list(self.left) if list(partitions) else [])

    patch.setattr(PendingMarkers, "marked", all_marked)


@TRANSACTION_BUGS.add
def fenced_producers_end_transactions(patch: pytest.MonkeyPatch) -> None:
    """EndTxn of a zombie is accepted with an old epoch."""
    decide_end = decisions.decide_end

    def unfenced(metadata: Any, *, producer_epoch: int, **others: Any) -> Any:
        if metadata is not None:
            producer_epoch = metadata.current.producer_epoch
        return decide_end(metadata, producer_epoch=producer_epoch, **others)

    patch.setattr(shard, "decide_end", unfenced)


@TRANSACTION_BUGS.add
def init_producer_id_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new producer does not fence the one before it."""

    def kept(current: Any, expected: int | None) -> tuple[int, int]:
        return max(0, current.producer_epoch), -1

    patch.setattr(decisions, "_next_epochs", kept)


@TRANSACTION_BUGS.add
def new_leaders_forget_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset of a new leader does not wait for them."""
    apply_state = Partition.apply_state

    def forgetting(self: Partition, state: Any, leader: PartitionLeader | None) -> None:
        if leader is not None and self.leader is None:
            self.log.producer_states._ongoing.clear()
        apply_state(self, state, leader)

    patch.setattr(Partition, "apply_state", forgetting)


@TRANSACTION_BUGS.add
def markers_leave_out_offsets(patch: pytest.MonkeyPatch) -> None:
    """A commit does not reach the partition of the group."""
    add = MarkerChannels.add

    def without(self: MarkerChannels, pending: PendingMarkers) -> None:
        pending.marked([key for key in pending.left if key.topic == OFFSETS_TOPIC])
        add(self, pending)

    patch.setattr(MarkerChannels, "add", without)


@TRANSACTION_BUGS.add
def aborted_transactions_are_not_listed(patch: pytest.MonkeyPatch) -> None:
    """Readers of committed records get those of aborted transactions."""
    patch.setattr(Log, "aborted_within", lambda self, start_offset, records: [])


@TRANSACTION_BUGS.add
def transactions_do_not_time_out(patch: pytest.MonkeyPatch) -> None:
    """What a dead client has left open stays open."""
    patch.setattr(shard, "is_timed_out", lambda metadata, *, now_ms: False)


@TRANSACTION_BUGS.add
def markers_are_done_when_appended(patch: pytest.MonkeyPatch) -> None:
    """A marker that only the leader has counts as written."""
    append = TransactionMarkers._append

    def written(self: TransactionMarkers, topic: str, index: int, marker: Any) -> Any:
        partition = self._partitions.get(topic, index)
        if partition is None or topic == OFFSETS_TOPIC:
            return write(self, topic, index, marker)
        try:
            append(self, partition, marker)
        except Exception as error:  # noqa: BLE001 - BrokerError of a partition that is not led
            return Pending.of(getattr(error, "code", ErrorCode.KAFKA_STORAGE_ERROR))
        return Pending.of(ErrorCode.NONE)

    write = TransactionMarkers.write
    patch.setattr(TransactionMarkers, "write", written)


@TRANSACTION_BUGS.add
def outcomes_are_decided_before_they_are_replicated(patch: pytest.MonkeyPatch) -> None:
    """Markers are written at once, and the next coordinator may decide otherwise."""
    prepare = TransactionShard._prepare_end

    def early(self: TransactionShard, metadata: Any, target: Any) -> Pending[ErrorCode]:
        done = prepare(self, metadata, target)
        return Pending.of(ErrorCode.NONE) if not done.is_done else done

    patch.setattr(TransactionShard, "_prepare_end", early)


@TRANSACTION_BUGS.add
def batches_are_not_verified(patch: pytest.MonkeyPatch) -> None:
    """KIP-890: a batch that arrives after the marker opens a transaction that stays open."""
    settings = Plan.settings
    off = {"transaction.partition.verification.enable": "false"}
    patch.setattr(Plan, "settings", lambda self: settings(self) | off)


@TRANSACTION_BUGS.add
def followers_do_not_note_markers(patch: pytest.MonkeyPatch) -> None:
    """A new leader holds transactions open that have ended."""
    append_as_follower, apply = Log.append_as_follower, ProducerStates.apply
    is_following = False

    def forgetting(self: Log, *arguments: Any, **keywords: Any) -> Any:
        nonlocal is_following
        is_following = True
        try:
            return append_as_follower(self, *arguments, **keywords)
        finally:
            is_following = False

    def applied(self: ProducerStates, batch: Any, base_offset: int | None = None) -> Any:
        if is_following and batch.is_control:
            return None
        return apply(self, batch, base_offset)

    patch.setattr(Log, "append_as_follower", forgetting)
    patch.setattr(ProducerStates, "apply", applied)


@TRANSACTION_BUGS.add
def full_disks_leave_transactions_prepared(patch: pytest.MonkeyPatch) -> None:
    """A completion that a full disk refuses is not appended again: this simulator has found it."""
    patch.setattr(
        TransactionShard,
        "_is_append_repeated",
        lambda self, error: error is ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
