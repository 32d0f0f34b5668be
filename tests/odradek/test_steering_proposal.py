"""Properties of what `odradek rebalance` and `odradek drain` propose."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.errors import ToolError
from odradek.tools.steering import proposal as proposal_module
from odradek.tools.steering.cluster_model import (
    ClusterModel,
    Load,
    ModelBroker,
    ModelPartition,
    PlacementAction,
    ReplicaPlacement,
    loads_of,
    spread,
)
from odradek.tools.steering.goals import HARD_GOALS, SOFT_GOALS
from odradek.tools.steering.plan_render import MoveProgress, duration_text, plan_lines
from odradek.tools.steering.proposal import copies, propose, propose_drain

FULL_DISK_BYTES = 500
"""Less than what some clusters store."""


@st.composite
def models(draw: st.DrawFn) -> ClusterModel:
    """Up to 6 brokers in up to 3 racks or none, up to 40 partitions of 4 topics."""
    racks = draw(st.sampled_from([None, 1, 2, 3]))
    brokers = draw(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True))
    disk_bytes = draw(st.sampled_from([-1, FULL_DISK_BYTES, 10**9]))
    rows = []
    for index in range(draw(st.integers(1, 40))):
        factor = draw(st.integers(1, min(3, len(brokers))))
        replicas = tuple(draw(st.permutations(brokers))[:factor])
        rows.append(
            ModelPartition(
                TopicPartition(f"topic-{draw(st.integers(0, 3))}", index),
                replicas,
                draw(st.sampled_from([*replicas, -1])),
                draw(st.sampled_from([0, 1, 7, 50])),
                draw(st.sampled_from([0.0, 1.0, 2.5])),
                draw(st.integers(0, 5)) == 0,
            )
        )
    return ClusterModel(
        tuple(
            ModelBroker(node_id, None if racks is None else f"r{number % racks}", disk_bytes)
            for number, node_id in enumerate(brokers)
        ),
        tuple(rows),
    )


def rack_misses(model: ClusterModel) -> int:
    """Replicas that share a rack although another one has fewer of the partition."""
    racks = {broker.node_id: broker.rack or f"broker {broker.node_id}" for broker in model.brokers}
    allowed_racks = len(set(racks.values()))
    misses = 0
    for row in model.partitions:
        places = [racks[node_id] for node_id in row.replicas]
        allowed = -(-len(places) // allowed_racks)
        misses += sum(max(0, places.count(rack) - allowed) for rack in set(places))
    return misses


@settings(deadline=None, max_examples=40)
@given(models(), st.lists(st.sampled_from([*SOFT_GOALS]), unique=True))
def test_proposal_keeps_replicas_and_is_never_worse(model: ClusterModel, goals: list[str]) -> None:
    proposal = propose(model, goals)
    after = model.with_targets(proposal.targets)
    ids = {broker.node_id for broker in model.brokers}
    for row, moved in zip(model.partitions, after.partitions, strict=True):
        assert len(set(moved.replicas)) == len(moved.replicas) == len(row.replicas)
        assert set(moved.replicas) <= ids
        assert not (row.is_excluded and moved != row)
    assert rack_misses(after) <= rack_misses(model)
    rounded = [round(before - then, 6) for before, then in zip(*proposal[1:], strict=True)]
    assert next((gain for gain in rounded if gain), 0) >= 0, proposal
    for before, then in zip(proposal.excess_before[:3], proposal.excess_after[:3], strict=True):
        assert then <= before + 1e-6
    assert propose(model, goals) == proposal
    assert list(plan_lines(model, proposal))


@settings(deadline=None, max_examples=40)
@given(models())
def test_added_broker_is_the_only_one_that_gets_replicas(model: ClusterModel) -> None:
    balanced = model
    for _ in range(3):
        balanced = balanced.with_targets(propose(balanced).targets)
    empty = [
        broker
        for broker in balanced.brokers
        if all(broker.node_id not in row.replicas for row in balanced.partitions)
    ]
    if empty or copies(balanced, propose(balanced)):
        return
    grown = balanced._replace(brokers=(*balanced.brokers, ModelBroker(100, "r0", 10**9)))
    proposal = propose(grown)
    assert {node_id for added in copies(grown, proposal).values() for node_id in added} <= {100}


@settings(deadline=None, max_examples=40)
@given(models(), st.data())
def test_drained_broker_has_nothing_and_the_others_keep_theirs(
    model: ClusterModel, data: st.DataObject
) -> None:
    leaving = data.draw(st.sampled_from([broker.node_id for broker in model.brokers]))
    few = len(model.brokers) - 1
    is_small = any(len(row.replicas) > few and leaving in row.replicas for row in model.partitions)
    may_be_full = model.brokers[0].disk_bytes == FULL_DISK_BYTES
    if is_small or may_be_full:
        with suppress(ToolError) if may_be_full else pytest.raises(ToolError):
            propose_drain(model, [leaving])
        return
    proposal = propose_drain(model, [leaving])
    after = model.with_targets(proposal.targets)
    for row, moved in zip(model.partitions, after.partitions, strict=True):
        assert leaving not in moved.replicas
        assert len(set(moved.replicas)) == len(row.replicas)
        assert set(row.replicas) - {leaving} <= set(moved.replicas)


def skewed(brokers: int, partitions: int) -> ClusterModel:
    """Broker 0 leads everything, and the last broker has nothing."""
    rows = [
        ModelPartition(
            TopicPartition(f"topic-{index % 5}", index // 5),
            (0, 1 + index % (brokers - 2)),
            0,
            1000 + 37 * (index % 11),
            10.0 + index % 7,
        )
        for index in range(partitions)
    ]
    return ClusterModel(tuple(map(ModelBroker, range(brokers))), tuple(rows))


@pytest.mark.parametrize(("brokers", "partitions"), [(4, 60), (5, 103), (9, 400)])
def test_spread_of_a_skewed_cluster_falls_below_a_tenth(brokers: int, partitions: int) -> None:
    model = skewed(brokers, partitions)
    after = model.with_targets(propose(model).targets)
    assert spread(loads_of(model), Load.REPLICAS) > 1
    for load in Load:
        assert spread(loads_of(after), load) < 0.1 + 1e-9, (load, loads_of(after))


def test_leaders_goal_copies_nothing_where_another_replica_can_lead() -> None:
    rows = tuple(
        ModelPartition(TopicPartition("orders", index), (0, 1, 2), 0) for index in range(9)
    )
    model = ClusterModel(tuple(map(ModelBroker, range(3))), rows)
    proposal = propose(model, ["leaders"])
    assert not copies(model, proposal)
    after = loads_of(model.with_targets(proposal.targets))
    assert [amounts[Load.LEADERS] for amounts in after.values()] == [3, 3, 3]


def test_drain_without_brokers_left_names_the_partition() -> None:
    with pytest.raises(ToolError, match="topic-0-0 has 2 replicas, and 1 brokers would be left"):
        propose_drain(
            ClusterModel(
                (ModelBroker(0), ModelBroker(1)),
                (ModelPartition(TopicPartition("topic-0", 0), (0, 1), 0),),
            ),
            [0],
        )


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (
            MoveProgress(1, 4, 1 << 20, 3 << 20, 2.0),
            "1 of 4 partitions done, 1.0 MiB of 3.0 MiB copied, 512.0 KiB/s, 4 s left",
        ),
        (
            MoveProgress(0, 4, 0, 10, 2.0),
            "0 of 4 partitions done, 0 B of 10 B copied, 0 B/s, unknown time left",
        ),
        (MoveProgress(4, 4, 9, 9, 1.0), "4 of 4 partitions done, 9 B of 9 B copied"),
    ],
)
def test_progress_has_rate_and_time_left(progress: MoveProgress, line: str) -> None:
    assert progress.line() == line


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.1, "1 min 0 s"), (3600, "1 h 0 min"), (61, "1 min 1 s")]
)
def test_duration_is_rounded_up(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def skewed_model(partitions: int) -> ClusterModel:
    """Twelve brokers in three racks; a few partitions have most of the bytes, so that no placement
    is even."""
    brokers = tuple(ModelBroker(node_id, f"r{node_id % 3}", 10**12) for node_id in range(12))
    rows = []
    for index in range(partitions):
        replicas = tuple((index * index + step) % 12 for step in (0, 3, 6))
        rate = 1e6 if index % 40 == 0 else float(index % 7)
        rows.append(
            ModelPartition(
                TopicPartition(f"topic-{index % 5}", index), replicas, replicas[0], index, rate
            )
        )
    return ClusterModel(brokers, tuple(rows))


def test_goal_that_cannot_be_reached_is_left_after_a_bounded_number_of_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    exchange = ReplicaPlacement.exchange

    def counted(
        self: ReplicaPlacement, index: int, other: int, source: int, destination: int
    ) -> PlacementAction:
        nonlocal looks
        looks += 1
        return exchange(self, index, other, source, destination)

    monkeypatch.setattr(ReplicaPlacement, "exchange", counted)
    model = skewed_model(60)
    propose(model)
    unbounded, looks = looks, 0
    monkeypatch.setattr(proposal_module, "LOOKS_LEAST", 500)
    monkeypatch.setattr(proposal_module, "LOOKS_OF_REPLICA", 1)
    proposal = propose(model)
    assert looks < unbounded / 2
    assert proposal.excess_after[: len(HARD_GOALS)] == (0.0,) * len(HARD_GOALS)
    assert proposal.excess_after < proposal.excess_before
    after = loads_of(model.with_targets(proposal.targets))
    assert spread(after, Load.REPLICAS) < 0.2
