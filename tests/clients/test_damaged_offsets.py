"""A broker whose `__consumer_offsets` was damaged while it was down, with a real client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from odradek.broker.group.unreadable import SETTING, Refuse
from tests.clients.confluent_client import Confluent
from tests.clients.contract import WAIT_S
from tests.support.broker_process import BrokerProcess

SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
GROUPS = ("first", "second", "third")
DAMAGED = "second"
REFUSED_WAIT_S = 3.0
"""For a client that retries until its time-out."""


def commit(address: str, topic: str, offset: int, groups: Sequence[str] = GROUPS) -> None:
    """Commit for each group."""
    for group in groups:
        consumer = Consumer({"bootstrap.servers": address, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        consumer.close()


def committed(address: str, topic: str, group: str, wait_s: float = WAIT_S) -> int:
    """The committed offset; -1001 for none."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        (partition,) = consumer.committed([TopicPartition(topic, 0)], timeout=wait_s)
    finally:
        consumer.close()
    offset: int = partition.offset
    return offset


def damage(data: Path, place: str) -> None:
    """Flip a bit of the last record of a group: in its value, or in a name in its key."""
    path = data / "__consumer_offsets-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    group = content.rindex(b"\0" + bytes([len(DAMAGED)]) + DAMAGED.encode() + b"\0") + 2
    topic = group + len(DAMAGED) + 2
    value = topic + content[topic - 1] + 4 + 1
    content[{"group": group, "topic": topic, "value": value + 9}[place]] ^= 1
    path.write_bytes(content)


NONE_LEFT: Final = -1001
AFTER: Final = {
    ("value", 1): None,
    ("value", 2): 10,
    ("topic", 1): None,
    ("topic", 2): None,
    ("group", 1): NONE_LEFT,
    ("group", 2): 10,
}
"""(damaged field, number of commits) -> the committed offset; None: an error.  A damaged topic name
may hide an older offset; a record with a damaged group name belongs to another group."""


@pytest.mark.parametrize(
    ("refuse", "place", "commits"),
    [
        *((Refuse.GROUP, *case) for case in AFTER),
        (Refuse.NONE, "value", 1),
        (Refuse.NONE, "topic", 2),
        (Refuse.PARTITION, "value", 2),
    ],
)
def test_damaged_commit_is_handled_as_the_setting_says(
    tmp_path: Path, topic: str, refuse: Refuse, place: str, commits: int
) -> None:
    before = BrokerProcess(tmp_path, overrides=SETTINGS).start()
    try:
        Confluent(before.address).create_topic(topic, 1)
        for number in range(commits):
            commit(before.address, topic, 10 + number)
        before.stop()
        damage(before.data, place)
    finally:
        before.close()
    after = BrokerProcess(tmp_path, overrides={**SETTINGS, SETTING: refuse}).start()
    try:
        check(after, topic, refuse, place, commits)
    finally:
        after.close()


def check(broker: BrokerProcess, topic: str, refuse: Refuse, place: str, commits: int) -> None:
    """Check the committed offset of each group, and that the other groups work."""
    broker.process.wait_for_line("offsets .* are unreadable and are skipped", timeout_s=WAIT_S)
    address = broker.address
    expected = dict.fromkeys(GROUPS, 10 + commits - 1)
    left = 10 if commits > 1 else NONE_LEFT
    damaged = AFTER[place, commits] if refuse is Refuse.GROUP else left
    for group, offset in {**expected, DAMAGED: damaged}.items():
        if offset is None or refuse is Refuse.PARTITION:
            with pytest.raises(KafkaException):
                committed(address, topic, group, REFUSED_WAIT_S)
        else:
            assert committed(address, topic, group) == offset
            commit(address, topic, 20, [group])
            assert committed(address, topic, group) == 20
