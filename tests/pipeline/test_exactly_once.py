"""Batches are written to Kafka once each, whatever is killed: what consumers of commits receive."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.sinks.exactly_once import Record, TransactionFailed, Transactions
from odradek.pipeline.sinks.written_batch import WrittenBatch
from odradek.pipeline.spec.ends import Cluster
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.producer_properties import producer_properties
from odradek.pipeline.spec.sinks import KafkaSink
from tests.pipeline.mirroring import Sent, content, create, send
from tests.support.apache import apache_node
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.pipeline_job import PipelineJob
from tests.support.processes import pause_process

FILE = """\
[pipeline]
name = "{name}"
checkpoint = "{name}-state"
mode = "available_now"

[pipeline.spark]
"spark.driver.memory" = "768m"
"spark.sql.shuffle.partitions" = 2

[clusters.main]
bootstrap_servers = "{address}"

[sources.rows]
kind = "kafka"
cluster = "main"
subscribe = ["{name}-in"]
max_offsets_per_trigger = 20
headers = true

[sinks.out]
kind = "kafka"
from = "rows"
cluster = "main"
topic = "{name}-out"
value = "value"
delivery_guarantee = "exactly_once"
options = {options}
"""
KEYS = 7
RECORDS = 60


def numbered(count: int) -> list[Sent]:
    """Records whose keys have one partition each, with a header."""
    return [
        Sent(
            n % KEYS % 2, b"%d" % n, b"k%d" % (n % KEYS), headers=[("n", b"%d" % n), ("none", None)]
        )
        for n in range(count)
    ]


def text(address: str, name: str, options: str = "{}") -> str:
    """The pipeline file."""
    return FILE.format(address=address, name=name, options=options)


def prepared(address: str, name: str) -> None:
    """Create both topics, and write the records to copy."""
    for topic in ("in", "out"):
        create(address, f"{name}-{topic}", 2, {"retention.ms": "-1"})
    send(address, f"{name}-in", numbered(RECORDS))


def run_here(spark: SparkSession, folder: Path, file: str) -> None:
    """Run a file to its end in this process."""
    pipeline = parse(file, folder / "my.toml")
    run.wait(pipeline, run.start_stream(run.build(spark, pipeline, folder)))


def output(address: str, topic: str, isolation: str = "read_committed") -> list[Sent]:
    """All records, of all partitions."""
    records_of_partitions = content(address, topic, isolation=isolation)
    return [record for records in records_of_partitions.values() for record in records]


def assert_copied(address: str, name: str, count: int = RECORDS) -> None:
    """The committed output is each record once, in order per key, in the partition of its key."""
    copied = content(address, f"{name}-out")
    for key in range(KEYS):
        expected = [
            (record.value, record.headers)
            for record in numbered(count)
            if record.key == b"k%d" % key
        ]
        places = {
            partition: [
                (record.value, record.headers) for record in records if record.key == b"k%d" % key
            ]
            for partition, records in copied.items()
        }
        assert [records_of_key for records_of_key in places.values() if records_of_key] == [
            expected
        ]


def killed(file: Path, when: str, transaction: int) -> None:
    """Run a job that is killed at the commit of a transaction."""
    job = PipelineJob(
        file,
        log=file.with_name(f"{when}.log"),
        program=("tests.pipeline.killed_job", when, str(transaction)),
    )
    try:
        assert job.wait() == -signal.SIGKILL, job.process.tail()
    finally:
        job.close()


@pytest.mark.slow
def test_job_killed_within_a_transaction_and_after_one_writes_each_record_once(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    prepared(broker.address, "killed")
    file = tmp_path / "my.toml"
    file.write_text(text(broker.address, "killed"))
    killed(file, "before", 2)
    assert len(output(broker.address, "killed-out")) < len(
        output(broker.address, "killed-out", "read_uncommitted")
    ), "a transaction is open"
    killed(file, "after", 1)
    commits, offsets = (
        {path.name for path in (tmp_path / f"killed-state/out/{log}").glob("[0-9]*")}
        for log in ("commits", "offsets")
    )
    assert (commits, offsets) == ({"0"}, {"0", "1"}), "batch 1 is written, and Spark repeats it"
    run_here(spark, tmp_path, file.read_text())
    assert_copied(broker.address, "killed")


def transactions(address: str, topic: str) -> Transactions:
    """The writer of a sink."""
    sink = KafkaSink.model_validate(
        {
            "kind": "kafka",
            "from": "x",
            "cluster": "main",
            "topic": topic,
            "delivery_guarantee": "exactly_once",
        }
    )
    properties = producer_properties(sink, Cluster(bootstrap_servers=address))
    return Transactions(properties, topic, f"{topic}-transactions")


def check_fence(address: str, topic: str) -> None:
    """A writer in a transaction is taken over by another one, and continues."""
    create(address, topic, 1)
    zombie, successor = transactions(address, topic), transactions(address, topic)
    assert zombie.open() is None
    zombie.write(lambda: [Record(b"0", b"k")], WrittenBatch(0, "first"))

    def taken_over() -> Iterator[Record]:
        yield from (Record(b"zombie %d" % number) for number in range(1000))
        assert successor.open() == WrittenBatch(0, "first")
        yield from (Record(b"zombie %d" % number) for number in range(1000))

    with pytest.raises(TransactionFailed, match="another run has taken over"):
        zombie.write(taken_over, WrittenBatch(1, "second"))
    successor.write(lambda: [Record(b"1", b"k")], WrittenBatch(1, "second"))
    with pytest.raises(TransactionFailed):
        zombie.write(lambda: [Record(b"zombie")], WrittenBatch(2, "third"))
    assert [record.value for record in output(address, topic)] == [b"0", b"1"]
    assert transactions(address, topic).open() == WrittenBatch(1, "second")


def test_writer_that_was_taken_over_is_fenced(broker: BrokerProcess) -> None:
    check_fence(broker.address, "fenced")


def test_call_that_does_not_return_is_left_alone_and_a_new_producer_writes_the_batch(
    tmp_path: Path,
) -> None:
    with odradek_broker(tmp_path) as broker:
        create(broker.address, "silent", 1)
        writer = transactions(broker.address, "silent")
        writer.return_timeout_s = 10.0
        writer.open()
        writer.write(lambda: [Record(b"0")], WrittenBatch(0, "first"))
        first = writer._producer
        attempts: list[Producer] = []

        def silent() -> Iterator[Record]:
            """The broker is silent from the end of the first attempt until its producer is gone."""
            attempts.append(writer._producer)
            yield Record(b"1")
            if len(attempts) == 1:
                assert first.flush(60) == 0
                pause_process(broker.process.pid)
                threading.Thread(target=resume).start()

        def resume() -> None:
            deadline_s = monotonic() + 150
            while writer._producer is first and monotonic() < deadline_s:
                threading.Event().wait(0.05)
            os.kill(broker.process.pid, signal.SIGCONT)

        began_s = monotonic()
        writer.write(silent, WrittenBatch(1, "second"))
        assert monotonic() - began_s < 120, "the call that did not return was not waited for"
        assert len(attempts) == 2
        writer.write(lambda: [Record(b"2")], WrittenBatch(2, "third"))
        assert [record.value for record in output(broker.address, "silent")] == [b"0", b"1", b"2"]
        everything = output(broker.address, "silent", "read_uncommitted")
        assert [record.value for record in everything] == [b"0", b"1", b"1", b"2"]
        assert transactions(broker.address, "silent").open() == WrittenBatch(2, "third")


def test_rejected_record_aborts_the_transaction_and_the_next_batch_is_written(
    broker: BrokerProcess,
) -> None:
    create(broker.address, "too-large", 1, {"max.message.bytes": "2000"})
    writer = transactions(broker.address, "too-large")
    writer.open()
    for value in (b"x" * 10_000, b"x" * 2_000_000):
        records = [Record(b"fine"), Record(value)]
        with pytest.raises(TransactionFailed, match=r"too-large: .*(too large|larger)"):
            writer.write(lambda given=records: given, WrittenBatch(0, ""))  # type: ignore[misc]
    with pytest.raises(ZeroDivisionError):
        writer.write(lambda: (Record(b"%d" % (1 // n)) for n in (1, 0)), WrittenBatch(0, ""))
    writer.write(lambda: [Record(b"1")], WrittenBatch(0, ""))
    assert [record.value for record in output(broker.address, "too-large")] == [b"1"]


def forget_last_commit(state: Path) -> int:
    """Remove the last batch from Spark's commit log, as a kill before its entry; returns it."""
    last = max(int(path.name) for path in (state / "commits").glob("[0-9]*"))
    for entry in (state / f"commits/{last}", state / f"commits/.{last}.crc"):
        entry.unlink()
    return last


