"""Leader election, and AlterIsr."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.decide.elections import (
    Strategy,
    decide_election,
    decide_first_leader,
    decide_replica_offline,
    needs_leader,
)
from odradek.controller.decide.isr import AlterIsr, check_sender, decide_alter_isr
from odradek.controller.image.image import (
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition

EPOCH = 9


def image(*live: int, shutting_down: tuple[int, ...] = ()) -> Image:
    return Image(
        controller_epoch=EPOCH,
        brokers={broker_id: BrokerImage(broker_id, 100 + broker_id, ()) for broker_id in live},
        shutting_down=shutting_down,
    )


def partition(
    *replicas: int, leader: int, isr: tuple[int, ...], recovery: int = 0
) -> PartitionImage:
    state = PartitionState(leader, 4, isr, 11, 8, recovery)
    return PartitionImage(0, replicas, state)


def elected(
    cluster: Image, before: PartitionImage, strategy: Strategy, *, unclean: bool = False
) -> tuple[int, tuple[int, ...], int] | None:
    election = decide_election(cluster, "t", before, strategy, is_unclean_allowed=unclean)
    if election is None:
        return None
    state = election.state
    assert state.leader_epoch == 5
    assert state.partition_epoch == 11
    assert state.controller_epoch == EPOCH
    return state.leader, state.isr, state.leader_recovery_state


def test_first_leader_is_the_first_live_replica() -> None:
    election = decide_first_leader(image(2, 3), "t", PartitionImage(0, (1, 3, 2)))
    assert election is not None
    assert election.state == PartitionState(3, 0, (3, 2), 0, EPOCH)
    assert election.recipients == (3, 2)
    assert decide_first_leader(image(2, 3), "t", PartitionImage(0, (1,))) is None


def test_offline_election_takes_the_first_live_in_sync_replica() -> None:
    before = partition(1, 2, 3, leader=1, isr=(3, 1, 2))
    assert elected(image(2, 3), before, Strategy.OFFLINE) == (2, (3, 2), RECOVERED)


def test_offline_election_keeps_the_recovery_state() -> None:
    before = partition(1, 2, leader=NO_LEADER, isr=(2,), recovery=RECOVERING)
    assert elected(image(2), before, Strategy.OFFLINE) == (2, (2,), RECOVERING)


def test_offline_election_without_live_in_sync_replica_needs_unclean() -> None:
    before = partition(1, 2, 3, leader=NO_LEADER, isr=(1,))
    assert elected(image(2, 3), before, Strategy.OFFLINE) is None
    assert elected(image(2, 3), before, Strategy.OFFLINE, unclean=True) == (2, (2,), RECOVERING)
    assert elected(image(7), before, Strategy.OFFLINE, unclean=True) is None


def test_offline_election_prefers_an_in_sync_replica_when_unclean_is_allowed() -> None:
    before = partition(1, 2, 3, leader=1, isr=(3,))
    assert elected(image(2, 3), before, Strategy.OFFLINE, unclean=True) == (3, (3,), RECOVERED)


def test_replica_on_a_failed_directory_is_not_live() -> None:
    cluster = image(1, 2)._replace(offline_directories={1: (TopicPartition("t", 0),)})
    before = partition(1, 2, leader=1, isr=(1, 2))
    assert needs_leader(cluster, "t", before)
    assert elected(cluster, before, Strategy.OFFLINE) == (2, (2,), RECOVERED)


def test_preferred_election_takes_the_first_replica_or_none() -> None:
    assert elected(image(1, 2), partition(1, 2, leader=2, isr=(2, 1)), Strategy.PREFERRED) == (
        1,
        (2, 1),
        RECOVERED,
    )
    assert elected(image(2), partition(1, 2, leader=2, isr=(2, 1)), Strategy.PREFERRED) is None
    assert elected(image(1, 2), partition(1, 2, leader=2, isr=(2,)), Strategy.PREFERRED) is None


def test_reassign_election_takes_a_target_replica_and_keeps_the_isr() -> None:
    before = partition(3, 1, 2, leader=1, isr=(1, 2, 3))._replace(removing=(1, 2), adding=(3,))
    assert elected(image(1, 2, 3), before, Strategy.REASSIGN) == (3, (1, 2, 3), RECOVERED)
    assert elected(image(1, 2), before, Strategy.REASSIGN) is None


def test_controlled_shutdown_election_takes_another_in_sync_replica() -> None:
    cluster = image(1, 2, 3, shutting_down=(1,))
    before = partition(1, 2, 3, leader=1, isr=(1, 3))
    assert elected(cluster, before, Strategy.CONTROLLED_SHUTDOWN) == (3, (3,), RECOVERED)
    alone = partition(1, 2, leader=1, isr=(1,))
    assert elected(cluster, alone, Strategy.CONTROLLED_SHUTDOWN) is None


def test_controlled_shutdown_election_sends_leader_and_isr_to_the_leaving_broker() -> None:
    cluster = image(1, 2, shutting_down=(1,))
    election = decide_election(
        cluster, "t", partition(1, 2, leader=1, isr=(1, 2)), Strategy.CONTROLLED_SHUTDOWN
    )
    assert election is not None
    assert election.recipients == (1, 2)


@pytest.mark.parametrize(
    ("leader", "isr", "offline", "expected"),
    [(1, (1, 2), 1, (NO_LEADER, (2,))), (1, (1, 2), 2, (1, (1,))), (1, (1,), 1, (NO_LEADER, (1,)))],
)
def test_offline_replica_leaves_the_isr_unless_it_is_the_last_one(
    leader: int, isr: tuple[int, ...], offline: int, expected: tuple[int, tuple[int, ...]]
) -> None:
    state = PartitionState(leader, 4, isr, 11, 8)
    after = decide_replica_offline(image(), state, offline)
    assert (after.leader, after.isr) == expected
    assert (after.leader_epoch, after.controller_epoch) == (5, EPOCH)


def test_offline_replica_that_was_not_in_sync_changes_nothing() -> None:
    state = PartitionState(1, 4, (1,), 11, 8)
    assert decide_replica_offline(image(), state, 2) is state


brokers = st.lists(st.integers(1, 5), unique=True, min_size=1).map(tuple)


@given(replicas=brokers, isr=brokers, live=brokers, leaving=brokers, unclean=st.booleans())
def test_elected_leader_is_live_assigned_and_in_sync(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    live: tuple[int, ...],
    leaving: tuple[int, ...],
    unclean: bool,
) -> None:
    cluster = image(*live, shutting_down=leaving[:1])
    isr = tuple(replica for replica in isr if replica in replicas) or replicas[:1]
    before = partition(*replicas, leader=isr[0], isr=isr)
    for strategy in Strategy:
        election = decide_election(cluster, "t", before, strategy, is_unclean_allowed=unclean)
        if election is None:
            continue
        state = election.state
        assert state.leader in state.isr
        assert state.leader in replicas
        assert cluster.is_live(state.leader)
        is_clean = state.leader in isr
        assert is_clean or (unclean and strategy is Strategy.OFFLINE)
        assert (state.leader_recovery_state == RECOVERING) == (not is_clean)
        if not is_clean:
            assert not any(cluster.is_live(member) for member in isr)


STATE = PartitionState(1, 4, (1, 2), 11, 8)


def alter(
    proposal: AlterIsr, state: PartitionState = STATE, live: tuple[int, ...] = (1, 2, 3)
) -> PartitionState | ErrorCode:
    before = PartitionImage(0, (1, 2, 3), state)
    try:
        return decide_alter_isr(image(*live), before, 1, proposal)
    except BrokerError as refusal:
        return refusal.code


def test_alter_isr_of_the_leader_is_accepted() -> None:
    after = alter(AlterIsr(0, 4, (1, 2, 3), 11))
    assert after == STATE._replace(isr=(1, 2, 3), controller_epoch=EPOCH)


def test_alter_isr_with_the_same_isr_returns_the_known_state() -> None:
    assert alter(AlterIsr(0, 4, (2, 1), 3)) is STATE


@pytest.mark.parametrize(
    ("proposal", "code"),
    [
        (AlterIsr(0, 4, (1,), 12), ErrorCode.NOT_CONTROLLER),
        (AlterIsr(0, 5, (1,), 11), ErrorCode.NOT_CONTROLLER),
        (AlterIsr(0, 3, (1, 2), 11), ErrorCode.FENCED_LEADER_EPOCH),
        (AlterIsr(0, 4, (1,), 10), ErrorCode.INVALID_UPDATE_VERSION),
        (AlterIsr(0, 4, (1,), 11, RECOVERING), ErrorCode.INVALID_REQUEST),
        (AlterIsr(0, 4, (1, 2, 5), 11), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_alter_isr_that_is_refused_raises_its_error(proposal: AlterIsr, code: ErrorCode) -> None:
    assert alter(proposal) is code


def test_alter_isr_of_a_recovering_partition_allows_the_leader_only() -> None:
    recovering = PartitionState(1, 4, (1,), 11, 8, RECOVERING)
    proposal = AlterIsr(0, 4, (1, 2), 11, RECOVERING)
    assert alter(proposal, recovering) is ErrorCode.INVALID_REQUEST
    done = alter(AlterIsr(0, 4, (1,), 11), recovering)
    assert done == recovering._replace(leader_recovery_state=RECOVERED, controller_epoch=EPOCH)


def test_alter_isr_of_a_partition_without_state_is_unknown() -> None:
    with pytest.raises(BrokerError) as refusal:
        decide_alter_isr(image(1), PartitionImage(0, (1,)), 1, AlterIsr(0, 4, (1,), 11))
    assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_alter_isr_of_an_unregistered_broker_raises_stale_broker_epoch() -> None:
    check_sender(image(1), 1, 101)
    for broker_id, epoch in ((1, 100), (1, -1), (2, 102)):
        with pytest.raises(BrokerError) as refusal:
            check_sender(image(1), broker_id, epoch)
        assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_image_update_shares_what_did_not_change() -> None:
    changed = TopicImage("one", UUID(int=11), {0: PartitionImage(0, (1,), STATE)})
    two = TopicImage("two", UUID(int=12), {0: PartitionImage(0, (1,))})
    before = Image().with_topics([changed, two]).with_topic_configs({"two": {"a": "b"}})
    after = before.with_states({TopicPartition("two", 0): STATE})
    assert before.partition("two", 0) == PartitionImage(0, (1,))
    assert after.partition("two", 0) == PartitionImage(0, (1,), STATE)
    assert after.topics["one"] is changed
    assert after.topic_names[UUID(int=12)] == "two"
    assert not before.has_leaders(["one", "two"])
    assert after.has_leaders(["one", "two"])
    removed = after.with_topics(removed=["two"])
    assert UUID(int=12) not in removed.topic_names
    assert not removed.topic_config("two")
    assert not removed.has_leaders(["two"])
    assert before.topic_config("two") == {"a": "b"}
