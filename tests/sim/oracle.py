"""What must hold in a simulated cluster, after each event and in the end.

The oracle knows what no broker knows: the logs of all brokers, the state of each partition in the
coordination service, and what brokers have acknowledged to clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from odradek.broker.replication.partition import Partition
from odradek.controller.znodes.zk_data import (
    BROKER_TOPICS,
    PartitionStateZnode,
    TopicAssignmentZnode,
    partition_state_path,
)
from odradek.protocol.records.batch import CONTROL, RecordBatch
from odradek.protocol.topic_partition import TopicPartition
from odradek.storage.log.log import Log
from tests.sim.compacted_table import CompactedTable, is_same
from tests.sim.ensemble import Ensemble, decoded_assignment, decoded_state
from tests.sim.log_check import is_in_gap, wrong_log
from tests.sim.process import Process
from tests.sim.stored_batches import ProducerView, StoredBatch, stored_batch, stored_batches
from tests.sim.world import Broken, World

PATHS_MAX: Final = 1_024
MIN_IN_SYNC: Final = 2
"""min.insync.replicas of all topics."""


@lru_cache(PATHS_MAX)
def state_path(key: TopicPartition) -> str:
    """Where the coordination service has the state of a partition."""
    return partition_state_path(*key)


@dataclass
class Committed:
    """What is known of one partition."""

    batches: list[StoredBatch] = field(default_factory=list)
    """The batch of each offset: one with many records is here as often."""
    leaders: dict[int, int] = field(default_factory=dict)
    """Leader epoch -> the broker that leads in it."""
    producers: dict[int, ProducerView] = field(default_factory=dict)
    open_transactions: dict[int, int] = field(default_factory=dict)
    """Producer id -> the first offset of its transaction."""
    ended_transactions: list[tuple[int, int, int]] = field(default_factory=list)
    """First offset, offset of the marker, producer id."""
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """Offset -> value."""
    known_values: dict[bytes, None] = field(default_factory=dict)
    unlocated: list[bytes] = field(default_factory=list)
    """Acknowledged as duplicates, without an offset."""
    table: CompactedTable | None = None
    """None: the topic is not compacted."""
    read_early: dict[int, bytes] = field(default_factory=dict)
    """Offset -> batch that a consumer got of a leader at which this oracle could not look yet."""


class ReplicaView(NamedTuple):
    """What the oracle saw of a replica last."""

    life: int
    leader: Any
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    end_offset: int
    in_sync: int
    """How many replicas are in sync, as the controller has confirmed them to this leader."""


class Oracle:
    """Checks the promises of `ARCHITECTURE.md` and of Kafka's replication protocol."""

    def __init__(self, world: World, ensemble: Ensemble, *, compacts: bool = False) -> None:
        """compacts  all topics are compacted; each batch has one record then"""
        self.compacts = compacts
        self.world = world
        self._ensemble = ensemble
        ensemble.states.on_in_sync = self._on_in_sync
        self.partitions: dict[TopicPartition, Committed] = {}
        self._views: dict[tuple[int, str, int], ReplicaView] = {}
        self.processes: dict[int, Process] = {}
        self._producers: dict[int, str] = {}
        self.checks = 0
        self.on_committed: dict[str, Callable[[TopicPartition, StoredBatch], None]] = {}
        """Topic -> called with each batch that is committed, and its partition."""

    def of(self, key: TopicPartition) -> Committed:
        committed = self.partitions.get(key)
        if committed is None:
            table = CompactedTable() if self.compacts else None
            committed = self.partitions[key] = Committed(table=table)
        return committed

    def state_of(self, key: TopicPartition) -> PartitionStateZnode | None:
        """The state of a partition in the coordination service."""
        node = self._ensemble.tree.nodes.get(state_path(key))
        return None if node is None else decoded_state(node.data)

    def assignment_of(self, topic: str) -> TopicAssignmentZnode:
        """The replicas of a topic in the coordination service."""
        return decoded_assignment(self._ensemble.tree.nodes[f"{BROKER_TOPICS}/{topic}"].data)

    # What clients see.

    def on_producer_id(self, producer_id: int, name: str) -> None:
        """No producer id is given twice."""
        former = self._producers.setdefault(producer_id, name)
        if former != name:
            self.world.fail(f"producer id {producer_id} was given to {former} and to {name}")

    def on_sent(self, key: TopicPartition, value: bytes) -> None:
        self.of(key).known_values[value] = None

    def on_acknowledged(self, key: TopicPartition, value: bytes, offset: int) -> None:
        """A record is durable at its offset."""
        committed = self.of(key)
        if offset < 0:
            committed.unlocated.append(value)
            return
        former = committed.acknowledged.setdefault(offset, value)
        if former != value:
            self.world.fail(f"{key}: offset {offset} is acknowledged for {former!r} and {value!r}")
        if offset >= len(committed.batches):
            # By a leader that has died since then; what all replicas have is checked.
            if self.world.counts["power cut"] or self._is_below_unseen_high_watermark(key, offset):
                return
            self.world.fail(f"{key}: offset {offset} is acknowledged and not committed")
        if value not in committed.batches[offset].content:
            self.world.fail(
                f"{key}: offset {offset} is acknowledged for {value!r}, not that record"
            )

    def on_consumed(self, key: TopicPartition, batch: RecordBatch) -> None:
        """What a consumer reads is committed."""
        batches = self.of(key).batches
        if batch.base_offset >= len(batches):
            # A leader may have died in the turn in which it committed and sent it.
            is_seen = not self.world.counts["power cut"]
            if is_seen and not self._is_below_unseen_high_watermark(key, batch.base_offset):
                self.world.fail(f"{key}: a consumer read offset {batch.base_offset}, not committed")
            self.of(key).read_early[batch.base_offset] = bytes(batch.view)
            return
        stored = batches[batch.base_offset]
        if not is_same(stored, stored_batch(bytes(batch.view)), self.of(key).table):
            self.world.fail(f"{key}: a consumer read another record at {batch.base_offset}")

    def _is_below_unseen_high_watermark(self, key: TopicPartition, offset: int) -> bool:
        """Whether a leader whose log is being truncated, or has just failed, has it committed."""
        for process in self.processes.values():
            node = process.node
            partition = None if node is None else node.parts.partitions.get(*key)
            if partition is None or partition.leader is None:
                continue
            log = partition.log
            if (log.is_truncating or log.is_offline) and offset < log.high_watermark:
                return True
        return False

    def on_out_of_range(self, key: TopicPartition, offset: int) -> None:
        """A leader may be behind for a moment, and nothing is ever deleted."""
        if offset > len(self.of(key).batches):
            self.world.fail(f"{key}: a consumer got beyond the end, to {offset}")

    def on_end(self, key: TopicPartition, offset: int) -> None:
        """A response says that a partition ends there."""
        is_seen = offset <= len(self.of(key).batches) or self.world.counts["power cut"]
        if not is_seen and not self._is_below_unseen_high_watermark(key, offset - 1):
            self.world.fail(f"{key}: its end is {offset} for a client, that is not committed")

    # What brokers do.

    def after_turn(self, process: Process) -> bool:
        """Check the replicas of a process that have changed.

        Only what runs in a process changes its replicas, and an arrival runs nothing of the broker:
        it stays in the buffer of a socket, or in the inbox of the session with the coordination
        service.  So turns of nothing else need no check, but for truncations, whose turns are
        counted.

        returns  whether a log is being truncated
        """
        trouble = self.world.trouble
        if trouble is not None:
            cause = trouble if isinstance(trouble, BaseException) else None
            what = f"logged: {trouble}" if cause is None else f"ended by {trouble!r}"
            raise Broken(f"broker {process.broker_id} {what}") from cause
        node = process.node
        if not process.is_up or node is None or not process.is_serving:
            return False
        epoch = node.parts.metadata.image.controller_epoch
        if epoch != process.controller_epoch:
            if epoch < process.controller_epoch:
                self.world.fail(
                    f"broker {process.broker_id}: the controller epoch falls from"
                    f" {process.controller_epoch} to {epoch}"
                )
            process.controller_epoch = epoch
        is_truncating = False
        latest = process.views
        for partitions in node.parts.partitions._by_topic.values():
            for partition in partitions.values():
                log = partition.log
                head = log.head
                try:
                    _, leader, epoch, start, high_watermark, end, _ = latest[partition]
                except KeyError:
                    self._look(process, partition)
                    is_truncating = is_truncating or head.is_truncating
                    continue
                if (
                    end != head.end_offset
                    or high_watermark != log.high_watermark
                    or leader is not partition.leader
                    or epoch != partition.leader_epoch
                    or start != log.log_start_offset
                    or head.is_truncating
                ):
                    self._look(process, partition)
                    is_truncating = is_truncating or head.is_truncating
        return is_truncating

    def _look(self, process: Process, partition: Partition) -> None:
        log = partition.log
        if log.is_truncating:
            self._check_cut(process, partition)
            self._note_truncation(process)
            return
        if log.is_offline:
            return
        seen = process.views[partition] = ReplicaView(
            process.life,
            partition.leader,
            partition.leader_epoch,
            log.log_start_offset,
            log.high_watermark,
            log.head.end_offset,
            0 if partition.leader is None else len(partition.leader.in_sync.committed),
        )
        name = (process.broker_id, partition.topic, partition.index)
        before = self._views.get(name)
        if before != seen:
            self._views[name] = seen
            self.checks += 1
            self._check(process, partition, before, seen)

    def _note_truncation(self, process: Process) -> None:
        self.world.counts["truncation"] += 1
        call, process.on_truncation = process.on_truncation, None
        if call is not None:
            call()

    def _check(
        self, process: Process, partition: Partition, before: ReplicaView | None, now: ReplicaView
    ) -> None:
        key = TopicPartition(partition.topic, partition.index)
        committed = self.of(key)
        why = self._wrong_view(committed, process, partition, now)
        is_same_life = before is not None and before.life == now.life
        verified = 0
        if before is not None and is_same_life:
            why = why or self._wrong_change(before, now)
            truncated = now.end_offset < before.end_offset
            verified = 0 if truncated else before.high_watermark
        if why is not None:
            self.world.fail(f"broker {process.broker_id}, {partition.log}: {why}")
        if not is_same_life or now.end_offset < before.end_offset:  # type: ignore[union-attr]
            self.check_log(process, partition.log)
        if now.high_watermark > verified:
            self._check_committed(process, partition, verified, now.high_watermark)
        if committed.open_transactions or committed.ended_transactions:
            self._check_stable(key, process, partition.log)

    def _wrong_view(
        self, committed: Committed, process: Process, partition: Partition, now: ReplicaView
    ) -> str | None:
        """What must not be seen of a replica at any time."""
        if not now.log_start_offset <= now.high_watermark <= now.end_offset:
            return f"not start <= high watermark <= end: {now}"
        if now.leader is not None:
            leader = committed.leaders.setdefault(now.leader_epoch, process.broker_id)
            if leader != process.broker_id:
                return f"brokers {leader} and {process.broker_id} lead in {now.leader_epoch}"
            if partition.log.leader_epochs.latest_epoch != now.leader_epoch:
                return f"the leader epoch {now.leader_epoch} is not noted in the log"
        return None

    def _wrong_change(self, before: ReplicaView, now: ReplicaView) -> str | None:
        """What must not be seen of a replica after what was seen before."""
        if now.leader_epoch < before.leader_epoch:
            return f"the leader epoch falls from {before} to {now}"
        is_led = now.leader is not None and now.leader is before.leader
        if is_led and now.high_watermark < before.high_watermark:
            return f"the high watermark of a leader falls from {before} to {now}"
        if is_led and now.end_offset < before.end_offset:
            return f"the end of a leader's log falls from {before} to {now}"
        if is_led and now.high_watermark > before.high_watermark:
            required = min(MIN_IN_SYNC, 1 + len(now.leader.followers))
            if max(before.in_sync, now.in_sync) < required:
                return f"records are committed by fewer than {required} replicas: {before}, {now}"
        if now.high_watermark < before.high_watermark and now.high_watermark < now.end_offset:
            return f"the high watermark falls from {before} to {now}"
        return None

    def _check_cut(self, process: Process, partition: Partition) -> None:
        """A replica in the in-sync set never truncates below its high watermark, for any reason."""
        before, log = process.views.get(partition), partition.log
        if before is None or process.cuts.get(partition) == log.truncation_count:
            return
        process.cuts[partition] = log.truncation_count
        key = TopicPartition(partition.topic, partition.index)
        state = self.state_of(key)
        if state is None or state.leader < 0 or process.broker_id not in state.isr:
            return
        committed = len(self.of(key).batches)
        is_newest = state.leader_epoch == partition.leader_epoch
        if log.end_offset < before.high_watermark or (is_newest and log.end_offset < committed):
            self.world.fail(
                f"{key}: broker {process.broker_id}, in sync by {state}, truncates committed "
                f"records from {log.end_offset} on; before: {before}"
            )

    def _check_committed(
        self, process: Process, partition: Partition, start: int, end: int
    ) -> None:
        """The records below a high watermark are those that were committed, or become so."""
        key = TopicPartition(partition.topic, partition.index)
        committed = self.of(key)
        batches, expected = committed.batches, start
        for stored in stored_batches(process, partition.log, start):
            offset = stored.base_offset
            if offset >= end:
                break
            if offset > expected and committed.table is not None:
                hole = committed.table.wrong_hole(expected, offset)
                if hole is not None and not is_in_gap(partition.log, expected, offset):
                    self.world.fail(f"{key}: broker {process.broker_id}: {hole}")
            expected = stored.next_offset
            if offset < len(batches):
                if not is_same(batches[offset], stored, committed.table):
                    self.world.fail(
                        f"{key}: broker {process.broker_id} has another committed record at "
                        f"{offset}: {stored}, not {batches[offset]}"
                    )
                continue
            if offset != len(batches):
                self.world.fail(f"{key}: a gap before {offset} at broker {process.broker_id}")
            self._commit(key, committed, stored)
        if end > len(batches):
            self.world.fail(f"{key}: broker {process.broker_id} lacks records below {end}")
        if partition.leader is not None:
            self._check_in_sync_replicas(key, process, partition, end)

    def _commit(self, key: TopicPartition, committed: Committed, stored: StoredBatch) -> None:
        batches = committed.batches
        if batches and stored.leader_epoch < batches[-1].leader_epoch:
            self.world.fail(f"{key}: the leader epoch falls at offset {stored.base_offset}")
        if stored.producer_id >= 0:
            self._commit_of_producer(key, committed, stored)
        if committed.read_early.pop(stored.base_offset, stored.content) != stored.content:
            self.world.fail(f"{key}: a consumer read another record at {stored.base_offset}")
        if committed.table is not None and not committed.table.note(stored):
            self.world.fail(f"{key}: offset {stored.base_offset} was compacted, then committed")
        batches.extend([stored] * (stored.next_offset - stored.base_offset))
        call = self.on_committed.get(key.topic)
        if call is not None:
            call(key, stored)

    def _commit_of_producer(
        self, key: TopicPartition, committed: Committed, stored: StoredBatch
    ) -> None:
        newest = committed.producers.get(stored.producer_id, ProducerView())
        if stored.producer_epoch < newest.epoch:
            self.world.fail(
                f"{key}: epoch {stored.producer_epoch} of producer {stored.producer_id} follows "
                f"{newest.epoch} at offset {stored.base_offset}"
            )
        expected = newest.sequence + 1 if stored.producer_epoch == newest.epoch else 0
        if stored.base_sequence not in (-1, expected):
            self.world.fail(
                f"{key}: sequence {stored.base_sequence} of producer {stored.producer_id} "
                f"follows {newest} at offset {stored.base_offset}"
            )
        after = committed.producers[stored.producer_id] = newest.after(stored)
        if after.first_offset >= 0:
            committed.open_transactions[stored.producer_id] = after.first_offset
        elif newest.first_offset >= 0:
            del committed.open_transactions[stored.producer_id]
            committed.ended_transactions.append(
                (newest.first_offset, stored.base_offset, stored.producer_id)
            )

    def _check_stable(self, key: TopicPartition, process: Process, log: Log) -> None:
        """The last stable offset is the first one of the oldest transaction whose marker is not
        committed, else the high watermark.

        A replica that was loaded from a snapshot does not wait until the markers in its log are
        committed, nor does Kafka's: the outcome was committed before any marker was written.
        """
        committed, end, stable = self.of(key), log.high_watermark, log.last_stable_offset
        firsts = dict(committed.open_transactions)
        for first, marker, producer_id in committed.ended_transactions:
            if first < end <= marker:
                firsts[producer_id] = min(first, firsts.get(producer_id, first))
        expected = min([*firsts.values(), end])
        if stable == expected:
            return
        ended = {
            stored.producer_id
            for stored in stored_batches(process, log, end)
            if stored.attributes & CONTROL
        }
        unended = [first for producer_id, first in firsts.items() if producer_id not in ended]
        if not expected <= stable <= min([*unended, end]):
            self.world.fail(
                f"{log}: the last stable offset is {stable}, by its records {expected} "
                f"({committed.open_transactions}, {committed.ended_transactions[-5:]})"
            )

    def _check_in_sync_replicas(
        self, key: TopicPartition, process: Process, partition: Partition, end: int
    ) -> None:
        """What a leader has committed is on every in-sync replica."""
        assert partition.leader is not None, "it leads"
        state = self.state_of(key)
        if state is None or end == 0:
            return
        expected = self.of(key).batches[end - 1]
        followers = partition.leader.followers
        for broker_id in state.isr:
            other = self.processes[broker_id]
            if not other.is_serving or other.node is None:
                continue
            if broker_id not in followers:
                continue  # This broker, and replicas that the controller is about to remove.
            replica = other.node.parts.partitions.get(*key)
            if replica is None or replica.log.is_offline or replica.log.is_truncating:
                continue
            log = replica.log
            if log.end_offset < end:
                self.world.fail(
                    f"{key}: broker {process.broker_id} commits up to {end}, and broker "
                    f"{broker_id}, in sync by {state}, has {log.end_offset} only"
                )
            if log.leader_epochs.epoch_of(end - 1) != expected.leader_epoch:
                self.world.fail(f"{key}: broker {broker_id}, in sync, has another record {end - 1}")

    def _on_in_sync(self, key: TopicPartition, broker_id: int, state: PartitionStateZnode) -> None:
        """A replica that comes into sync has what is committed."""
        if self.world.counts["power cut"]:
            return
        process = self.processes[broker_id]
        node = process.node
        partition = (
            None if node is None or not process.is_serving else node.parts.partitions.get(*key)
        )
        if partition is None or partition.log.is_offline or partition.log.is_truncating:
            return
        end, committed = partition.log.end_offset, len(self.of(key).batches)
        if end < committed:
            self.world.fail(
                f"{key}: broker {broker_id} comes into sync by {state} with its end at {end}, "
                f"committed are {committed}"
            )

    def check_log(self, process: Process, log: Log) -> None:
        """As `log_check.wrong_log`."""
        key = TopicPartition(log.topic, log.partition)
        wrong = wrong_log(process, log, self.of(key).table)
        if log.segment_gap is not None:
            self.world.counts["gap"] += 1
        if wrong is not None:
            self.world.fail(f"broker {process.broker_id}, {log}: {wrong}")

    # In the end.

    def unlevel(self, key: TopicPartition) -> str | None:
        """Why the replicas of a partition do not agree yet."""
        state = self.state_of(key)
        if state is None or state.leader < 0:
            return f"{key} has no leader: {state}"
        if sorted(state.isr) != sorted(self.processes):
            return f"{key}: not all replicas are in sync: {state}"
        ends = set()
        for process in self.processes.values():
            node = process.node
            partition = None if node is None else node.parts.partitions.get(*key)
            if partition is None or not process.is_serving:
                return f"{key}: broker {process.broker_id} does not serve it"
            log = partition.log
            ends.add((log.end_offset, log.high_watermark, log.last_stable_offset))
            if partition.leader_epoch != state.leader_epoch:
                return f"{key}: broker {process.broker_id} is in another leader epoch than {state}"
        if len(ends) != 1 or len(set(next(iter(ends)))) != 1:
            return f"{key}: (end, high watermark, last stable offset) of the replicas are {ends}"
        return None

    def check_end(self, key: TopicPartition) -> None:
        """All replicas are equal, and have what was acknowledged."""
        history = self.of(key)
        committed = [
            batch for offset, batch in enumerate(history.batches) if batch.base_offset == offset
        ]
        for process in self.processes.values():
            assert process.node is not None
            log = process.node.parts.partitions.held(*key).log
            self.check_log(process, log)
            if history.table is None and stored_batches(process, log, 0) != committed:
                self.world.fail(f"{key}: broker {process.broker_id} differs from what is committed")
        for offset, value in history.acknowledged.items():
            if offset >= len(history.batches) or value not in history.batches[offset].content:
                self.world.fail(f"{key}: {value!r}, acknowledged at {offset}, is lost")
        if history.read_early:
            self.world.fail(f"{key}: a consumer read {history.read_early}, never committed")
        stored = [batch.content[-24:] for batch in history.batches]
        for value in history.unlocated:
            if not any(value in content for content in stored):
                self.world.fail(f"{key}: {value!r}, acknowledged as a duplicate, is lost")
