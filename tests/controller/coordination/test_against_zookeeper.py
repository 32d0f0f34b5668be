"""The tree answers as a real ZooKeeper does: the same random scripts on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.coordination_script import (
    EmbeddedActor,
    ZooKeeperActor,
    build_script,
    run_script,
)
from tests.support.zookeeper import zookeeper

STEPS = 400


@pytest.fixture(scope="session")
def zookeeper_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all scripts."""
    folder: Path = tmp_path_factory.mktemp("zookeeper")
    with zookeeper(folder) as address:
        yield address


@pytest.mark.judge
@pytest.mark.parametrize("seed", range(8))
def test_a_script_gives_the_same_on_the_tree_and_on_zookeeper(
    zookeeper_address: str, seed: int
) -> None:
    script = build_script(seed, STEPS)
    judge = ZooKeeperActor(zookeeper_address, f"/script-{seed}")
    try:
        expected = run_script(script, judge)
    finally:
        judge.close()
    ours = EmbeddedActor()
    found = run_script(script, ours)
    for step, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        assert mine == theirs, f"step {step}"
    ours.embedded.tree.check()


@pytest.mark.parametrize("seed", range(30))
def test_the_tree_keeps_its_invariants_whatever_is_asked(seed: int) -> None:
    actor = EmbeddedActor()
    for step in build_script(1000 + seed, 150):
        actor.perform(step)
        actor.embedded.tree.check()
