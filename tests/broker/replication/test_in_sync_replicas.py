"""Changes of in-sync replicas on their way to the controller, and what its responses do."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from odradek.broker.purgatory import Delayed
from odradek.broker.replication.fetch_session import FetchPartition
from odradek.broker.replication.in_sync_replicas import (
    AWAITED_STATE,
    LINES_MAX,
    NOT_MADE,
    RETRY_MS,
    Altered,
    InSyncReplicas,
)
from odradek.broker.replication.partition import Partition
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.image.image import PartitionState
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.timers import TimingWheel
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import BROKER_ID, LAG_TIME_MAX_MS, Replicas

BOTH = (BROKER_ID, 2)
ALONE = (BROKER_ID,)


class Controller:
    """The controller's end: requests wait until the test responds to them."""

    def __init__(self) -> None:
        self.requests: list[tuple[list[tuple[str, AlterIsr]], Pending[Altered]]] = []

    def alter(self, proposals: Sequence[tuple[str, AlterIsr]]) -> Pending[Altered]:
        pending: Pending[Altered] = Pending()
        self.requests.append((list(proposals), pending))
        return pending

    @property
    def last(self) -> list[tuple[str, AlterIsr]]:
        return self.requests[-1][0]

    def respond(self, *results: PartitionState | ErrorCode) -> None:
        self.requests[-1][1].resolve(list(results))

    def accept(self) -> None:
        """Make every change that was asked for last."""
        self.respond(*(accepted(proposal) for _, proposal in self.last))


def accepted(proposal: AlterIsr) -> PartitionState:
    return PartitionState(
        BROKER_ID, proposal.leader_epoch, proposal.isr, proposal.partition_epoch + 1, 1
    )


