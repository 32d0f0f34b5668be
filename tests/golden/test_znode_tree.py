"""A broker on ZooKeeper writes the znodes that Apache Kafka writes, with the same versions.

Its registration also names the feature that it supports, which 3.9 does in KRaft mode only.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scripts.znode_tree import CHROOT, GOLDEN, SETTINGS, act, read
from tests.support.broker_process import odradek_broker
from tests.support.zookeeper import zookeeper

FEATURES = '"features":{"transaction.version":{"min_version":1,"max_version":2}}'


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
        nodes = read(address)
    registration = "/brokers/ids/3"
    *others, data = recorded[registration]
    recorded[registration] = (*others, data.replace('"features":{}', FEATURES))
    assert nodes == recorded
