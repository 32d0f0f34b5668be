"""Offsets in transactions: pending until the marker, and the same after the log is loaded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.group.offsets_log import OffsetsTransaction
from odradek.broker.replication.partitions import Partitions
from odradek.broker.topics import OFFSETS_TOPIC, Topics
from odradek.broker.transaction_markers import Marker, TransactionMarkers
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.producers.verification import VerificationGuard
from tests.broker.group.host import NONE, PARTITION, Host, finish

OTHER = TopicPartition("t", 1)
ONE, TWO = 1, 2
TIMEOUT_MS = 300
RETENTION_MS = 1_000
Offsets = dict[TopicPartition, OffsetAndMetadata]
Stored = dict[str, tuple[Offsets, dict[int, Offsets]]]


class TransactionalHost(Host):
    """A node that also writes markers into its partition."""

    def __init__(self, in_sync: tuple[int, ...] = (1,)) -> None:
        super().__init__(in_sync=in_sync)
        partitions = Partitions()
        partitions.add(self.partition)
        self.groups = GroupCoordinator(
            self.context,
            Topics(MetadataCache()),
            SeededRandomness(1),
            partition_count=1,
            retention_ms=RETENTION_MS,
        )
        self.markers = TransactionMarkers(
            partitions, self.groups, self.purgatory, self.clock, timeout_ms=TIMEOUT_MS
        )

    def commit_within(  # the fields of a request
        self,
        producer_id: int,
        offset: int,
        *partitions: TopicPartition,
        group: str = "g",
        epoch: int = 0,
        is_verified: bool = False,
        guard: VerificationGuard | None = None,
        member_id: str = "",
        generation: int = -1,
    ) -> Pending[ErrorCode]:
        """A TxnOffsetCommit."""
        committed = OffsetAndMetadata(offset, -1, "", self.clock.now_ms())
        return self.shard.commit_transactional_offsets(
            group,
            OffsetsTransaction(producer_id, epoch, is_verified, guard),
            member_id=member_id,
            instance_id=None,
            generation=generation,
            commits=dict.fromkeys(partitions or (PARTITION,), committed),
        )

    def end(
        self,
        producer_id: int,
        *,
        is_commit: bool = True,
        epoch: int = 0,
        coordinator_epoch: int = 0,
    ) -> Pending[ErrorCode]:
        """A marker."""
        self.groups.shards[0] = self.shard
        marker = Marker(producer_id, epoch, coordinator_epoch, is_commit)
        return self.markers.write(OFFSETS_TOPIC, 0, marker)

    def stored(self) -> Stored:
        """Committed and pending offsets of all groups."""
        return {
            name: (group.offsets.committed, group.offsets.transactional)
            for name, group in self.shard.groups.items()
        }

    def is_stable(self, group: str = "g") -> bool:
        """Whether OffsetFetch with require_stable returns an offset."""
        (result,) = self.shard.groups[group].offsets.fetch([PARTITION], require_stable=True)
        return result.error is not ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_offsets_count_after_the_commit_marker_and_not_before() -> None:
    host = TransactionalHost()
    assert host.commit_within(ONE, 5).result() is NONE
    assert not host.offsets()
    assert not host.is_stable()
    assert host.end(ONE).result() is NONE
    assert host.offsets()[PARTITION].offset == 5
    assert host.is_stable()


def test_abort_drops_the_offsets_and_a_group_that_has_no_others() -> None:
    host = TransactionalHost()
    host.commit_within(ONE, 5)
    host.commit(3, group="other").result()
    host.commit_within(ONE, 6, group="other")
    assert host.end(ONE, is_commit=False).result() is NONE
    assert "g" not in host.shard.groups
    assert host.offsets("other")[PARTITION].offset == 3


def test_marker_that_is_not_replicated_leaves_the_offsets_pending() -> None:
    host = TransactionalHost(in_sync=(1, 2))
    committed = host.commit_within(ONE, 5)
    marker = host.end(ONE)
    assert not committed.is_done
    assert not host.is_stable()
    host.wait(TIMEOUT_MS + 10)
    assert marker.result() is ErrorCode.REQUEST_TIMED_OUT
    assert not host.is_stable()


def test_commit_that_is_not_replicated_yet_is_unstable() -> None:
    host = TransactionalHost(in_sync=(1, 2))
    host.commit(3)
    host.commit(4)
    assert not host.is_stable()
    host.partition.log.advance_high_watermark(1)
    host.purgatory.notify(host.partition)
    host.wait(1)
    assert host.offsets()[PARTITION].offset == 3
    assert not host.is_stable()
    host.partition.log.advance_high_watermark(2)
    host.purgatory.notify(host.partition)
    host.wait(1)
    assert host.offsets()[PARTITION].offset == 4
    assert host.is_stable()


def test_coordinator_that_resigns_responds_to_the_marker_with_not_leader() -> None:
    host = TransactionalHost(in_sync=(1, 2))
    host.commit_within(ONE, 5)
    marker = host.end(ONE)
    host.partition.leader = None
    host.purgatory.notify(host.partition)
    host.wait(1)
    assert marker.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert host.end(ONE).result() is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_marker_while_the_groups_are_loaded_is_refused_and_counts_afterwards() -> None:
    host = TransactionalHost()
    host.commit_within(ONE, 5)
    host.shard.close()
    host.shard = host.lead()
    assert host.shard.is_loading
    assert host.end(ONE).result() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    host.wait(5)
    assert host.end(ONE).result() is NONE
    assert host.offsets()[PARTITION].offset == 5


def test_older_epoch_is_refused_and_leaves_the_pending_offset() -> None:
    host = TransactionalHost()
    host.commit_within(ONE, 5, epoch=3)
    assert host.commit_within(ONE, 6, epoch=2).result() is ErrorCode.INVALID_PRODUCER_EPOCH
    assert host.end(ONE, epoch=2).result() is ErrorCode.INVALID_PRODUCER_EPOCH
    assert host.end(ONE, epoch=3).result() is NONE
    assert host.offsets()[PARTITION].offset == 5


def test_marker_of_an_older_coordinator_is_refused() -> None:
    host = TransactionalHost()
    host.commit_within(ONE, 5)
    host.end(ONE, coordinator_epoch=4)
    host.commit_within(ONE, 6)
    fenced = host.end(ONE, coordinator_epoch=3)
    assert fenced.result() is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert not host.is_stable()


def test_commit_without_its_verification_is_refused() -> None:
    host = TransactionalHost()
    refused = host.commit_within(ONE, 5, is_verified=True)
    assert refused.result() is ErrorCode.INVALID_TXN_STATE
    guard = host.shard.begin_verification(ONE, 0)
    assert host.commit_within(ONE, 5, is_verified=True, guard=guard).result() is NONE
    assert host.shard.begin_verification(ONE, 0) is None
    assert host.commit_within(ONE, 6, is_verified=True).result() is NONE
    host.end(ONE)
    late = host.commit_within(ONE, 7, is_verified=True, guard=guard)
    assert late.result() is ErrorCode.INVALID_TXN_STATE


def test_pending_offsets_do_not_expire_and_keep_their_group() -> None:
    host = TransactionalHost()
    host.commit(3).result()
    host.commit_within(ONE, 5)
    host.wait(RETENTION_MS + 1)
    finish(host.shard.expire_offsets(RETENTION_MS))
    assert host.offsets()[PARTITION].offset == 3
    host.end(ONE, is_commit=False)
    finish(host.shard.expire_offsets(RETENTION_MS))
    assert not host.shard.groups


def test_offsets_of_a_deleted_partition_are_dropped_from_open_transactions() -> None:
    host = TransactionalHost()
    host.commit_within(ONE, 5, PARTITION, OTHER)
    host.shard.note_deleted_partition(PARTITION)
    finish(host.shard.forget_deleted())
    host.end(ONE)
    assert list(host.offsets()) == [OTHER]
    host.reload()
    assert list(host.offsets()) == [OTHER]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, NONE),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "unknown", "generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 7}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_group_with_members_takes_offsets_of_no_member_and_of_its_own(
    changes: dict[str, object], error: ErrorCode
) -> None:
    host = TransactionalHost()
    member_id = host.settle()
    generation = host.classic().generation
    own = host.commit_within(ONE, 5, member_id=member_id, generation=generation)
    assert own.result() is NONE
    older = host.commit_within(ONE, 5, member_id=member_id, generation=generation - 1)
    assert older.result() is ErrorCode.ILLEGAL_GENERATION
    assert host.commit_within(ONE, 5, **changes).result() is error  # type: ignore[arg-type]


PARTITIONS = st.sampled_from((PARTITION, OTHER))
GROUPS = st.sampled_from(("g", "h"))
PRODUCERS = st.sampled_from((ONE, TWO))
STEPS = st.one_of(
    st.tuples(st.just("commit"), GROUPS, PARTITIONS),
    st.tuples(st.just("within"), GROUPS, PARTITIONS, PRODUCERS),
    st.tuples(st.just("end"), PRODUCERS, st.booleans()),
    st.tuples(st.just("delete offset"), GROUPS, PARTITIONS),
    st.tuples(st.just("delete group"), GROUPS),
    st.tuples(st.just("deleted partition"), PARTITIONS),
)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=14))
def test_loaded_groups_equal_those_in_memory_after_any_steps(
    steps: list[tuple[object, ...]],
) -> None:
    host = TransactionalHost()
    for number, step in enumerate(steps):
        match step:
            case "commit", str(group), TopicPartition() as partition:
                host.commit(number, group=group, partitions=(partition,))
            case "within", str(group), TopicPartition() as partition, int(producer_id):
                host.commit_within(producer_id, number, partition, group=group)
            case "end", int(producer_id), bool(is_commit):
                host.end(producer_id, is_commit=is_commit)
            case "delete offset", str(group), TopicPartition() as partition:
                if group in host.shard.groups:
                    host.shard.delete_offsets(host.shard.groups[group], [partition])
            case "delete group", str(group):
                if group in host.shard.groups:
                    host.shard.delete_group(host.shard.groups[group])
            case "deleted partition", TopicPartition() as partition:
                host.shard.note_deleted_partition(partition)
                finish(host.shard.forget_deleted())
    before = host.stored()
    host.reload()
    assert host.stored() == before
    for producer_id in (ONE, TWO):
        host.end(producer_id)
    assert not any(group.offsets.transactional for group in host.shard.groups.values())
    assert host.partition.last_stable_offset == host.partition.log.end_offset
