"""What is logged of partitions: why they are offline, and each change once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.decide.state_changes import (
    FoldedChanges,
    Health,
    Line,
    PartitionHealth,
    UncleanElection,
    change_lines,
    unclean_lines,
)
from odradek.controller.image.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.protocol.topic_partition import TopicPartition

MIN_ISR = 2


def state(leader: int, isr: tuple[int, ...], epoch: int = 3) -> PartitionState:
    return PartitionState(leader, epoch, isr, 0, 1)


def image(
    states: Mapping[int, PartitionState | None],
    *,
    live: tuple[int, ...] = (1, 2, 3),
    offline: dict[int, tuple[TopicPartition, ...]] | None = None,
    stopping: tuple[int, ...] = (),
) -> Image:
    partitions = {index: PartitionImage(index, (1, 2, 3), state) for index, state in states.items()}
    return Image(
        brokers={broker_id: BrokerImage(broker_id, 0, ()) for broker_id in live},
        topics={"t": TopicImage("t", UUID(int=1), partitions)} if partitions else {},
        offline_directories=offline or {},
        shutting_down=stopping,
    )


def keys(*indexes: int) -> list[TopicPartition]:
    return [TopicPartition("t", index) for index in indexes]


def health() -> PartitionHealth:
    return PartitionHealth(lambda topic: MIN_ISR)


def changes(
    reported: PartitionHealth, cluster: Image, partitions: Iterable[TopicPartition]
) -> list[Line]:
    folded: FoldedChanges = {}
    reported.fold(cluster, partitions, folded)
    return change_lines(folded)


def test_partitions_with_the_same_reason_share_a_line_that_names_the_first() -> None:
    states = {index: state(1, (1,)) for index in range(7)} | {7: state(-1, (1,))}
    lines = changes(health(), image(states, live=(1, 2)), keys(*states))
    assert lines == [
        Line(
            True, "under min.insync.replicas (1 of 2 in sync): t-0, t-1, t-2, t-3, t-4 and 2 more"
        ),
        Line(
            True,
            "offline, in-sync 1 is alive; 2 is alive and lacks records; unclean elections are off: "
            "t-7",
        ),
    ]


def test_reason_names_what_each_in_sync_replica_lacks() -> None:
    after = image(
        {0: state(-1, (1, 2, 3))}, live=(2, 3), offline={2: tuple(keys(0))}, stopping=(3,)
    )
    (line,) = changes(health(), after, keys(0))
    assert line.text == (
        "offline, no replica is alive (in-sync 1 is dead; in-sync 2 has no working log directory "
        "for it; in-sync 3 is stopping): t-0"
    )


def test_partition_of_a_leader_that_is_stopping_is_not_offline() -> None:
    assert changes(health(), image({0: state(1, (1, 2))}, stopping=(1,)), keys(0)) == []


def test_new_partition_without_a_leader_and_a_deleted_one_are_not_reported() -> None:
    reported = health()
    assert changes(reported, image({0: None}), keys(0, 1)) == []
    assert len(changes(reported, image({0: state(-1, (1,))}), keys(0))) == 1
    assert reported.count(Health.OFFLINE) == 1
    reported.forget_missing(image({}))
    assert reported.count(Health.OFFLINE) == 0
    assert changes(reported, image({}), keys(0)) == []


def test_unclean_elections_of_a_leader_share_a_line() -> None:
    elections = [
        UncleanElection(key, state(-1, (1,), 7), state(2, (2,), 8)) for key in keys(*range(6))
    ]
    (line,) = unclean_lines(elections)
    assert line.is_warning
    assert line.text == (
        "unclean election of broker 2, in place of in-sync 1; records that were acknowledged may "
        "be given up: t-0 (leader epoch 7 to 8), t-1 (leader epoch 7 to 8), "
        "t-2 (leader epoch 7 to 8), t-3 (leader epoch 7 to 8), t-4 (leader epoch 7 to 8) "
        "and 1 more"
    )


ISRS = st.sampled_from([(1,), (1, 2), (1, 2, 3), (2,), (3, 2)])


@given(st.lists(st.tuples(st.integers(0, 3), ISRS, st.booleans()), max_size=60))
def test_each_change_is_reported_once_and_what_is_in_order_again_too(
    steps: list[tuple[int, tuple[int, ...], bool]],
) -> None:
    """Against a model: after each line the operator believes what is so."""
    reported = health()
    states: dict[int, PartitionState | None] = {index: state(1, (1, 2, 3)) for index in range(4)}
    believed = dict.fromkeys(range(4), Health.IN_ORDER)
    for index, isr, has_leader in steps:
        states[index] = state(isr[0] if has_leader else -1, isr)
        lines = changes(reported, image(states), keys(index))
        actual = Health.IN_ORDER if len(isr) >= MIN_ISR else Health.UNDER_MIN_ISR
        if not has_leader:
            actual = Health.OFFLINE
        if actual is believed[index]:
            assert all(line.is_warning for line in lines), "only a reason may be another one"
        else:
            (line,) = lines
            assert line.is_warning is (actual is not Health.IN_ORDER)
            assert line.text.endswith(f": t-{index}")
        believed[index] = actual
        assert changes(reported, image(states), keys(index)) == []
        for kind in (Health.OFFLINE, Health.UNDER_MIN_ISR):
            assert reported.count(kind) == list(believed.values()).count(kind)
