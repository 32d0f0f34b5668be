"""Bugs that the simulator must find: each is a patch, most of them are bugs that Kafka once had."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import pytest

from odradek.broker.handlers import list_offsets, produce
from odradek.broker.interbroker.controller_channel import ControllerChannel
from odradek.broker.replication.follower import fetcher_state, followed_log
from odradek.broker.replication.follower.fetcher_state import FetcherState
from odradek.broker.replication.follower.followed_log import FollowedLog
from odradek.broker.replication.follower.partition_fetch_state import PartitionFetchState
from odradek.broker.replication.in_sync_replicas import InSyncChange, InSyncReplicas
from odradek.broker.replication.leader import InSyncState, PartitionLeader
from odradek.broker.replication.leadership import Leadership
from odradek.broker.replication.partition import Partition
from odradek.controller.active import partition_states, reassignments
from odradek.controller.active.controller_requests import ControllerRequests
from odradek.controller.active.reassignments import Reassignments
from odradek.controller.controller import Controller
from odradek.controller.coordination.session import (
    ANY_VERSION,
    Check,
    SessionEvent,
    SessionState,
    SetData,
)
from odradek.controller.coordination.zookeeper import ZooKeeperSession
from odradek.controller.decide import elections
from odradek.controller.image.control_requests import LeaderAndIsrPartition, StopReplicaPartition
from odradek.controller.requests.control_request_receiver import ControlRequestReceiver
from odradek.controller.znodes import fenced_writes
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending
from odradek.storage.checkpoints.leader_epochs import UNDEFINED_EPOCH, LeaderEpochFileCache
from odradek.storage.directories.deletion import LogDeletion
from odradek.storage.directories.disk_jobs import FinishTruncation
from odradek.storage.log import appending, head
from odradek.storage.log.flush import LogFlush
from odradek.storage.log.head import Head
from odradek.storage.log.log import Log
from odradek.storage.producers import producer_state
from odradek.storage.producers.producer_state import ProducerStates
from tests.sim.plan import Plan
from tests.sim.planting import Bugs

BUGS: Final = Bugs()


@BUGS.add
def truncation_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: what Kafka once did when a broker became a follower."""
    first = followed_log.first_truncation_offset

    def truncating(log: FollowedLog) -> int | None:
        offset = first(log)
        is_longer = log.end_offset > log.high_watermark
        return log.high_watermark if offset is None and is_longer else offset

    patch.setattr(fetcher_state, "first_truncation_offset", truncating)


@BUGS.add
def high_watermark_of_the_assigned_replicas_alone(patch: pytest.MonkeyPatch) -> None:
    """Kafka's: a reassignment removes others, which are in sync still."""
    begin = PartitionLeader.__init__

    def beginning(leader: PartitionLeader, *, replicas: tuple[int, ...], **others: Any) -> None:
        begin(leader, replicas=replicas, **others)
        leader.followers = {
            broker: follower for broker, follower in leader.followers.items() if broker in replicas
        }

    patch.setattr(PartitionLeader, "__init__", beginning)


@BUGS.add
def fetch_without_the_last_epoch(patch: pytest.MonkeyPatch) -> None:
    """KIP-320: a follower that never looks for a divergence."""
    requested = PartitionFetchState.requested
    patch.setattr(
        PartitionFetchState,
        "requested",
        lambda self: requested(self)._replace(last_fetched_epoch=UNDEFINED_EPOCH),
    )


@BUGS.add
def expansion_below_the_start_of_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7128, together with a high watermark that does not wait for expansions."""
    propose = PartitionLeader.propose_expansion

    def early(self: PartitionLeader, broker_id: int, high_watermark: int) -> InSyncState | None:
        follower = self.followers[broker_id]
        follower.log_end_offset = max(
            high_watermark, self.epoch_start_offset, follower.log_end_offset
        )
        return propose(self, broker_id, high_watermark)

    patch.setattr(PartitionLeader, "propose_expansion", early)


@BUGS.add
def truncation_to_the_leaders_end_of_another_epoch(patch: pytest.MonkeyPatch) -> None:
    """KIP-279: the leader's end offset alone, whatever epochs the follower has."""
    patch.setattr(
        fetcher_state,
        "truncation_offset",
        lambda log, epoch, end_offset: min(end_offset, log.end_offset),
    )


