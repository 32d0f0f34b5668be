"""Bugs that the simulator must find: each is a patch, most of them are bugs that Kafka once had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from odradek.broker.handlers import produce
from odradek.broker.replication.follower import fetcher_state, followed_log
from odradek.broker.replication.follower.followed_log import FollowedLog
from odradek.broker.replication.follower.partition_fetch_state import PartitionFetchState
from odradek.broker.replication.leader import InSyncState, PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.controller.controller import Controller
from odradek.controller.coordination.session import SessionEvent, SessionState
from odradek.controller.coordination.zookeeper import ZooKeeperSession
from odradek.storage.checkpoints.leader_epochs import UNDEFINED_EPOCH, LeaderEpochFileCache
from odradek.storage.directories.disk_jobs import FinishTruncation
from odradek.storage.log import appending, head
from odradek.storage.log.log import Log
from odradek.storage.producers.producer_state import ProducerStates

RARE: Final = ("truncation_to_the_leaders_end_of_another_epoch", "watches_are_not_set_again")
"""They take a hundred seeds and more: `make test` leaves them out."""
BUGS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {}
Bug = Callable[[pytest.MonkeyPatch], None]


def bug(function: Bug) -> Bug:
    """Register a bug under the name of its function."""
    BUGS[function.__name__] = function
    return function


@bug
def truncation_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: what Kafka once did when a broker became a follower."""
    first = followed_log.first_truncation_offset

    def truncating(log: FollowedLog) -> int | None:
        offset = first(log)
        is_longer = log.end_offset > log.high_watermark
        return log.high_watermark if offset is None and is_longer else offset

    patch.setattr(fetcher_state, "first_truncation_offset", truncating)


@bug
def fetch_without_the_last_epoch(patch: pytest.MonkeyPatch) -> None:
    """KIP-320: a follower that never looks for a divergence."""
    requested = PartitionFetchState.requested
    patch.setattr(
        PartitionFetchState,
        "requested",
        lambda self: requested(self)._replace(last_fetched_epoch=UNDEFINED_EPOCH),
    )


@bug
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


@bug
def truncation_to_the_leaders_end_of_another_epoch(patch: pytest.MonkeyPatch) -> None:
    """KIP-279: the leader's end offset alone, whatever epochs the follower has."""
    patch.setattr(
        fetcher_state,
        "truncation_offset",
        lambda log, epoch, end_offset: min(end_offset, log.end_offset),
    )


@bug
def high_watermark_of_one_follower(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13091: in-sync replicas that the high watermark does not wait for."""

    def first(self: PartitionLeader, end_offset: int, **others: Any) -> int:
        ends = [one.log_end_offset for one in self.followers.values()]
        return min(end_offset, max(ends))

    patch.setattr(PartitionLeader, "replicated_end", first)


@bug
def acknowledgement_at_the_append(patch: pytest.MonkeyPatch) -> None:
    """acks=all is served as acks=1."""
    patch.setattr(produce, "_is_stored", lambda partition, last_offset, acks: True)


@bug
def read_up_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-9196: consumers get what is not committed."""
    patch.setattr(Partition, "fetch_end", lambda self, *, read_committed: self.log.end_offset)


@bug
def epoch_of_a_new_leader_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7415: the epochs of a log do not begin with a leadership."""
    patch.setattr(Log, "assign_epoch", lambda self, leader_epoch, start_offset: None)


@bug
def epochs_are_not_cut_with_the_log(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-10706."""
    patch.setattr(LeaderEpochFileCache, "truncate_from_end", lambda self, end_offset: None)


@bug
def watches_are_not_set_again(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13461: after a lost connection changes are not seen any more."""
    patch.setattr(ZooKeeperSession, "_watch_calls", lambda self: [])


@bug
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


@bug
def producers_are_not_cut_with_the_log(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-5829: after a truncation the state of producers is not that of the log."""
    run = FinishTruncation.run

    def without_producers(self: FinishTruncation, files: Any) -> None:
        run(replace(self, truncation=replace(self.truncation, rebuild=None)), files)

    patch.setattr(FinishTruncation, "run", without_producers)


@bug
def follower_takes_its_end_for_committed(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-14704: a diverging end of the log becomes visible before it is truncated."""
    apply_state = Partition.apply_state

    def exposing(self: Partition, state: Any, leader: PartitionLeader | None) -> None:
        apply_state(self, state, leader)
        if leader is None:
            self.log.advance_high_watermark(self.log.end_offset)

    patch.setattr(Partition, "apply_state", exposing)


@bug
def repeated_batches_are_stored(patch: pytest.MonkeyPatch) -> None:
    """No producer's batch is recognised as sent before."""
    patch.setattr(head, "check_append", lambda entry, batch, *, from_client: None)
    patch.setattr(appending, "check_append", lambda entry, batch, *, from_client: None)


@bug
def expired_sessions_are_not_replaced(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-5473: a broker whose session has expired does not register again."""
    on_event = Controller._on_event

    def deaf(self: Controller, event: SessionEvent) -> None:
        if event is not SessionState.EXPIRED:
            on_event(self, event)

    patch.setattr(Controller, "_on_event", deaf)
