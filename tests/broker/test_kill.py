"""kill -9 while records come in: what was acknowledged is there after the restart, and once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.clients.confluent_client import Confluent
from tests.clients.contract import EARLIEST
from tests.scripts.chapters.batches import produce_request
from tests.scripts.chapters.producers import request_id
from tests.scripts.talk import Talk
from tests.support.broker_process import BrokerProcess, odradek_broker

TOPIC = "killed"
PARTITIONS = 3
ROUNDS = 3
RECORDS_A_ROUND = 3_000
WAIT_S = 60.0
MEANWHILE_S = 0.001


class Workload:
    """A producer in a thread that outlives the broker and remembers every acknowledgement."""

    def __init__(self, address: str, *, acks: str, idempotent: bool) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failed: list[str] = []
        self.sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": acks,
                "enable.idempotence": idempotent,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "message.timeout.ms": int(WAIT_S * 1000),
                "log_level": 0,
            }
        )

    def send(self, count: int, reached: threading.Event, after: int) -> None:
        """Send records one by one; set the event when `after` more are acknowledged."""
        target = len(self.acknowledged) + after

        def delivered(error: Any, record: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
                return
            self.acknowledged[record.partition(), record.offset()] = record.value()
            if len(self.acknowledged) >= target:
                reached.set()

        for _ in range(count):
            value = f"record {self.sent}".encode()
            self._producer.produce(
                TOPIC, value, partition=self.sent % PARTITIONS, on_delivery=delivered
            )
            self.sent += 1
            self._producer.poll(MEANWHILE_S if self.sent % 10 == 0 else 0)
        left = self._producer.flush(WAIT_S)
        reached.set()
        assert left == 0, f"{left} records were never acknowledged"


def read_all(broker: BrokerProcess) -> dict[tuple[int, int], bytes]:
    """Every record of the topic by partition and offset."""
    client = Confluent(broker.address)
    values: dict[tuple[int, int], bytes] = {}
    for partition in range(PARTITIONS):
        end = client.read(TOPIC, partition, "latest", 0).position
        for message in client.read(TOPIC, partition, EARLIEST, end).messages():
            assert message.value is not None
            values[partition, message.offset] = message.value
        assert sorted(offset for which, offset in values if which == partition) == list(range(end))
    return values


@pytest.mark.parametrize(("acks", "idempotent"), [("1", False), ("all", False), ("all", True)])
def test_acknowledged_records_survive_every_kill(
    tmp_path: Path, acks: str, idempotent: bool
) -> None:
    with odradek_broker(tmp_path) as broker:
        Confluent(broker.address).create_topic(TOPIC, PARTITIONS)
        workload = Workload(broker.address, acks=acks, idempotent=idempotent)
        for number in range(ROUNDS):
            reached = threading.Event()
            sender = threading.Thread(
                target=workload.send, args=(RECORDS_A_ROUND, reached, 300 + 700 * number)
            )
            sender.start()
            assert reached.wait(WAIT_S), "the broker acknowledges nothing"
            broker.kill()
            broker.start()
            sender.join(WAIT_S)
            assert not sender.is_alive()
            assert workload.failed == []
        values = read_all(broker)
        lost = {
            place for place, value in workload.acknowledged.items() if values.get(place) != value
        }
        assert lost == set()
        assert len(workload.acknowledged) == ROUNDS * RECORDS_A_ROUND
        if idempotent:
            assert len(values) == ROUNDS * RECORDS_A_ROUND, "each record is stored once"
            assert len(set(values.values())) == len(values)


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_idempotent_batch_sent_again_after_a_restart_is_a_duplicate(
    tmp_path: Path, state: str
) -> None:
    with odradek_broker(tmp_path) as broker:
        talk = Talk(broker.address)
        talk.make_topic(TOPIC)
        producer_id = request_id(talk).producer_id
        for number in range(7):
            assert repeat(talk, producer_id, 2 * number) == (0, 2 * number)
        talk.close()
        if state == "stopped":
            broker.stop()
        else:
            broker.kill()
        broker.start()
        talk = Talk(broker.address)
        talk.wait_for_topic(TOPIC, 1)
        assert repeat(talk, producer_id, 12) == (0, 12), "the last batch again"
        assert repeat(talk, producer_id, 16)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert repeat(talk, producer_id, 14) == (0, 14), "the next batch"
        talk.close()


def repeat(talk: Talk, producer_id: int, sequence: int) -> tuple[int, int]:
    """Error code and offset of an idempotent batch of two records, written now.

    Producers whose last record is older than a day are forgotten at a restart.
    """
    now_ms = int(time.time() * 1000)
    records = [Record(None, b"value", timestamp_ms=now_ms) for _ in range(2)]
    content = build_batch(
        records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
    )
    response = talk.quiet(produce_request(TOPIC, content), 9)
    stored = response.responses[0].partition_responses[0]
    return stored.error_code, stored.base_offset


def test_topics_survive_many_kills(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        client = Confluent(broker.address)
        client.create_topic(TOPIC, PARTITIONS)
        for _ in range(5):
            broker.kill()
            broker.start()
        for partition in range(PARTITIONS):
            assert client.read(TOPIC, partition, EARLIEST, 0).position == 0
