"""Topics that compact and delete: retention and DeleteRecords while a log is being cleaned."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType

from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import (
    BROKER,
    COMPACT,
    WAIT_S,
    Keyed,
    alter,
    create_topic,
    files_of,
    read_log,
    wait_for_cleaning,
    wait_until,
)

TOPIC = "keyed"
BOTH = {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": "-1"}
SETTINGS = {
    **BROKER,
    "log.retention.check.interval.ms": "50",
    "log.cleaner.io.max.bytes.per.second": "300000",
}
"""A cleaning of a third of a megabyte takes some seconds, and retention comes all the time."""


def first_offset(broker: BrokerProcess) -> int:
    """Base of the oldest segment."""
    return int(files_of(broker, TOPIC, ".log")[0].name[:20])


def delete_records(broker: BrokerProcess, offset: int) -> None:
    """Move the start of the log."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    place = TopicPartition(TOPIC, 0, offset)
    assert admin.delete_records([place])[place].result(WAIT_S).low_watermark == offset


def test_delete_records_and_retention_succeed_during_a_cleaning(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        create_topic(broker, TOPIC, BOTH)
        written = Keyed(TOPIC).connect(broker)
        written.write_some(4_000, keys=2_000)
        written.flush()
        wait_until("a cleaning", lambda: files_of(broker, TOPIC, ".cleaned"))
        second = int(files_of(broker, TOPIC, ".log")[1].name[:20])
        delete_records(broker, second + 10)
        alter(broker, ResourceType.BROKER, "0", {"log.cleaner.io.max.bytes.per.second": "1e9"})
        wait_for_cleaning(broker, TOPIC)
        records = read_log(broker, TOPIC)
        assert records[0].offset() >= second + 10
        last = {record.key(): record.value() for record in records}
        wrong = {key for key, values in written.allowed.items() if last.get(key) not in values}
        assert not wrong, "every key was written again behind the start"

        delete_records(broker, 4_000)
        wait_until("retention", lambda: first_offset(broker) > 0)
        assert read_log(broker, TOPIC) == []


def test_retention_deletes_old_segments_of_a_topic_with_compact_and_delete(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        create_topic(broker, TOPIC, BOTH)
        create_topic(broker, "forever", {**COMPACT, "retention.ms": "1", "retention.bytes": "1"})
        written = [Keyed(topic).connect(broker) for topic in (TOPIC, "forever")]
        for each in written:
            each.write_some(3_000)
            each.flush()
        alter(broker, ResourceType.BROKER, "0", {"log.cleaner.io.max.bytes.per.second": "1e9"})
        for each in written:
            wait_for_cleaning(broker, each.topic)
        alter(broker, ResourceType.TOPIC, TOPIC, {"retention.ms": "1"})
        wait_until("retention", lambda: read_log(broker, TOPIC) == [])
        assert first_offset(broker) == 3_000
        kept = {record.key(): record.value() for record in read_log(broker, "forever")}
        assert kept == {key: values[-1] for key, values in written[1].allowed.items()}
