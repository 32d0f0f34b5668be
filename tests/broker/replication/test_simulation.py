"""Random histories of three brokers: nothing acknowledged is lost, and all logs become equal."""

from __future__ import annotations

import pytest

from odradek.broker.replication.follower import fetcher_state
from odradek.broker.replication.follower.fetcher_state import FetcherState, Truncate
from odradek.broker.replication.follower.partition_fetch_state import PartitionFetchState
from odradek.broker.replication.leader import PartitionLeader
from odradek.storage.checkpoints.leader_epochs import UNDEFINED_EPOCH
from odradek.storage.directories.disk_jobs import FinishTruncation
from tests.support.replication_simulation import Broken, Simulation

STEPS = 300


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_histories_with_kills_power_cuts_pauses_and_lost_messages_lose_nothing(first: int) -> None:
    acknowledged = 0
    for seed in range(first, first + 10):
        simulation = Simulation(seed)
        simulation.run(STEPS)
        acknowledged += len(simulation.acknowledged)
    assert acknowledged > 150, "the histories made progress"


@pytest.mark.parametrize("seed", [315, 540, 5253])
def test_follower_that_dropped_a_response_gets_the_high_watermark_again(seed: int) -> None:
    """The leader had sent it in the response that was dropped, and would not have repeated it."""
    Simulation(seed).run(STEPS)


def test_same_seed_repeats_the_same_history() -> None:
    histories = []
    for _ in range(2):
        simulation = Simulation(4)
        simulation.run(STEPS)
        histories.append((list(simulation.history), simulation.acknowledged))
    assert histories[0] == histories[1]


def broken_seeds(count: int) -> list[int]:
    found = []
    for seed in range(count):
        try:
            Simulation(seed).run(STEPS)
        except (Broken, AssertionError):
            found.append(seed)
            break
    return found


def test_truncation_to_the_high_watermark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-101: what Kafka once did when a broker became a follower."""
    add = FetcherState.add

    def truncating(self: FetcherState, replica: PartitionFetchState) -> Truncate | None:
        decided = add(self, replica)
        log = replica.log
        if decided is None and not log.is_truncating and log.end_offset > log.high_watermark:
            return self._truncate(replica, log.high_watermark)
        return decided

    monkeypatch.setattr(FetcherState, "add", truncating)
    assert broken_seeds(200)


def test_follower_that_never_looks_for_a_divergence_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KIP-320: a fetch without the epoch of the last record."""
    requested = PartitionFetchState.requested
    monkeypatch.setattr(
        PartitionFetchState,
        "requested",
        lambda self: requested(self)._replace(last_fetched_epoch=UNDEFINED_EPOCH),
    )
    assert broken_seeds(50)


def test_expansion_below_the_start_of_the_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-7128, together with a high watermark that does not wait for expansions."""
    propose = PartitionLeader.propose_expansion

    def early(self: PartitionLeader, broker_id: int, high_watermark: int) -> object:
        self.followers[broker_id].log_end_offset = max(
            high_watermark, self.epoch_start_offset, self.followers[broker_id].log_end_offset
        )
        return propose(self, broker_id, high_watermark)

    monkeypatch.setattr(PartitionLeader, "propose_expansion", early)
    assert broken_seeds(50)


def test_truncation_that_is_not_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut brings dropped records back below the high watermark."""
    monkeypatch.setattr(FinishTruncation, "run", lambda self, files: None)
    assert broken_seeds(250)


def test_truncation_to_the_leaders_end_of_another_epoch_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KIP-279: the leader's end offset alone, whatever epochs the follower has."""
    monkeypatch.setattr(
        fetcher_state,
        "truncation_offset",
        lambda log, epoch, end_offset: min(end_offset, log.end_offset),
    )
    assert broken_seeds(200)
