"""Data directories that earlier commits of this repository wrote open, and hold what they held.

What clients see is read by librdkafka: records with read_committed, offsets of groups; then they go
on: a transactional id and a group of the directory are used again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.scripts import earlier_directories
from tests.scripts.earlier_directories import DELIVERY_TIMEOUT_S, GOLDEN, SETTINGS, unpack
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.client
ARCHIVES = sorted(path.name.removesuffix(".tar.gz") for path in GOLDEN.glob("*.tar.gz"))


def test_three_commits_were_recorded_in_both_states() -> None:
    commits = {name.partition("-")[0] for name in ARCHIVES}
    assert len(commits) >= 3
    assert set(ARCHIVES) == {f"{name}-{how}" for name in commits for how in ("killed", "stopped")}


@pytest.mark.parametrize("name", ARCHIVES)
def test_directory_of_an_earlier_commit_is_served_and_goes_on(tmp_path: Path, name: str) -> None:
    unpack(name, tmp_path / "data")
    golden = json.loads((GOLDEN / f"{name.partition('-')[0]}.json").read_text())
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        assert earlier_directories.read(broker.address) == golden
        _go_on(broker.address)
        assert broker.stop() == 0
        broker.start()
        contents = earlier_directories.read(broker.address)
        before = golden["records"]["transactional-0"]
        assert [row[2] for row in contents["records"]["transactional-0"][len(before) :]] == ["new"]
        assert contents["records"]["plain-0"] == golden["records"]["plain-0"]
        assert contents["offsets"]["readers"] == [18, golden["offsets"]["readers"][1]]


def _go_on(address: str) -> None:
    """The transactional id commits another transaction, the group another offset."""
    transactional_id = earlier_directories.TRANSACTIONAL_ID
    producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id})
    producer.init_transactions(DELIVERY_TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("transactional", "new", key="key-0")
    producer.commit_transaction(DELIVERY_TIMEOUT_S)
    readers = Consumer({"bootstrap.servers": address, "group.id": earlier_directories.GROUP})
    readers.commit(offsets=[TopicPartition("plain", 0, 18)], asynchronous=False)
    readers.close()
