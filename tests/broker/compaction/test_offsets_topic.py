"""`__consumer_offsets` is compacted as any other topic, and groups come back from what is left."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition

from odradek.broker.topics import OFFSETS_TOPIC
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import (
    BROKER,
    WAIT_S,
    Keyed,
    create_topic,
    files_of,
    read_log,
    wait_for_cleaning,
)

SETTINGS = {
    **BROKER,
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "10000",
    "log.cleaner.min.cleanable.ratio": "0",
    "group.initial.rebalance.delay.ms": "0",
}
TOPIC = "read"
GROUPS = ("one", "two", "three")
COMMITS = 120


def consumer(broker: BrokerProcess, group: str) -> Consumer:
    """A member of a group."""
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "fetch.wait.max.ms": 10,
        }
    )


def committed(broker: BrokerProcess, group: str) -> int:
    """A group's offset of the one partition."""
    asking = consumer(broker, group)
    (partition,) = asking.committed([TopicPartition(TOPIC, 0)], timeout=WAIT_S)
    asking.close()
    assert partition.error is None
    offset: int = partition.offset
    return offset


def test_committed_offsets_survive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        create_topic(broker, TOPIC, {})
        written = Keyed(TOPIC).connect(broker)
        written.write_some(200)
        written.flush()
        members = {group: consumer(broker, group) for group in GROUPS}
        for group, member in members.items():
            member.subscribe([TOPIC])
            (message,) = member.consume(1, timeout=WAIT_S)
            assert message.error() is None, group
        for offset in range(1, COMMITS + 1):
            for group, member in members.items():
                place = TopicPartition(TOPIC, 0, offset + GROUPS.index(group))
                member.commit(offsets=[place], asynchronous=False)
        for member in members.values():
            member.close()
        assert len(files_of(broker, OFFSETS_TOPIC, ".log")) > 1
        cleaned = wait_for_cleaning(broker, OFFSETS_TOPIC)
        records = read_log(broker, OFFSETS_TOPIC)
        keys = [record.key() for record in records if record.offset() < cleaned]
        assert len(keys) == len(set(keys)) < 10
        for ending in ("killed", "stopped"):
            if ending == "killed":
                broker.kill()
            else:
                assert broker.stop() == 0
            broker.start()
            for number, group in enumerate(GROUPS):
                assert committed(broker, group) == COMMITS + number
        (message,) = consume_as(broker, "one")
        assert message.offset() == COMMITS


def consume_as(broker: BrokerProcess, group: str) -> list[Message[bytes, bytes]]:
    """What a new member of a group reads first."""
    member = consumer(broker, group)
    member.subscribe([TOPIC])
    messages = member.consume(1, timeout=WAIT_S)
    member.close()
    return messages
