"""flush.messages with real clients: a response says that the records are on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.storage.directories.disk_jobs import FlushLog
from tests.broker.test_failed_directory import fetch_error, partition_in, partition_metadata
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.chapters.fetch import fetch_request
from tests.scripts.talk import Talk
from tests.support.node_thread import running_node
from tests.support.wire import Wire

PATIENCE_S = 60.0
SILENCE_S = 0.2
EVERY = {"log.flush.interval.messages": "1"}
TOPIC = "orders"
COUNT = 25


class Flushes:
    """Every flush of the node: counted, held up, failed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, int]] = []
        """(topic, end of the log when it was prepared)."""
        self.may_go = threading.Event()
        self.may_go.set()
        self.failing = ""
        """Topic whose flushes fail."""
        real = FlushLog.run

        def run(job: FlushLog, files: Any) -> None:
            assert self.may_go.wait(PATIENCE_S)
            if job.log.topic == self.failing:
                raise OSError("the disk is broken")
            real(job, files)
            self.done.append((job.log.topic, job.started_at.end_offset))

        monkeypatch.setattr(FlushLog, "run", run)

    def flushed_to(self, topic: str) -> int:
        """Exclusive end of what is on disk."""
        return max((end for name, end in self.done if name == topic), default=0)


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Flushes]:
    made = Flushes(monkeypatch)
    yield made
    made.may_go.set()


@pytest.mark.client
@pytest.mark.parametrize("acks", ["1", "all"])
def test_every_acknowledged_record_is_on_disk(tmp_path: Path, flushes: Flushes, acks: str) -> None:
    late: list[int] = []

    def on_delivery(error: Any, record: Any) -> None:
        assert error is None, error
        if record.offset() >= flushes.flushed_to(TOPIC):
            late.append(record.offset())

    with running_node(tmp_path, EVERY) as address:
        producer = Producer({"bootstrap.servers": address, "acks": acks, "linger.ms": 0})
        for number in range(COUNT):
            producer.produce(TOPIC, b"%d" % number, on_delivery=on_delivery)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        assert late == []
        assert flushes.flushed_to(TOPIC) == COUNT

        consumer = Consumer({"bootstrap.servers": address, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
        assert flushes.flushed_to("__consumer_offsets") == 1, "coordinators keep the same promise"
        consumer.close()


@pytest.mark.parametrize("acks", [1, -1])
def test_response_waits_for_the_flush_and_appends_meanwhile_share_the_next_one(
    tmp_path: Path, flushes: Flushes, acks: int
) -> None:
    with running_node(tmp_path, EVERY) as address:
        talk = Talk(address)
        topic_id = talk.make_topic(TOPIC)
        flushes.may_go.clear()
        clients = [Wire(address) for _ in range(5)]
        clients[0].send(produce_request(TOPIC, batch(1), acks=acks, timeout_ms=0), 9)
        talk.until("its append", lambda: end_offset(talk), lambda end: end == 1)
        for client in clients[1:]:
            client.send(produce_request(TOPIC, batch(1), acks=acks, timeout_ms=0), 9)
        talk.until("the other appends", lambda: end_offset(talk), lambda end: end == len(clients))
        assert all(client.is_silent(SILENCE_S) for client in clients)
        read = talk.quiet(fetch_request(TOPIC, topic_id, 0), 12).responses[0].partitions[0]
        assert (read.high_watermark, bytes(read.records or b"")) == (0, b"")
        flushes.may_go.set()
        offsets = set()
        for client in clients:
            stored = client.receive(0, 9).responses[0].partition_responses[0]
            assert stored.error_code == 0
            offsets.add(stored.base_offset)
            client.close()
        assert offsets == set(range(len(clients)))
        assert [end for topic, end in flushes.done if topic == TOPIC] == [1, len(clients)]
        talk.close()


def test_only_the_append_that_reaches_a_larger_bound_is_flushed(
    tmp_path: Path, flushes: Flushes
) -> None:
    with running_node(tmp_path, {"log.flush.interval.messages": "4"}) as address:
        talk = Talk(address)
        talk.make_topic(TOPIC)
        for number in range(9):
            request = produce_request(TOPIC, batch(1), acks=-1)
            assert talk.quiet(request, 9).responses[0].partition_responses[0].error_code == 0
            assert flushes.flushed_to(TOPIC) == (number + 1) // 4 * 4
        talk.close()


@pytest.mark.parametrize("acks", [1, -1])
def test_flush_that_fails_is_a_storage_error_and_takes_the_directory_offline(
    tmp_path: Path, flushes: Flushes, acks: int
) -> None:
    second = tmp_path / "second"
    overrides = {**EVERY, "log.dirs": f"{tmp_path / 'data'},{second}"}
    with running_node(tmp_path, overrides) as address:
        talk = Talk(address)
        talk.make_topic(TOPIC, 2)
        lost = partition_in(second)
        flushes.failing = TOPIC
        request = produce_request(TOPIC, batch(1), partition=lost, acks=acks)
        stored = talk.quiet(request, 9).responses[0].partition_responses[0]
        assert stored.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (stored.base_offset, stored.log_start_offset) == (-1, -1)
        talk.until(
            "the end of its leadership",
            lambda: partition_metadata(talk, lost)["leader"],
            lambda leader: leader == -1,
            patience_s=PATIENCE_S,
        )
        assert fetch_error(talk, lost, 12) == ErrorCode.KAFKA_STORAGE_ERROR
        assert [topic for topic, _ in flushes.done if topic == TOPIC] == []
        talk.close()


def end_offset(talk: Talk) -> int:
    """The log end offset, which consumers do not see: the end offset of its leader epoch."""
    request = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic=TOPIC, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            )
        ]
    )
    return int(talk.quiet(request, 3).topics[0].partitions[0].end_offset)
