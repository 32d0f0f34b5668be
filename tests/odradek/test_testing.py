"""`odradek.testing`: brokers of tests, used by client libraries that we did not write."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import (
    Broker,
    BrokerFailed,
    Cluster,
    KafkaHandle,
    KafkaNamespace,
    KafkaTestCase,
    NotReached,
    UnknownTopic,
    wait_for,
)
from odradek.testing.handle import CLIENT_ID
from odradek.testing.reading import StoredRecord

WAIT_S = 60.0
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
LIGHT = """
import sys
from odradek.testing import Broker
light = sorted(name for name in sys.modules if name.startswith("odradek."))
with Broker() as broker:
    started = sorted(name for name in sys.modules if name.startswith("odradek."))
    broker.create_topic("orders")
    broker.records("orders")
heavy = ("odradek.broker", "odradek.controller", "odradek.storage", "odradek.runtime")
assert started == light, set(started) - set(light)
others = [name for name in light if not name.startswith("odradek.testing")]
assert others == ["odradek.bounded_parsing", "odradek.launcher"], others
assert not [name for name in sys.modules if name.startswith(heavy)]
assert not {"asyncio", "uvloop", "kazoo"} & set(sys.modules)
"""
STARTS_AND_WAITS = """
import sys
from odradek.testing import Broker
broker = Broker().start()
print(broker.pid, broker.data, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def produce(address: str, topic: str, values: list[bytes], **settings: str) -> Producer:
    """Send records and wait for their acknowledgements."""
    producer = Producer({"bootstrap.servers": address, **settings})
    for value in values:
        producer.produce(topic, value, key=b"k", headers=[("h", b"1")])
    assert producer.flush(WAIT_S) == 0
    return producer


def test_import_and_start_load_nothing_of_the_broker(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", LIGHT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_records_are_read_back_with_key_value_and_headers(broker: Broker) -> None:
    topic = broker.create_topic("read-back", partitions=2)
    produce(broker.bootstrap_servers, topic, [b"one", b"two"])
    records = broker.records(topic, 2, timeout_s=WAIT_S)
    assert [record.value for record in records] == [b"one", b"two"]
    assert {record.key for record in records} == {b"k"}
    assert {record.headers for record in records} == {(("h", b"1"),)}
    assert sum(broker.end_offsets(topic).values()) == 2


def test_records_that_do_not_arrive_are_a_failure_that_shows_the_last_ones(broker: Broker) -> None:
    topic = broker.create_topic("too-few")
    produce(broker.bootstrap_servers, topic, [b"only"])
    with pytest.raises(NotReached, match=r"too-few has 1 of 2 records(?s:.*)value=b'only'"):
        broker.records(topic, 2, timeout_s=0.1)


@pytest.mark.parametrize("count", [0, 1])
def test_records_of_an_unknown_topic_fail_at_once_with_the_topics_that_exist(
    broker: Broker, count: int
) -> None:
    broker.create_topic(f"invoices-{count}")
    begin_s = monotonic()
    with pytest.raises(UnknownTopic, match=f"no broker has a topic invoice; .*invoices-{count}"):
        broker.records("invoice", count, timeout_s=WAIT_S)
    assert monotonic() - begin_s < WAIT_S / 2


def test_records_of_a_topic_that_is_made_later_can_be_waited_for(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    calls = 0

    def records() -> Sequence[StoredRecord]:
        nonlocal calls
        calls += 1
        if calls == 2:
            producer.produce("made-later", b"one")
            assert producer.flush(WAIT_S) == 0
        return broker.records("made-later")

    (record,) = wait_for(records, timeout_s=WAIT_S)
    assert record.value == b"one"


def test_records_know_a_topic_that_one_broker_of_a_cluster_knows() -> None:
    with Cluster(2) as cluster:
        topic = cluster.create_topic("orders")
        with cluster.fault("Metadata", broker=0, client_id=CLIENT_ID, topic=topic, error=UNKNOWN):
            produce(cluster.bootstrap_servers, topic, [b"one"])
            with pytest.raises(NotReached, match="orders has 0 of 1 records"):
                cluster.records(topic, 1, timeout_s=0.1)
        (record,) = cluster.records(topic, 1)
        assert record.value == b"one"


def test_fixture_of_the_shared_broker_has_a_name_for_annotations(broker: Broker) -> None:
    kafka = KafkaNamespace(broker, "test")
    assert isinstance(kafka, KafkaHandle)
    assert kafka.records(kafka.topic("orders")) == []


def test_records_leave_out_aborted_and_open_transactions(broker: Broker) -> None:
    topic = broker.create_topic("transactional")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "copier"}
    )
    producer.init_transactions(WAIT_S)
    for value, end in (
        (b"aborted", producer.abort_transaction),
        (b"committed", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(WAIT_S) == 0
        end(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(WAIT_S) == 0
    assert broker.open_transactions() == ["copier"]
    assert [record.value for record in broker.records(topic, 1, timeout_s=WAIT_S)] == [b"committed"]
    everything = [record.value for record in broker.records(topic, committed=False)]
    assert everything == [b"aborted", b"committed", b"open"]
    producer.abort_transaction(WAIT_S)
    assert broker.open_transactions() == []


def test_lag_is_what_a_group_has_not_committed(broker: Broker) -> None:
    topic = broker.create_topic("lagging")
    produce(broker.bootstrap_servers, topic, [b"1", b"2", b"3"])
    assert broker.lag("readers", topic) == 3
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    assert broker.committed_offsets("readers") == {(topic, 0): 2}
    assert broker.lag("readers", topic) == 1
    consumer.subscribe([topic])
    deadline = monotonic() + WAIT_S
    while consumer.poll(0.1) is None:
        assert monotonic() < deadline
    assert broker.active_groups() == ["readers"]
    consumer.close()
    wait_for(lambda: not broker.active_groups(), timeout_s=WAIT_S)


def test_wait_for_fails_with_what_was_awaited_and_the_last_value() -> None:
    with pytest.raises(NotReached, match=r"not reached in 0 s: a sale; asked once, .* was \[\]"):
        wait_for(list, "a sale", timeout_s=0)
    with pytest.raises(NotReached, match="it raised ZeroDivisionError") as caught:
        wait_for(lambda: 1 // 0, timeout_s=0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    values = iter([0, 0, 7])
    assert wait_for(lambda: next(values)) == 7


def test_broker_stops_and_removes_its_data_when_the_test_process_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", STARTS_AND_WAITS],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid, data = process.stdout.readline().split()
    assert Path(data).is_dir()
    process.kill()
    process.communicate()
    wait_for(lambda: not is_running(int(pid)), "the broker has ended", timeout_s=WAIT_S)
    assert not Path(data).exists()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_broker_leaves_nothing_after_a_block_that_ends() -> None:
    with Broker() as running:
        pid, folder = running.pid, running.log_path.parent
        assert "odradek is ready" in wait_for(running.log)
    assert not is_running(pid)
    assert not folder.exists()


def test_log_is_kept_and_attached_to_the_exception_that_leaves_the_block() -> None:
    running = Broker()

    def fail() -> None:
        with running:
            wait_for(lambda: "is ready" in running.log())
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test") as caught:
        fail()
    (note,) = caught.value.__notes__
    assert "odradek is ready" in note
    assert str(running.log_path) in note
    assert not running.data.exists()
    running.log_path.unlink()
    running.log_path.parent.rmdir()


def test_broker_that_cannot_start_fails_with_its_log() -> None:
    with pytest.raises(
        BrokerFailed, match=r"exit code 1 before it was ready(?s:.*)Invalid value x"
    ):
        Broker({"num.partitions": "x"}).start()


def test_cluster_of_three_replicates_to_all_brokers() -> None:
    with Cluster(brokers=3, settings={"min.insync.replicas": "2"}) as cluster:
        topic = cluster.create_topic("replicated")
        produce(cluster.bootstrap_servers, topic, [b"one"], acks="all")
        assert [record.value for record in cluster.records(topic, 1, timeout_s=WAIT_S)] == [b"one"]
        for broker in cluster.brokers:
            assert (broker.data / f"{topic}-0").is_dir()
        pids = [broker.pid for broker in cluster.brokers]
    assert not any(map(is_running, pids))


def test_mixin_prints_the_log_of_a_failed_test_and_stops_the_broker(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Failing(KafkaTestCase, unittest.TestCase):
        def test_passes(self) -> None:
            self.kafka.create_topic("of-the-mixin")

        def test_then_fails(self) -> None:
            raise AssertionError(self.kafka.bootstrap_servers)

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Failing)
    result = unittest.TextTestRunner(stream=StringIO()).run(suite)
    assert (result.testsRun, len(result.failures), len(result.errors)) == (2, 1, 0)
    printed = capsys.readouterr().err
    assert "broker log of" in printed
    assert "test_then_fails" in printed
    folder = Path(printed.partition("kept in ")[2].partition(":\n")[0]).parent
    (log,) = folder.iterdir()
    log.unlink()
    folder.rmdir()
    assert not is_running(Failing.kafka.pid)
