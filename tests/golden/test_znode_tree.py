"""A broker on ZooKeeper writes the znodes that Apache Kafka writes, with the same versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scripts.znode_tree import CHROOT, GOLDEN, SETTINGS, act, read
from tests.support.broker_process import odradek_broker
from tests.support.zookeeper import zookeeper


@pytest.mark.judge
@pytest.mark.client
def test_znodes_are_those_of_apache_kafka(tmp_path: Path) -> None:
    recorded = {path: tuple(node) for path, node in json.loads(GOLDEN.read_text()).items()}
    with (
        zookeeper(tmp_path / "zookeeper") as address,
        odradek_broker(
            tmp_path / "broker", overrides={**SETTINGS, "zookeeper.connect": address + CHROOT}
        ) as broker,
    ):
        act(broker.address)
        found = read(address)
    assert found == recorded
