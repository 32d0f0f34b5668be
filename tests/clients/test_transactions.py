"""Every library commits and aborts transactions; a producer that was replaced is fenced."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from odradek.broker.topics import TRANSACTION_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.clients.confluent_client import Confluent
from tests.clients.contract import WAIT_S, Client, transacted
from tests.clients.libraries import NAMES
from tests.support.broker_process import odradek_broker
from tests.support.wire import Wire

LIBRARIES = [name for name in NAMES if name not in ("kcat", "kafka-go")]
"""The others have no transactional producer."""
COUNT = 20


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """What a read_committed consumer reads from partition 0 until its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "read-committed",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        while True:
            message: Any = consumer.poll(WAIT_S)
            assert message is not None, f"only {len(values)} records"
            if message.error() is not None:
                return values
            values.append(message.value())
    finally:
        consumer.close()


def producer_of(bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    """A transactional producer that has its epoch."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
    )
    producer.init_transactions(WAIT_S)
    return producer


@pytest.mark.parametrize("library", LIBRARIES)
def test_committed_records_are_read_and_aborted_ones_are_not(
    bootstrap: str, client: Callable[[str], Client], library: str
) -> None:
    topic = f"transactions-{library}"
    one = client(library)
    one.create_topic(topic, 1)
    for is_commit in (True, False, True):
        one.transact(f"tx-{library}", topic, COUNT, is_commit=is_commit)
    committed = transacted(f"tx-{library}", COUNT, is_commit=True)
    assert committed_values(bootstrap, topic) == committed + committed


def test_producer_that_was_replaced_is_fenced(
    bootstrap: str, client: Callable[[str], Client]
) -> None:
    topic = "transactions-zombie"
    client("confluent-kafka").create_topic(topic, 1)
    zombie = producer_of(bootstrap, "zombie")
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    assert not zombie.flush(WAIT_S)
    client("java-3.9.2").transact("zombie", topic, 1, is_commit=True)
    with pytest.raises(KafkaException, match="_FENCED"):
        zombie.commit_transaction(WAIT_S)
    assert committed_values(bootstrap, topic) == transacted("zombie", 1, is_commit=True)


def cut_last_batch(log: Path) -> None:
    """Cut the last batch off, as if the process had been killed before it was written."""
    content = log.read_bytes()
    position = last = 0
    while position + 12 <= len(content):
        (length,) = struct.unpack_from(">i", content, position + 8)
        if length <= 0:
            break
        last, position = position, position + 12 + length
    log.write_bytes(content[:last])


def newest_segment(data: Path, topic: str) -> Path:
    """The newest segment of the partition of a topic that has records."""
    return max(
        (path for path in data.glob(f"{topic}-*/*.log") if path.stat().st_size),
        key=lambda path: path.stat().st_mtime_ns,
    )


def state_of(address: str, transactional_id: str) -> str:
    """What DescribeTransactions says, or an error."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with Wire(address) as wire:
        (described,) = wire.call(request, 0).transaction_states
    error = ErrorCode(described.error_code)
    return str(described.transaction_state) if error is ErrorCode.NONE else error.name


def wait_for_state(address: str, transactional_id: str, state: str) -> None:
    """Wait until a transactional id has a state."""
    deadline_s = monotonic() + WAIT_S
    while (found := state_of(address, transactional_id)) != state:
        assert monotonic() < deadline_s, f"{transactional_id} is {found}"


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("has_marker", [True, False])
def test_transaction_that_was_prepared_before_a_kill_ends_after_the_start(
    tmp_path: Path, is_commit: bool, has_marker: bool
) -> None:
    with odradek_broker(tmp_path) as broker:
        client = Confluent(broker.address)
        client.create_topic("t", 1)
        client.transact("tx", "t", 3, is_commit=is_commit)
        complete = "CompleteCommit" if is_commit else "CompleteAbort"
        wait_for_state(broker.address, "tx", complete)
        broker.kill()
        cut_last_batch(newest_segment(broker.data, TRANSACTION_TOPIC))
        if not has_marker:
            cut_last_batch(newest_segment(broker.data, "t"))
        broker.start()
        wait_for_state(broker.address, "tx", complete)
        expected = transacted("tx", 3, is_commit=True) if is_commit else []
        assert committed_values(broker.address, "t") == expected


class Worker(Thread):
    """Writes transactions of two records, every third of which it aborts."""

    def __init__(self, address: str, name: str, stop: Event) -> None:
        super().__init__(name=name)
        self.committed: list[bytes] = []
        self.unknown: list[bytes] = []
        """It is not known whether their transaction was committed."""
        self.aborted: list[bytes] = []
        self._address = address
        self._stopping = stop

    def run(self) -> None:
        """Until the stop; after a fatal error with another producer."""
        number = 0
        while not self._stopping.is_set():
            producer = producer_of(self._address, self.name)
            with suppress(KafkaException):
                while not self._stopping.is_set():
                    number += 1
                    self._transact(producer, number)

    def _transact(self, producer: Producer, number: int) -> None:
        values = [f"{self.name}-{number}-{part}".encode() for part in range(2)]
        self.unknown += values
        producer.begin_transaction()
        try:
            for value in values:
                producer.produce("t", value, partition=0)
            is_commit = number % 3 > 0
            if is_commit:
                producer.commit_transaction(WAIT_S)
            else:
                producer.flush(WAIT_S)
                producer.abort_transaction(WAIT_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(WAIT_S)
            is_commit = False
        del self.unknown[-2:]
        (self.committed if is_commit else self.aborted).extend(values)


def test_transactions_are_atomic_when_the_broker_is_killed(tmp_path: Path) -> None:
    kills, stop = 3, Event()
    with odradek_broker(tmp_path) as broker:
        Confluent(broker.address).create_topic("t", 1)
        workers = [Worker(broker.address, f"worker-{number}", stop) for number in range(3)]
        for worker in workers:
            worker.start()
        try:
            for kill in range(1, kills + 1):
                deadline_s = monotonic() + WAIT_S
                while any(len(worker.committed) < 20 * kill for worker in workers):
                    assert monotonic() < deadline_s, "no worker makes progress"
                    stop.wait(0.01)
                broker.kill()
                broker.start()
        finally:
            stop.set()
            for worker in workers:
                worker.join(2 * WAIT_S)
        for worker in workers:
            assert not worker.is_alive()
            # Another producer aborts what this one has left open.
            producer_of(broker.address, worker.name)
        found = committed_values(broker.address, "t")
    assert len(found) == len(set(found))
    for worker in workers:
        own = [value for value in found if value.startswith(f"{worker.name}-".encode())]
        assert not set(own) & set(worker.aborted)
        assert set(worker.committed) <= set(own) <= set(worker.committed) | set(worker.unknown)
        assert [value for value in own if value in set(worker.committed)] == worker.committed
        assert len(own) % 2 == 0
