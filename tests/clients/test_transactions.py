"""Every library commits and aborts transactions; a producer that was replaced is fenced."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.broker.topics import TRANSACTION_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.clients.confluent_client import Confluent
from tests.clients.contract import WAIT_S, Client, transacted
from tests.clients.libraries import NAMES
from tests.support import tool_cache
from tests.support.broker_process import odradek_broker
from tests.support.pauses import pause
from tests.support.processes import LoggedProcess, pause_process
from tests.support.transactional_workers import committed_values, producer_of, transactional_workers
from tests.support.wire import Wire

LIBRARIES = [name for name in NAMES if name not in ("kcat", "kafka-go")]
"""The others have no transactional producer."""
COUNT = 20
TOPIC_CONFIGS = {
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "append-time-lz4": {"message.timestamp.type": "LogAppendTime", "compression.type": "lz4"},
    "gzip": {"compression.type": "gzip"},
    "bounded": {"message.timestamp.before.max.ms": "3600000"},
}
"""By name: what has the broker change batches, or look into them, before it appends them."""


@pytest.mark.parametrize("library", LIBRARIES)
def test_committed_records_are_read_and_aborted_ones_are_not(
    bootstrap: str, client: Callable[[str], Client], library: str
) -> None:
    topic = f"transactions-{library}"
    producing = client(library)
    producing.create_topic(topic, 1)
    for is_commit in (True, False, True):
        producing.transact(f"tx-{library}", topic, COUNT, is_commit=is_commit)
    committed = transacted(f"tx-{library}", COUNT, is_commit=True)
    assert committed_values(bootstrap, topic) == committed + committed


def test_marker_that_is_larger_than_a_message_may_be_ends_its_transaction(bootstrap: str) -> None:
    """A batch with one empty record has 68 bytes, a marker 78."""
    topic = "transactions-small-messages"
    new = NewTopic(topic, 1, 1, config={"max.message.bytes": "70"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(WAIT_S)
    producer = producer_of(bootstrap, "tx-small-messages")
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"")
        assert producer.flush(WAIT_S) == 0
        end(WAIT_S)
    assert len(committed_values(bootstrap, topic)) == 1


@pytest.mark.parametrize("library", ["java-3.9.2", "confluent-kafka", "franz-go"])
@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_transactions_are_written_to_topics_of_every_config(
    bootstrap: str, client: Callable[[str], Client], library: str, name: str
) -> None:
    topic = f"transactions-{name}-{library}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, 1, 1, config=TOPIC_CONFIGS[name])
    admin.create_topics([new])[topic].result(WAIT_S)
    for is_commit in (True, False, True):
        client(library).transact(f"tx-{name}-{library}", topic, COUNT, is_commit=is_commit)
    committed = transacted(f"tx-{name}-{library}", COUNT, is_commit=True)
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
    while (current := state_of(address, transactional_id)) != state:
        assert monotonic() < deadline_s, f"{transactional_id} is {current}"
        pause()


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


def test_transactions_are_atomic_when_the_broker_is_killed(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        Confluent(broker.address).create_topic("t", 2)
        with transactional_workers(broker.address, "t", 2) as workers:
            for _ in range(3):
                workers.wait_for_progress()
                broker.kill()
                broker.start()
            workers.wait_for_progress()


@pytest.mark.parametrize("timeout_ms", [60_000, 5_000], ids=["replaced", "timed-out"])
def test_producer_that_was_paused_is_fenced(tmp_path: Path, timeout_ms: int) -> None:
    overrides = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with odradek_broker(tmp_path, overrides=overrides) as broker:
        Confluent(broker.address).create_topic("t", 1)
        program = [sys.executable, "-m", "tests.clients.zombie"]
        with LoggedProcess(
            [*program, broker.address, "tx", "t", str(timeout_ms)],
            log=tmp_path / "zombie.log",
            folder=tool_cache.PROJECT,
        ) as zombie:
            zombie.wait_for_line("^sent", timeout_s=WAIT_S)
            pause_process(zombie.pid)
            expected: list[bytes] = []
            if timeout_ms == 60_000:
                other = producer_of(broker.address, "tx")
                other.begin_transaction()
                other.produce("t", b"other", partition=0)
                other.commit_transaction(WAIT_S)
                expected.append(b"other")
            else:
                wait_for_state(broker.address, "tx", "CompleteAbort")
            os.kill(zombie.pid, signal.SIGCONT)
            zombie.wait_for_line("^over", timeout_s=WAIT_S)
            outcomes = {
                line for line in zombie.lines() if line.startswith(("refused", "committed"))
            }
        assert outcomes & {"refused _FENCED", "refused INVALID_PRODUCER_EPOCH"}, outcomes
        assert "committed" not in outcomes
        assert committed_values(broker.address, "t") == expected
