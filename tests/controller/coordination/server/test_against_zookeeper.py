"""The served tree against a real ZooKeeper: 500 random scripts of 200 calls on both."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odradek.broker.node.tree_listener import SETTING
from tests.support.broker_process import odradek_broker
from tests.support.coordination_streams import Batch, Streams
from tests.support.processes import free_port
from tests.support.zookeeper import zookeeper

SCRIPTS = 500
CALLS = 200
BATCH = 50


def streams(address: str) -> Streams:
    """What one server answers to all scripts."""
    found: Streams = {}
    for first in range(0, SCRIPTS, BATCH):
        found.update(Batch(address, range(first, first + BATCH), CALLS).run())
    return found


@pytest.mark.judge
def test_served_tree_and_zookeeper_answer_random_scripts_alike(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    broker = odradek_broker(tmp_path / "broker", overrides={SETTING: address})
    (tmp_path / "broker").mkdir()
    with broker, zookeeper(tmp_path / "zookeeper") as judge, ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(streams, (address, judge))
    calls = events = 0
    for seed in range(SCRIPTS):
        for place, (mine, other) in enumerate(zip(ours[seed], theirs[seed], strict=True)):
            assert mine == other, f"script {seed}, item {place}"
            events += mine[1] == "event"
            calls += mine[1] != "event"
    print(f"seeds 0 to {SCRIPTS - 1}: {calls} calls and {events} events alike")
    assert calls == SCRIPTS * CALLS
    assert events > SCRIPTS
