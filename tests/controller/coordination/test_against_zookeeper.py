"""The tree against a real ZooKeeper: the same random scripts on both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import KazooException

from tests.support.coordination_script import (
    EmbeddedActor,
    ZooKeeperActor,
    build_script,
    run_script,
)
from tests.support.zookeeper import zookeeper

STEPS = 400
ATTEMPTS = 10


@pytest.fixture(scope="session")
def zookeeper_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all scripts."""
    folder: Path = tmp_path_factory.mktemp("zookeeper")
    with zookeeper(folder) as address:
        yield address


def judged(script: Sequence[Any], address: str, folder: str) -> list[Any]:
    """The outcome of a script on ZooKeeper; repeated when a connection broke meanwhile."""
    for attempt in range(ATTEMPTS):
        judge = ZooKeeperActor(address, f"{folder}-{attempt}")
        try:
            results = run_script(script, judge)
        except KazooException:
            if not judge.was_interrupted:
                raise
        finally:
            judge.close()
        if not judge.was_interrupted:
            return results
    raise AssertionError("no script came to its end on one connection")


@pytest.mark.judge
@pytest.mark.parametrize("seed", range(8))
def test_tree_and_zookeeper_return_the_same_results_and_events(
    zookeeper_address: str, seed: int
) -> None:
    script = build_script(seed, STEPS)
    expected = judged(script, zookeeper_address, f"/script-{seed}")
    ours = EmbeddedActor()
    results = run_script(script, ours)
    for step, (mine, theirs) in enumerate(zip(results, expected, strict=True)):
        assert mine == theirs, f"step {step}"
    ours.embedded.tree.check()


@pytest.mark.parametrize("seed", range(30))
def test_tree_keeps_its_invariants_after_random_operations(seed: int) -> None:
    actor = EmbeddedActor()
    for step in build_script(1000 + seed, 150):
        actor.perform(step)
        actor.embedded.tree.check()
