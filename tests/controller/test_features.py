"""Levels of features: what may be finalized, who writes it, who reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.decide.features import FeatureUpdate, UpgradeType, decide_features
from odradek.controller.znodes.finalized_features import SUPPORTED, incompatible
from odradek.protocol.errors import BrokerError, ErrorCode
from tests.support.cluster import Cluster

NAME = "transaction.version"
OWN = {NAME: (1, 2)}
UP, SAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE


def decide(
    level: int, kind: UpgradeType = UP, *, current: int = 0, name: str = NAME
) -> tuple[dict[str, int], BrokerError | None]:
    """One update, of brokers that all support the same."""
    before = {NAME: current} if current else {}
    updates = [FeatureUpdate(name, level, kind)]
    target, results = decide_features(before, updates, own=OWN, brokers={1: OWN, 2: OWN})
    return target, results[name]


@pytest.mark.parametrize(
    ("current", "level", "kind"), [(0, 2, UP), (0, 1, UP), (1, 2, UP), (2, 1, SAFE), (2, 0, SAFE)]
)
def test_update_that_every_broker_supports_is_made(
    current: int, level: int, kind: UpgradeType
) -> None:
    target, error = decide(level, kind, current=current)
    assert error is None
    assert target == ({NAME: level} if level else {})


@pytest.mark.parametrize(
    ("current", "level", "kind", "name", "text"),
    [
        (0, 3, UP, NAME, "incompatible versions"),
        (0, 1, UP, "other", "not supported"),
        (0, 1, UP, "", "can not be empty"),
        (0, 1, UpgradeType.UNKNOWN, NAME, "unknown upgrade type"),
        (0, 0, SAFE, NAME, "non-existing"),
        (2, 0, UP, NAME, "less than 1"),
        (2, 2, UP, NAME, "to the same value"),
        (2, 1, UP, NAME, "downgradeType to SAFE"),
        (1, 2, SAFE, NAME, "can not be greater"),
    ],
)
def test_update_that_is_refused_changes_nothing_and_says_why(
    current: int, level: int, kind: UpgradeType, name: str, text: str
) -> None:
    target, error = decide(level, kind, current=current, name=name)
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    assert text in str(error)
    assert target == ({NAME: current} if current else {})


LEVELS = st.dictionaries(st.sampled_from([NAME, "a", "b"]), st.integers(1, 4))
RANGES = st.dictionaries(
    st.sampled_from([NAME, "a", "b"]), st.tuples(st.integers(1, 2), st.integers(2, 4))
)
UPDATES = st.lists(
    st.builds(
        FeatureUpdate,
        st.sampled_from([NAME, "a", "b"]),
        st.integers(-1, 5),
        st.sampled_from(UpgradeType),
    ),
    unique_by=lambda update: update.name,
)


@given(LEVELS, UPDATES, RANGES, st.lists(RANGES, max_size=3))
def test_what_an_update_finalizes_is_supported_by_every_broker(
    current: dict[str, int],
    updates: list[FeatureUpdate],
    own: dict[str, tuple[int, int]],
    others: list[dict[str, tuple[int, int]]],
) -> None:
    target, results = decide_features(current, updates, own=own, brokers=dict(enumerate(others)))
    assert set(results) == {update.name for update in updates}
    for name, level in target.items():
        if current.get(name) != level:
            for supported in (own, *others):
                rows = tuple((feature, *bounds) for feature, bounds in supported.items())
                assert not incompatible({name: level}, rows)
    for name in {*current, *target}:
        changed = current.get(name) != target.get(name)
        assert not changed or results[name] is None


def test_this_broker_supports_levels_1_and_2() -> None:
    assert not incompatible({NAME: 1}, SUPPORTED)
    assert not incompatible({NAME: 2}, SUPPORTED)
    assert incompatible({NAME: 3, "kraft.version": 1}, SUPPORTED) == {NAME: 3, "kraft.version": 1}


def test_every_broker_reads_what_the_controller_finalizes() -> None:
    cluster = Cluster()
    first, second = cluster.add(1), cluster.add(2)
    assert (first.controller.features.levels, first.controller.features.epoch) == ({}, 0)
    updates = [FeatureUpdate(NAME, 2, UP)]
    refused = second.controller.requests.update_features(
        updates, validate_only=False, requested_by="test"
    )
    with pytest.raises(BrokerError) as error:
        refused.result()
    assert error.value.code is ErrorCode.NOT_CONTROLLER
    for validate_only, epoch in ((True, 0), (False, 1)):
        done = first.controller.requests.update_features(
            updates, validate_only=validate_only, requested_by="test"
        )
        cluster.settle()
        assert done.result() == (epoch, {NAME: None})
        for node in (first, second):
            features = node.controller.features
            assert (features.level(NAME), features.epoch) == (2 if epoch else 0, epoch)
    cluster.kill(1)
    third = cluster.add(3)
    assert third.controller.features.level(NAME) == 2
    assert cluster.data("/feature") == (
        b'{"features":{"transaction.version":{"max_version_level":2}},"version":2,"status":1}'
    )


def test_broker_that_does_not_support_what_is_finalized_does_not_start() -> None:
    cluster = Cluster()
    node = cluster.add(1)
    data = b'{"features":{"newer":{"max_version_level":1}},"version":2,"status":1}'
    assert node.session is not None
    node.session.set("/feature", data).result()
    cluster.settle()
    with pytest.raises(CoordinationError, match="newer"):
        cluster.add(2)
