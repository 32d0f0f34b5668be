"""The served tree against a real ZooKeeper: random scripts of 200 calls on both.

`make campaign-scripts` plays 500 of them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odradek.broker.settings.quorum_config import TREE_LISTENER
from tests.support.broker_process import odradek_broker
from tests.support.coordination_streams import Batch, Streams
from tests.support.ports import free_port
from tests.support.zookeeper import zookeeper

SCRIPTS = 50
CAMPAIGN = 500
CALLS = 200
BATCH = 50


def streams(address: str, scripts: int) -> Streams:
    """What one server responds to all scripts."""
    results: Streams = {}
    for first in range(0, scripts, BATCH):
        results.update(Batch(address, range(first, first + BATCH), CALLS).run())
    return results


@pytest.mark.judge
@pytest.mark.parametrize("scripts", [SCRIPTS, pytest.param(CAMPAIGN, marks=pytest.mark.slow)])
def test_served_tree_and_zookeeper_return_equal_responses_to_random_scripts(
    tmp_path: Path, scripts: int
) -> None:
    address = f"127.0.0.1:{free_port()}"
    broker = odradek_broker(tmp_path / "broker", overrides={TREE_LISTENER: address})
    (tmp_path / "broker").mkdir()
    with broker, zookeeper(tmp_path / "zookeeper") as judge, ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(streams, (address, judge), (scripts, scripts))
    calls = events = 0
    for seed in range(scripts):
        for place, (mine, other) in enumerate(zip(ours[seed], theirs[seed], strict=True)):
            assert mine == other, f"script {seed}, item {place}"
            events += mine[1] == "event"
            calls += mine[1] != "event"
    print(f"seeds 0 to {scripts - 1}: {calls} calls and {events} events alike")
    assert calls == scripts * CALLS
    assert events > scripts
