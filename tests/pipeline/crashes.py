"""Kills a pipeline repeatedly under load, and checks its output.

Each run of the job is killed at a random moment, and the next one continues.  After the last run
has read to the end, files and tables contain each record exactly once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from tests.support.pipeline_job import PipelineJob, group_of
from tests.support.watermarks import watermarks

PARTITIONS: Final = 3
RATE_PER_SECOND: Final = 60
READ_TIMEOUT_S: Final = 180.0
START_TIMEOUT_S: Final = 300.0
GONE_TIMEOUT_S: Final = 180.0
LAST_TIMEOUT_S: Final = 1_000.0
"""The last run reads what earlier runs have left."""
MERCHANTS: Final = 7
AT: Final = "2026-03-01T12:00:00Z"
DATABASE: Final = "orders.db"

FILE: Final = """\
[pipeline]
name = "orders"
checkpoint = "state"

[pipeline.spark]
"spark.driver.memory" = "768m"
"spark.sql.shuffle.partitions" = 2
"spark.sql.streaming.fileSink.log.compactInterval" = 3

[clusters.main]
bootstrap_servers = "{address}"

[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["orders"]
max_offsets_per_trigger = 1000

[steps.parsed]
kind = "parse"
from = "orders"
format = "json"
schema = "id BIGINT, merchant STRING, amount DOUBLE, at TIMESTAMP"

[steps.counted]
kind = "window"
from = "parsed"
time = "at"
watermark = "1 hour"
length = "1 day"
group_by = ["merchant"]
aggregates = {{ orders = "count(*)", ids = "sum(id)" }}

[sinks.landed]
kind = "files"
from = "parsed"
path = "landed"
format = "parquet"

[sinks.stored]
kind = "jdbc"
from = "parsed"
url = "jdbc:sqlite:orders.db"
table = "orders"
keys = ["id"]

[sinks.totals]
kind = "jdbc"
from = "counted"
url = "jdbc:sqlite:orders.db"
table = "totals"
keys = ["window_start", "merchant"]
output_mode = "update"

[sinks.copied]
kind = "kafka"
from = "parsed"
cluster = "main"
topic = "copied"
key = "id"
"""


class Orders:
    """A thread that sends numbered records until `end`; each is acknowledged."""

    def __init__(
        self,
        address: str,
        key: Callable[[int], bytes] = lambda number: b"%d" % number,
        rate_per_second: int = RATE_PER_SECOND,
    ) -> None:
        self._rate_per_second = rate_per_second
        self._key = key
        self._producer = Producer(
            {"bootstrap.servers": address, "linger.ms": 20, "enable.idempotence": True}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name="orders")
        self.count = 0
        self._thread.start()

    def _send(self) -> None:
        begin_s = monotonic()
        while not self._stop.wait(0.02):
            until = int((monotonic() - begin_s) * self._rate_per_second)
            while self.count < until:
                self._producer.produce("orders", order(self.count), self._key(self.count))
                self.count += 1
            self._producer.poll(0)

    def end(self) -> int:
        """Stop; returns the number of records, which are all acknowledged."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(READ_TIMEOUT_S) == 0
        return self.count


def order(number: int) -> bytes:
    """One record."""
    merchant = f"m{number % MERCHANTS}"
    return json.dumps({"id": number, "merchant": merchant, "amount": number / 4, "at": AT}).encode()


@dataclass(slots=True)
class Report:
    """The results of a campaign."""

    seed: int
    victims: dict[str, int] = field(default_factory=dict)
    records: int = 0
    duplicates: int = 0
    """Records that the at-least-once Kafka sink has written more than once."""
    aborted: int = 0
    """Records of aborted transactions in the log of an exactly-once sink."""


def create_topics(address: str, *names: str, partitions: int = PARTITIONS) -> None:
    """Create topics without retention, and wait until they exist."""
    admin = AdminClient({"bootstrap.servers": address})
    kept = {"retention.ms": "-1"}
    topics = [NewTopic(name, partitions, 1, config=kept) for name in names]
    for done in admin.create_topics(topics).values():
        done.result(READ_TIMEOUT_S)


def campaign(
    address: str,
    folder: Path,
    spark: SparkSession,
    *,
    kills: int,
    seed: int,
    is_shared: bool = False,
) -> Report:
    """Kill the job `kills` times, run it to its end, and check its output.

    is_shared  the sinks share queries
    """
    chance = random.Random(seed)
    report = Report(seed)
    create_topics(address, "orders", "copied")
    file = folder / "orders.toml"
    head = '[pipeline]\nqueries = "shared"' if is_shared else "[pipeline]"
    file.write_text(FILE.format(address=address).replace("[pipeline]", head, 1))
    own = ("landed", "stored", "totals", "copied")
    queries = ("orders_shared", "totals") if is_shared else own
    orders = Orders(address)
    try:
        for life in range(kills):
            one_run(file, chance, report, life, queries)
    finally:
        report.records = orders.end()
    job = PipelineJob(file, log=folder / "last.log", arguments=["--mode", "available_now"])
    try:
        job.finish(timeout_s=LAST_TIMEOUT_S)
    finally:
        job.close()
    report.duplicates = check(address, folder, spark, report.records)
    return report


def one_run(
    file: Path,
    chance: random.Random,
    report: Report,
    life: int,
    sinks: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Start the job, and kill it at a random moment."""
    is_early = chance.random() < 0.15
    after_s = chance.uniform(0.5, 8.0) if is_early else chance.uniform(0.0, 3.0)
    victim = chance.choices(["all", "python", "java"], [6, 2, 2])[0]
    first = chance.choice(sinks)
    job = PipelineJob(file, log=file.with_name(f"life-{life}.log"), environment=environment)
    try:
        if not is_early:
            job.process.wait_for_line(rf"^{first}: batch \d+", timeout_s=START_TIMEOUT_S)
        # The kill comes at a random moment: that is the test.
        threading.Event().wait(after_s)
        java = job.java_pids()
        if victim == "java" and java:
            for pid in java:
                os.kill(pid, signal.SIGKILL)
            assert job.wait() == 1, job.process.tail()
        elif victim == "python":
            job.process.kill()
        else:
            job.kill()
        await_none(job)
    finally:
        job.close()
    report.victims[victim] = report.victims.get(victim, 0) + 1


def await_none(job: PipelineJob) -> None:
    """Wait until no process of the job exists."""
    deadline_s = monotonic() + GONE_TIMEOUT_S
    while group_of(job.process.pid):
        assert monotonic() < deadline_s, "processes are left"
        threading.Event().wait(0.1)


def check(address: str, folder: Path, spark: SparkSession, count: int) -> int:
    """Compare files, tables and topic with what was sent; returns the topic's duplicates."""
    expected = [(number, f"m{number % MERCHANTS}", number / 4) for number in range(count)]
    rows = spark.read.parquet(str(folder / "landed")).select("id", "merchant", "amount").collect()
    assert sorted(tuple(row) for row in rows) == expected
    with sqlite3.connect(folder / DATABASE) as database:
        stored = database.execute("SELECT id, merchant, amount FROM orders ORDER BY id").fetchall()
        totals = database.execute("SELECT merchant, orders, ids FROM totals").fetchall()
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    database.close()
    assert stored == expected
    numbers = [range(merchant, count, MERCHANTS) for merchant in range(MERCHANTS)]
    assert sorted(totals) == [
        (f"m{numbers_of_merchant[0]}", len(numbers_of_merchant), sum(numbers_of_merchant))
        for numbers_of_merchant in numbers
    ]
    assert sorted(tables) == [("orders",), ("totals",)], "a staging table was left"
    copied = [json.loads(value)["id"] for value in read_topic(address, "copied")]
    assert sorted(set(copied)) == list(range(count))
    return len(copied) - count


def read_topic(address: str, topic: str) -> list[bytes]:
    """The values of all present records."""
    return [
        value for record in read_records(address, topic) if (value := record.value()) is not None
    ]


def read_records(address: str, topic: str) -> list[Message]:
    """All present records."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    )
    try:
        partitions = list(consumer.list_topics(topic, READ_TIMEOUT_S).topics[topic].partitions)
        ends = {
            partition: watermarks(consumer, topic, partition, timeout_s=READ_TIMEOUT_S)[1]
            for partition in partitions
        }
        consumer.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions]
        )
        records: list[Message] = []
        deadline_s = monotonic() + READ_TIMEOUT_S
        while len(records) < sum(ends.values()):
            assert monotonic() < deadline_s, f"{len(records)} of {ends} were read"
            records += [record for record in consumer.consume(1000, 0.5) if record.error() is None]
        return records
    finally:
        consumer.close()