def repeated(spark: SparkSession, address: str, name: str, folder: Path) -> None:
    """Copy all, and repeat the last batch."""
    prepared(address, name)
    run_here(spark, folder, text(address, name))
    last = forget_last_commit(folder / f"{name}-state/out")
    run_here(spark, folder, text(address, name))
    assert (folder / f"{name}-state/out/commits/{last}").exists()
    assert_copied(address, name)


@pytest.mark.slow
@pytest.mark.judge
def test_batches_are_written_once_to_apache_kafka(spark: SparkSession, tmp_path: Path) -> None:
    with apache_node(tmp_path / "apache") as apache:
        repeated(spark, apache.address, "apache", tmp_path)
        check_fence(apache.address, "fenced")


def test_checkpoint_that_does_not_fit_the_last_written_batch_ends_the_query(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    repeated(spark, broker.address, "repeated", tmp_path)
    state = tmp_path / "repeated-state/out"
    last = forget_last_commit(state)
    (state / f"offsets/.{last}.crc").unlink()
    entry = state / f"offsets/{last}"
    entry.write_text(entry.read_text().replace('"batchTimestampMs":', '"batchTimestampMs":1'))
    with pytest.raises(PartFailed, match=f"batch {last} is written, with other input") as failed:
        run_here(spark, tmp_path, text(broker.address, "repeated"))
    owner = json.loads((state / "metadata").read_text())["id"]
    assert (
        f"set the offset of the group 'repeated-out-{owner}' in repeated-out-0 to {last}:"
        in str(failed.value)
    )
    assert_copied(broker.address, "repeated")


def test_time_out_above_the_maximum_of_the_cluster_fails_the_sink_at_the_start(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    prepared(broker.address, "long")
    file = text(broker.address, "long", '{ "transaction.timeout.ms" = 900_001 }')
    with pytest.raises(PartFailed) as failed:
        run_here(spark, tmp_path, file)
    assert str(failed.value) == (
        "sinks.out: transaction.timeout.ms is 900001, and the cluster's transaction.max.timeout.ms"
        " is 900000"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{}", '{ "acks" = 1 }', "line 27: sinks.out.options: `acks` must be set to `all`"),
        ("{}", '{ "linger" = 1 }', 'line 27: sinks.out.options: No such .* property: "linger"'),
        (
            "{}",
            '{ "transaction.timeout.ms" = 10 }',
            "line 27: sinks.out.options: .*transaction.timeout.ms.* range 1000..2147483647$",
        ),
        (
            "{}",
            '{ "transactional.id" = "x" }',
            "line 27: sinks.out.options: transactional.id is set by the sink; leave it out",
        ),
        (
            '"\n\n[sources',
            '"\noptions = { "ssl.truststore.location" = "x" }\n\n[sources',
            "line 12: clusters.main.options: sink out is exactly_once and takes the properties of"
            " librdkafka: Java TrustStores are not supported",
        ),
        (
            'mode = "available_now"',
            'mode = "batch"',
            "line 26: sinks.out.delivery_guarantee: a batch has no checkpoint",
        ),
        ('topic = "a-out"\n', "", 'line 20: sinks.out: delivery_guarantee = "exactly_once" needs'),
        ('"exactly_once"', '"exactly-once"', "is not allowed: .*'at_least_once' or 'exactly_once'"),
    ],
)
def test_file_with_an_invalid_exactly_once_sink_is_rejected(
    old: str, new: str, message: str
) -> None:
    file = text("127.0.0.1:9092", "a")
    parse(file, Path("my.toml"))
    with pytest.raises(SpecError, match=message):
        parse(file.replace(old, new), Path("my.toml"))