class Leading:
    """A broker that leads partitions of brokers 1 and 2."""

    def __init__(self) -> None:
        self.replicas = Replicas()
        self.clock = self.replicas.clock
        self.controller = Controller()
        self.metrics = BrokerMetrics()
        self.wheel = TimingWheel(self.clock.monotonic_ms())
        self.changes = InSyncReplicas(
            partitions=self.replicas.partitions,
            purgatory=self.replicas.purgatory,
            sender=self.controller,
            wheel=self.wheel,
            clock=self.clock,
            metrics=self.metrics,
        )

    def lead(self, in_sync: tuple[int, ...], index: int = 0) -> Partition:
        return self.replicas.lead(in_sync=in_sync, index=index, replicas=BOTH)

    def fetch(
        self, partition: Partition, offset: int, log_start: int = 0, broker_epoch: int = -1
    ) -> None:
        requested = FetchPartition(offset, 1 << 20, partition.leader_epoch, -1, log_start)
        self.changes.on_fetch(partition, 2, broker_epoch, requested)

    def wait(self, wait_ms: int) -> None:
        self.clock.advance(wait_ms)
        for callback in self.wheel.advance(self.clock.monotonic_ms()):
            callback()
        self.replicas.purgatory.run_notified()

    def fall_behind(self, partition: Partition) -> None:
        """Broker 2 does not fetch what is appended, and its time is up."""
        partition.append([batch(NOW_MS)], NOW_MS)
        self.pass_lag()

    def pass_lag(self) -> None:
        """Check as often as the node does until replica.lag.time.max.ms is over."""
        for wait_ms in (LAG_TIME_MAX_MS // 2, LAG_TIME_MAX_MS // 2 + 2):
            self.wait(wait_ms)
            self.changes.check()


def in_sync(partition: Partition) -> tuple[int, ...]:
    assert partition.leader is not None
    return partition.leader.in_sync.committed


def test_one_request_is_in_flight_and_the_next_has_all_partitions_that_waited() -> None:
    leading = Leading()
    partitions = [leading.lead(ALONE, index) for index in range(4)]
    for partition in partitions:
        leading.fetch(partition, 0)
        leading.fetch(partition, 0)
    assert [
        [proposal.partition for _, proposal in sent] for sent, _ in leading.controller.requests
    ] == [[0]]
    leading.controller.accept()
    assert [proposal.partition for _, proposal in leading.controller.last] == [1, 2, 3]
    leading.controller.accept()
    assert len(leading.controller.requests) == 2
    assert [in_sync(partition) for partition in partitions] == [BOTH] * 4
    assert leading.metrics.isr_expands == 4


def test_replicas_that_fall_behind_together_are_removed_by_one_request() -> None:
    leading = Leading()
    partitions = [leading.lead(BOTH, index) for index in range(4)]
    for partition in partitions:
        partition.append([batch(NOW_MS)], NOW_MS)
    leading.pass_lag()
    assert [len(sent) for sent, _ in leading.controller.requests] == [4]
    leading.controller.accept()
    assert [in_sync(partition) for partition in partitions] == [ALONE] * 4
    assert [partition.high_watermark for partition in partitions] == [1] * 4


def test_changes_of_many_partitions_are_logged_one_by_one_up_to_a_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leading = Leading()
    partitions = [leading.lead(BOTH, index) for index in range(LINES_MAX + 3)]
    for partition in partitions:
        partition.append([batch(NOW_MS)], NOW_MS)
    with caplog.at_level(logging.INFO, "odradek.replication"):
        leading.pass_lag()
        leading.controller.accept()
    assert len(caplog.messages) == 2 * (LINES_MAX + 1)
    assert caplog.messages[LINES_MAX] == "shrinking ISR: 3 more partitions"
    assert caplog.messages[-1] == "ISR updated: 3 more partitions"


def test_proposal_has_the_epochs_of_the_last_response() -> None:
    leading = Leading()
    partition = leading.lead(ALONE)
    leading.fetch(partition, 0)
    (first,) = leading.controller.last
    assert first == ("orders", AlterIsr(0, 1, BOTH, 1, broker_epochs={2: -1}))
    leading.controller.accept()
    leading.fall_behind(partition)
    (second,) = leading.controller.last
    assert second == ("orders", AlterIsr(0, 1, ALONE, 2))


def test_proposal_names_the_registration_in_which_a_follower_fetched() -> None:
    """KAFKA-15221: a fetch may arrive after the follower died; the controller knows its new
    registration, in which it may have less."""
    leading = Leading()
    partition = leading.lead(ALONE)
    leading.fetch(partition, 0, broker_epoch=70)
    ((_, proposal),) = leading.controller.last
    assert proposal.broker_epochs == {2: 70}
    leading.controller.respond(ErrorCode.INELIGIBLE_REPLICA)
    assert in_sync(partition) == ALONE
    leading.fetch(partition, 0, broker_epoch=80)
    ((_, proposal),) = leading.controller.last
    assert proposal.broker_epochs == {2: 80}


def test_confirmed_shrink_commits_what_waited_for_the_removed_replica() -> None:
    leading = Leading()
    partition = leading.lead(BOTH)
    leading.fetch(partition, 0)
    responses: list[int] = []
    leading.fall_behind(partition)
    delayed = Delayed(
        (partition,), 60_000, lambda: partition.high_watermark or None, lambda: "timed out"
    )
    leading.replicas.purgatory.park(delayed, leading.clock.monotonic_ms(), responses.append)
    assert partition.high_watermark == 0, "not before it is confirmed"
    assert responses == []
    leading.controller.accept()
    leading.wait(1)
    assert responses == [1]
    assert in_sync(partition) == ALONE
    assert (leading.metrics.isr_shrinks, leading.metrics.isr_expands) == (1, 0)


@pytest.mark.parametrize("code", NOT_MADE)
def test_change_that_was_not_made_is_given_up_and_may_be_tried_again(code: ErrorCode) -> None:
    leading = Leading()
    partition = leading.lead(ALONE)
    leading.fetch(partition, 0)
    leading.controller.respond(code)
    leading.wait(RETRY_MS)
    assert len(leading.controller.requests) == 1
    assert in_sync(partition) == ALONE
    leading.fetch(partition, 0)
    assert len(leading.controller.requests) == 2
    leading.controller.accept()
    assert in_sync(partition) == BOTH


@pytest.mark.parametrize("code", AWAITED_STATE)
def test_change_of_unknown_outcome_stays_in_flight_until_the_next_epoch(code: ErrorCode) -> None:
    leading = Leading()
    partition = leading.lead(ALONE)
    leading.fetch(partition, 0)
    leading.controller.respond(code)
    assert leading.metrics.failed_isr_updates == 1
    leading.wait(RETRY_MS)
    leading.fetch(partition, 0)
    partition.append([batch(NOW_MS)], NOW_MS)
    leading.pass_lag()
    assert len(leading.controller.requests) == 1
    assert partition.high_watermark == 0, "broker 2 may be in sync"
    leading.lead(ALONE)
    leading.fetch(partition, 1)
    assert len(leading.controller.requests) == 2


@pytest.mark.parametrize("failure", ["of the request", "of the partition"])
def test_failed_request_is_sent_again_after_a_pause(failure: str) -> None:
    leading = Leading()
    partition = leading.lead(ALONE)
    leading.fetch(partition, 0)
    for count in range(2, 5):
        if failure == "of the request":
            error = BrokerError(ErrorCode.STALE_BROKER_EPOCH)
            leading.controller.requests[-1][1].fail(error)
        else:
            leading.controller.respond(ErrorCode.NOT_CONTROLLER)
        leading.wait(RETRY_MS - 1)
        assert len(leading.controller.requests) == count - 1
        leading.wait(1)
        assert len(leading.controller.requests) == count
        assert leading.controller.last == leading.controller.requests[0][0]
    leading.controller.accept()
    assert in_sync(partition) == BOTH


@pytest.mark.parametrize("role", ["leader", "follower", "leader after follower"])
def test_response_after_another_leader_epoch_began_changes_nothing(role: str) -> None:
    leading = Leading()
    partition = leading.lead(BOTH)
    leading.fetch(partition, 0)
    leading.fall_behind(partition)
    assert leading.controller.last[0][1].isr == ALONE
    if role != "leader":
        leading.replicas.follow()
    if role != "follower":
        leading.lead(BOTH)
    epoch = partition.partition_epoch
    leading.controller.accept()
    assert (partition.partition_epoch, partition.high_watermark) == (epoch, 0)
    if partition.leader is not None:
        assert in_sync(partition) == BOTH
    leading.wait(RETRY_MS)
    assert len(leading.controller.requests) == 1


def test_change_that_waits_is_not_sent_after_its_leader_epoch() -> None:
    leading = Leading()
    first, second = leading.lead(ALONE, 0), leading.lead(ALONE, 1)
    leading.fetch(first, 0)
    leading.fetch(second, 0)
    leading.replicas.follow(index=1)
    leading.controller.accept()
    assert len(leading.controller.requests) == 1
    assert in_sync(first) == BOTH


@pytest.mark.parametrize("is_older_leader", [False, True])
def test_response_of_an_older_state_leaves_the_change_in_flight(is_older_leader: bool) -> None:
    leading = Leading()
    partition = leading.lead(ALONE)
    leading.fetch(partition, 0)
    state = accepted(leading.controller.last[0][1])
    older = state._replace(leader_epoch=0) if is_older_leader else state._replace(partition_epoch=0)
    leading.controller.respond(older)
    assert in_sync(partition) == ALONE
    assert partition.leader is not None
    assert partition.leader.in_sync.maximal == BOTH


def test_replica_that_stops_before_it_is_in_sync_holds_nothing_after_the_lag() -> None:
    leading = Leading()
    partition = leading.lead(ALONE)
    leading.fetch(partition, 0)
    leading.controller.respond(ErrorCode.INELIGIBLE_REPLICA)
    partition.append([batch(NOW_MS)], NOW_MS)
    assert partition.high_watermark == 0, "broker 2 had caught up"
    leading.pass_lag()
    assert partition.high_watermark == 1


def test_in_sync_replicas_that_have_everything_stay_however_long_they_are_silent() -> None:
    leading = Leading()
    partition = leading.lead(BOTH)
    partition.append([batch(NOW_MS)], NOW_MS)
    leading.fetch(partition, 1)
    assert partition.high_watermark == 1
    for _ in range(10):
        leading.pass_lag()
    assert leading.controller.requests == []


@pytest.mark.parametrize("next_ms", [LAG_TIME_MAX_MS // 2, 2 * LAG_TIME_MAX_MS])
def test_check_after_a_stall_removes_no_replica_and_the_next_one_does(next_ms: int) -> None:
    leading = Leading()
    partition = leading.lead(BOTH)
    partition.append([batch(NOW_MS)], NOW_MS)
    leading.wait(2 * LAG_TIME_MAX_MS)
    leading.changes.check()
    assert leading.controller.requests == []
    leading.wait(next_ms)
    leading.changes.check()
    ((_, proposal),) = leading.controller.last
    assert proposal.isr == ALONE
