"""One data directory, taken in turns by Apache Kafka and by this storage."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.checkpoints.meta_properties import read_meta_properties
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.head import Appended
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from tests.support.apache import ApacheBroker, apache_kafka
from tests.support.stored_batches import data_bytes
from tests.support.zookeeper import zookeeper

pytestmark = pytest.mark.judge

COUNT = 400
ATTEMPTS_MAX = 4
HIGH_WATERMARK_TOPIC = ("plain", 0)


def create_at_last(admin: AdminClient, topics: list[NewTopic]) -> None:
    """Create topics; a controller that has just been elected may leave a request unanswered."""
    for _ in range(ATTEMPTS_MAX):
        missing = []
        wished = admin.create_topics(topics, request_timeout=60)
        for topic in topics:
            try:
                wished[topic.topic].result(15)
            except (KafkaException, TimeoutError) as error:
                if "TOPIC_ALREADY_EXISTS" not in str(error):
                    missing.append(topic)
        topics = missing
        if not topics:
            return
    raise AssertionError(f"Apache Kafka has not created {topics}")


def fill(broker: ApacheBroker) -> None:
    """A plain topic of many small segments, and one with an aborted transaction."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    topics = [
        NewTopic("plain", 2, 1, config={"segment.bytes": "20000"}),
        NewTopic("transactional", 1, 1),
    ]
    create_at_last(admin, topics)
    plain = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    for number in range(COUNT):
        plain.produce("plain", partition=0, value=b"%0200d" % number)
        plain.flush(30)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "writer"})
    producer.init_transactions(30)
    for value, is_committed in ((b"kept", True), (b"aborted", False), (b"kept too", True)):
        producer.begin_transaction()
        producer.produce("transactional", partition=0, value=value)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)


def read_all(broker: ApacheBroker, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "reader",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes | None] = []
    while len(values) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(values)} of {count} records came"
        assert message.error() is None
        values.append(message.value())
    consumer.close()
    return values


def load(data: Path) -> LogManager:
    """What a broker of ours does with the directory before it serves."""
    files = SystemFileSystem()
    manager = LogManager(files, [str(data)], Descriptors(files), file_delete_delay_ms=60_000)
    (properties,) = manager.open_directories().values()
    assert properties.broker_id == 0
    assert properties.cluster_id is not None
    manager.claim(
        broker_id=0, cluster_id=properties.cluster_id, date="Tue Jul 01 12:00:00 UTC 2025"
    )
    (report,) = manager.load(lambda _: LogConfig(), now_ms=0)
    assert report.was_clean_shutdown
    assert report.unknown == []
    return manager


def test_apache_kafka_and_this_storage_take_turns_on_one_directory(tmp_path: Path) -> None:
    with zookeeper(tmp_path / "zookeeper") as coordinator:
        with apache_kafka(tmp_path, zookeeper_address=coordinator) as broker:
            fill(broker)
        data = broker.data
        former = read_meta_properties(SystemFileSystem(), str(data))

        manager = load(data)
        for each in manager.all():
            each.check()
        log = manager.get("plain", 0)
        assert log is not None
        assert (log.log_start_offset, log.end_offset) == (0, COUNT)
        assert len(log.segments) > 3
        replicated = manager.get(*HIGH_WATERMARK_TOPIC)
        assert replicated is not None
        assert replicated.high_watermark == COUNT
        assert manager.topic_id("plain", 0) is not None
        assert [entry.last_sequence for entry in log.producer_states.active_producers()] == [
            COUNT - 1
        ]
        transactional = manager.get("transactional", 0)
        assert transactional is not None
        assert len(aborted_transactions(transactional.segments, 0, transactional.end_offset)) == 1

        view = memoryview(bytearray(data_bytes(value=b"ours", timestamp_ms=1_750_000_000_000)))
        epoch = log.leader_epochs.latest_epoch
        (result,) = log.append([RecordBatch(view)], leader_epoch=epoch, now_ms=1_750_000_000_000)
        assert isinstance(result, Appended)
        log.advance_high_watermark(log.end_offset)
        manager.shutdown(now_ms=1_750_000_000_000)
        assert read_meta_properties(SystemFileSystem(), str(data)) == former

        with apache_kafka(tmp_path, zookeeper_address=coordinator) as broker:
            values = read_all(broker, "plain", COUNT + 1)
            assert values == [*(b"%0200d" % number for number in range(COUNT)), b"ours"]
            assert read_all(broker, "transactional", 2) == [b"kept", b"kept too"]
        log_text = (tmp_path / "kafka.log").read_text()
        assert "since clean shutdown file was found" in log_text
        for complaint in ("Rebuilding", "corrupt", "Corrupt", " ERROR ", "Recovering unflushed"):
            assert complaint not in log_text, complaint

        again = load(data)
        log = again.get("plain", 0)
        assert log is not None
        assert log.end_offset == COUNT + 1
        again.shutdown(now_ms=0)
