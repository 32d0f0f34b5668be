"""More clients and partitions than descriptors: the logs go on, no acknowledged record is lost."""

from __future__ import annotations

import resource
import socket
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.chapters.fetch import fetch_request
from tests.scripts.talk import Talk
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.wire import Closed, Wire

TOPIC = "descriptors"
CHECKPOINTS_OFTEN = {
    "log.flush.offset.checkpoint.interval.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.flush.interval.ms": "200",
    "log.segment.bytes": "2000",
}
IDLE_CONNECTIONS = 1_058
PATIENCE_S = 30.0


def open_files(limit: int) -> dict[int, tuple[int, int]]:
    return {resource.RLIMIT_NOFILE: (limit, limit)}


def connect(broker: BrokerProcess, connections: ExitStack) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", broker.port), timeout=30)
    return connections.enter_context(connection)


def produce(wire: Wire, topic: str = TOPIC, partition: int = 0) -> int:
    """The offset of one more record."""
    response = wire.call(produce_request(topic, batch(1), partition=partition), 9)
    stored = response.responses[0].partition_responses[0]
    assert stored.error_code == ErrorCode.NONE, ErrorCode(stored.error_code)
    offset: int = stored.base_offset
    return offset


def late_client(broker: BrokerProcess) -> Wire:
    """A client that connects again when it is refused, until idle connections are closed."""
    pause = threading.Event()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        wire = Wire(broker.address)
        try:
            wire.call(ApiVersionsRequest(), 0)
        except Closed:
            wire.close()
            assert time.monotonic() < deadline, "no connection was accepted"
            pause.wait(0.02)
        else:
            return wire


def end_offset(broker: BrokerProcess, topic_id: object) -> int:
    """The high watermark."""
    with Wire(broker.address) as wire:
        fetched = wire.call(fetch_request(TOPIC, topic_id, 0), 12)  # type: ignore[arg-type]
        partition = fetched.responses[0].partitions[0]
        assert partition.error_code == ErrorCode.NONE
        end: int = partition.high_watermark
        return end


def complaints(broker: BrokerProcess) -> list[str]:
    return [
        line
        for line in broker.process.lines()
        if "ERROR" in line or "CRITICAL" in line or "Traceback" in line
    ]


@pytest.mark.parametrize("limit", [256, 1_024])
def test_idle_connections_beyond_the_limit_cost_no_log(tmp_path: Path, limit: int) -> None:
    with (
        odradek_broker(tmp_path, limits=open_files(limit), overrides=CHECKPOINTS_OFTEN) as broker,
        ExitStack() as connections,
    ):
        talk = Talk(broker.address)
        topic_id = talk.make_topic(TOPIC)
        talk.close()
        producer = connections.enter_context(Wire(broker.address))
        count = 0
        for _ in range(IDLE_CONNECTIONS):
            connect(broker, connections)
            assert produce(producer) == count
            count += 1
        for _ in range(20):
            with late_client(broker) as late:
                assert produce(late) == count
                count += 1
        assert broker.process.open_files() < limit
        assert complaints(broker) == []
        assert end_offset(broker, topic_id) == count
        broker.kill()
        broker.start()
        assert end_offset(broker, topic_id) == count
        assert broker.stop() == 0


def test_more_partitions_than_descriptors_are_made_and_found_again(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, limits=open_files(256), overrides=CHECKPOINTS_OFTEN) as broker:
        topic = CreatableTopic(
            name="wide", num_partitions=600, replication_factor=1, assignments=[], configs=[]
        )
        with Wire(broker.address) as wire:
            made = wire.call(CreateTopicsRequest(topics=[topic]), 7).topics[0]
            assert made.error_code == ErrorCode.NONE
        for ending in ("killed", "stopped", "running"):
            talk = Talk(broker.address)
            talk.wait_for_topic("wide", 600)
            talk.close()
            with Wire(broker.address) as wire:
                offsets = {produce(wire, "wide", index) for index in range(600)}
            assert len(offsets) == 1
            assert complaints(broker) == []
            if ending == "killed":
                broker.kill()
                broker.start()
            elif ending == "stopped":
                assert broker.stop() == 0
                broker.start()


def test_no_record_is_lost_while_descriptors_are_short(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=CHECKPOINTS_OFTEN) as broker:
        talk = Talk(broker.address)
        topic_id = talk.make_topic(TOPIC)
        with Wire(broker.address) as producer:
            acknowledged = [produce(producer) for _ in range(20)]
        used = broker.process.open_files()
        broker.process.set_limit(resource.RLIMIT_NOFILE, used)
        refused = 0
        for _ in range(300):
            response = talk.quiet(produce_request(TOPIC, batch(1)), 9)
            stored = response.responses[0].partition_responses[0]
            if stored.error_code:
                assert stored.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                refused += 1
            else:
                acknowledged.append(stored.base_offset)
        topic = CreatableTopic(
            name="late", num_partitions=3, replication_factor=1, assignments=[], configs=[]
        )
        talk.quiet(CreateTopicsRequest(topics=[topic], timeout_ms=500), 7)
        assert refused, "a segment is full after a few batches, and its successor needs a file"
        hard = resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE)[1]
        broker.process.set_limit(resource.RLIMIT_NOFILE, hard)
        talk.until(
            "writing again",
            lambda: talk.quiet(produce_request(TOPIC, batch(1)), 9),
            lambda response: response.responses[0].partition_responses[0].error_code == 0,
        )
        acknowledged.append(len(acknowledged))
        for index in range(3):
            talk.until(
                "a replica that found no descriptor has its log",
                partial(talk.quiet, produce_request("late", batch(1), partition=index), 9),
                lambda response: response.responses[0].partition_responses[0].error_code == 0,
            )
        with Wire(broker.address) as wire:
            assert [produce(wire, "late", index) for index in range(3)] == [1, 1, 1]
        assert acknowledged == list(range(len(acknowledged)))
        assert complaints(broker) == []
        talk.close()
        broker.kill()
        broker.start()
        assert end_offset(broker, topic_id) == len(acknowledged)


def test_connections_of_a_host_are_limited(tmp_path: Path) -> None:
    overrides = {"max.connections.per.ip": "5"}
    with odradek_broker(tmp_path, overrides=overrides) as broker, ExitStack() as connections:
        kept = [connections.enter_context(Wire(broker.address)) for _ in range(5)]
        for wire in kept:
            wire.call(ApiVersionsRequest(), 0)
        with Wire(broker.address) as sixth:
            assert sixth.has_ended()
        kept[0].close()
        late_client(broker).close()
        kept[1].call(ApiVersionsRequest(), 0)