@BUGS.add
def high_watermark_of_one_follower(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13091: in-sync replicas that the high watermark does not wait for."""

    def first(self: PartitionLeader, end_offset: int, **others: Any) -> int:
        ends = [follower.log_end_offset for follower in self.followers.values()]
        return min(end_offset, max(ends))

    patch.setattr(PartitionLeader, "replicated_end", first)


@BUGS.add
def acknowledgement_at_the_append(patch: pytest.MonkeyPatch) -> None:
    """acks=all is served as acks=1."""
    patch.setattr(produce, "_is_stored", lambda partition, last_offset, acks: True)


@BUGS.add
def read_up_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-9196: consumers get what is not committed."""
    patch.setattr(Partition, "fetch_end", lambda self, *, read_committed: self.log.end_offset)


@BUGS.add
def epoch_of_a_new_leader_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7415: the epochs of a log do not begin with a leadership."""
    become = Leadership._become_leader_or_follower

    def without_epoch(
        self: Leadership, partition: Partition, replica: LeaderAndIsrPartition
    ) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(
                LeaderEpochFileCache, "assign", lambda self, epoch, start_offset: None
            )
            become(self, partition, replica)

    patch.setattr(Leadership, "_become_leader_or_follower", without_epoch)


@BUGS.add
def epochs_are_not_cut_with_the_log(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-10706."""
    patch.setattr(LeaderEpochFileCache, "truncate_from_end", lambda self, end_offset: None)


@BUGS.add
def watches_are_not_set_again(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13461: after a lost connection changes are not seen any more."""
    patch.setattr(ZooKeeperSession, "_watch_calls", lambda self: [])


@BUGS.add
def producers_are_not_noted_by_followers(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-6003, KAFKA-12153: a new leader takes a repeated batch for a new one."""
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
        return None if is_following else apply(self, batch, base_offset)

    patch.setattr(Log, "append_as_follower", forgetting)
    patch.setattr(ProducerStates, "apply", applied)


@BUGS.add
def producers_are_not_cut_with_the_log(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-5829: after a truncation the state of producers is not that of the log."""
    run = FinishTruncation.run

    def without_producers(self: FinishTruncation, files: Any) -> None:
        run(self._replace(truncation=self.truncation._replace(rebuild=None)), files)

    patch.setattr(FinishTruncation, "run", without_producers)


@BUGS.add
def follower_takes_its_end_for_committed(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-14704: a diverging end of the log becomes visible before it is truncated."""
    apply_state = Partition.apply_state

    def exposing(self: Partition, state: Any, leader: PartitionLeader | None) -> None:
        apply_state(self, state, leader)
        if leader is None:
            self.log.advance_high_watermark(self.log.end_offset)

    patch.setattr(Partition, "apply_state", exposing)


@BUGS.add
def repeated_batches_are_stored(patch: pytest.MonkeyPatch) -> None:
    """No producer's batch is recognised as sent before."""
    patch.setattr(head, "check_append", lambda entry, batch: None)
    patch.setattr(appending, "check_append", lambda entry, batch: None)


@BUGS.add
def expired_sessions_are_not_replaced(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-5473: a broker whose session has expired does not register again."""
    on_event = Controller._on_event

    def deaf(self: Controller, event: SessionEvent) -> None:
        if event is not SessionState.EXPIRED:
            on_event(self, event)

    patch.setattr(Controller, "_on_event", deaf)


@BUGS.add
def truncation_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A power cut brings dropped records back below the high watermark."""
    patch.setattr(FinishTruncation, "run", lambda self, files: None)


@BUGS.add
def states_are_written_without_their_version(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-1382: what another controller has written meanwhile is overwritten."""
    patch.setattr(
        partition_states, "SetData", lambda path, data, version: SetData(path, data, ANY_VERSION)
    )
    patch.setattr(
        fenced_writes, "Check", lambda path, version: Check("/controller_epoch", ANY_VERSION)
    )


@BUGS.add
def requests_of_earlier_controllers_are_applied(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7235, KIP-380: control requests that arrive late, of an earlier registration too."""
    patch.setattr(ControlRequestReceiver, "_check_epochs", lambda self, request: None)


@BUGS.add
def elections_keep_the_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """Two brokers lead in one leader epoch."""
    elected = elections._elected

    def kept(image: Any, state: Any, *others: Any) -> Any:
        return elected(image, state._replace(leader_epoch=state.leader_epoch - 1), *others)

    patch.setattr(elections, "_elected", kept)


@BUGS.add
def shrink_counts_before_it_is_confirmed(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13091, the AsyncIsr specification: the controller still has the former replicas."""
    propose = PartitionLeader.propose_shrink

    def early(self: PartitionLeader, log_end_offset: int, now_ms: int) -> InSyncState | None:
        state = propose(self, log_end_offset, now_ms)
        if state is not None and state.proposed is not None:
            self.in_sync = InSyncState(state.proposed, state.proposed, state.proposed)
            return self.in_sync
        return state

    patch.setattr(PartitionLeader, "propose_shrink", early)


@BUGS.add
def any_live_replica_is_elected(patch: pytest.MonkeyPatch) -> None:
    """Unclean elections that no setting of the cluster allows."""
    settings = Plan.settings
    allowed = {"unclean.leader.election.enable": "true"}
    patch.setattr(Plan, "settings", lambda self: settings(self) | allowed)


@BUGS.add
def duplicates_are_not_recognised(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7190: a batch that is sent again is refused for ever."""
    patch.setattr(producer_state, "_find_duplicate", lambda batches, batch: None)


@BUGS.add
def new_leader_takes_its_end_for_committed(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7415, KIP-207: a new leader does not wait for its followers."""
    apply_state = Partition.apply_state

    def exposing(self: Partition, state: Any, leader: PartitionLeader | None) -> None:
        apply_state(self, state, leader)
        if leader is not None:
            self.log.advance_high_watermark(self.log.end_offset)

    patch.setattr(Partition, "apply_state", exposing)


@BUGS.add
def responses_for_another_end_of_the_log_are_appended(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13207: what a fetcher had asked for before it stopped, or before a truncation."""
    patch.setattr(PartitionFetchState, "expects", lambda self, sent: self.is_ready)


@BUGS.add
def producer_ids_are_given_twice(patch: pytest.MonkeyPatch) -> None:
    """A block of producer ids that every broker takes."""
    patch.setattr(ControllerChannel, "allocate_producer_ids", lambda self: Pending.of((0, 1_000)))


@BUGS.add
def logs_are_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-10101: the recovery point moves without a flush."""
    patch.setattr(LogFlush, "run", lambda self: None)


@BUGS.add
def refused_in_sync_replicas_are_kept(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-12686: a leader takes for granted what the controller has refused."""
    settle = InSyncReplicas._settle

    def granted(self: InSyncReplicas, change: InSyncChange, result: Any) -> bool:
        if isinstance(result, ErrorCode) and change.state.proposed is not None:
            change.leader.commit(change.state.proposed)
            return True
        return settle(self, change, result)

    patch.setattr(InSyncReplicas, "_settle", granted)


@BUGS.add
def high_watermark_falls_with_a_new_follower(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-9491: a replica that begins to follow has no high watermark, and drops its log."""
    apply_state = Partition.apply_state

    def forgetting(self: Partition, state: Any, leader: PartitionLeader | None) -> None:
        if leader is not None:
            self.log.high_watermark = self.log.log_start_offset
        apply_state(self, state, leader)

    patch.setattr(Partition, "apply_state", forgetting)


@BUGS.add
def failed_writes_are_not_undone(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-10778: after a write that failed, records follow its torn bytes."""
    patch.setattr(Head, "_undo_write", lambda self, error: self.storage_error(error))


@BUGS.add
def topics_are_unknown_while_a_controller_takes_over(patch: pytest.MonkeyPatch) -> None:
    """A leader waits for a state that never comes: this simulator has found it."""

    def name_of_topic(self: ControllerRequests, topic_id: UUID) -> str | None:
        return None if self.active is None else self.active.image.topic_names.get(topic_id)

    patch.setattr(ControllerRequests, "topic_name", name_of_topic)


@BUGS.add
def unseen_deaths_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """A replica that died and came back before a new controller looked stays in sync."""
    patch.setattr(partition_states, "decide_unseen_bounce", lambda image, state, written: state)


@BUGS.add
def deleted_topics_keep_their_folders(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13972: a broker stops a replica, and forgets that it is deleted."""
    stop = Leadership._stop_replica

    def kept(self: Leadership, replica: StopReplicaPartition, deletion: LogDeletion) -> None:
        stop(self, replica._replace(is_deleted=False), deletion)

    patch.setattr(Leadership, "_stop_replica", kept)


@BUGS.add
def reassignments_end_at_once(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-15665: the former replicas go before the new ones are in sync."""
    patch.setattr(reassignments, "is_complete", lambda image, topic, partition: True)


@BUGS.add
def reassignments_do_not_wait_for_replicas(patch: pytest.MonkeyPatch) -> None:
    """A replica comes into sync, and the reassignment that waits for it does not go on."""

    async def ignore(self: Reassignments, partitions: Any) -> None:
        return None

    patch.setattr(Reassignments, "on_isr_changed", ignore)


@BUGS.add
def last_in_sync_replica_is_removed(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-1097, KIP-966: no one can tell which replica has everything."""
    decide = elections.decide_replica_offline

    def removing(image: Any, state: Any, broker: int) -> Any:
        decided = decide(image, state, broker)
        return decided._replace(isr=()) if decided.isr == (broker,) else decided

    patch.setattr(partition_states, "decide_replica_offline", removing)


@BUGS.add
def producers_are_noted_before_a_failed_write(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-6683: a batch that a disk has refused counts as stored when it is sent again."""
    append = Head.append_plain

    def noting(self: Head, batch: Any, *others: Any) -> Any:
        result = append(self, batch, *others)
        if isinstance(result, BrokerError) and result.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self.producer_states.apply(batch, self.end_offset)
        return result

    patch.setattr(Head, "append_plain", noting)


@BUGS.add
def removed_replicas_stay_in_sync(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-9672: in-sync replicas of which the partition has no replica."""

    async def nothing(self: Reassignments, replicas: Any) -> None:
        return None

    patch.setattr(Reassignments, "_delete_replicas", nothing)


@BUGS.add
def consumers_get_nothing_of_the_newest_epoch(patch: pytest.MonkeyPatch) -> None:
    """What a leader has committed is readable only when another one leads."""
    fetch_end = Partition.fetch_end

    def former(self: Partition, *, read_committed: bool) -> int:
        end_offset = fetch_end(self, read_committed=read_committed)
        return (
            end_offset if self.leader is None else min(end_offset, self.leader.epoch_start_offset)
        )

    patch.setattr(Partition, "fetch_end", former)


@BUGS.add
def min_insync_replicas_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """KIP-966: a leader that is alone commits, and acknowledges what no one else has."""
    patch.setattr(PartitionLeader, "is_under_min_isr", lambda self, required: False)
    patch.setattr(PartitionLeader, "lost_min_isr", lambda self, required: False)


@BUGS.add
def lagging_replicas_stay_in_sync(patch: pytest.MonkeyPatch) -> None:
    """A follower that a leader does not hear of holds up every acks=all."""
    patch.setattr(PartitionLeader, "propose_shrink", lambda self, log_end_offset, now_ms: None)


@BUGS.add
def leader_epochs_of_requests_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """KIP-320: a leader that does not know of the next one responds to who does."""
    patch.setattr(Partition, "check_leader_epoch", lambda self, current_leader_epoch: None)


@BUGS.add
def new_leaders_do_not_wait_with_the_end(patch: pytest.MonkeyPatch) -> None:
    """KIP-207: the high watermark of a new leader may be lower than that of the one before."""
    look_up = list_offsets._look_up

    def early(context: Any, request: Any, topic: str, partition: Any, lookup: Any) -> Any:
        try:
            return look_up(context, request, topic, partition, lookup)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_NOT_AVAILABLE:
                raise
            log = context.services.partitions.get(topic, partition.partition_index).log
            return log.high_watermark, -1, -1

    patch.setattr(list_offsets, "_look_up", early)


@BUGS.add
def gaps_are_cut_without_asking(patch: pytest.MonkeyPatch) -> None:
    """A replica in sync takes what its leader compacted for what a power cut has taken."""

    def cutting(self: FetcherState, replica: PartitionFetchState, *others: Any) -> Any:
        gap = replica.log.segment_gap
        assert gap is not None, "a gap was looked into"
        return self._truncate(replica, gap.start_offset)

    patch.setattr(FetcherState, "_look_into_gap", cutting)


@BUGS.add
def compaction_takes_what_is_not_committed_for_later(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-1641: a record goes for a later one of its key that a truncation takes away."""
    patch.setattr(Log, "last_stable_offset", property(lambda self: self.end_offset))
