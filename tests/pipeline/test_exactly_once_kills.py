"""A job that writes transactions is killed at random moments, and leaders of its topics too."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pipeline.crashes import (
    FILE,
    LAST_TIMEOUT_S,
    MERCHANTS,
    READ_TIMEOUT_S,
    Orders,
    Report,
    create_topics,
    one_run,
    order,
)
from tests.pipeline.mirroring import content
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.broker_process import odradek_broker
from tests.support.pipeline_job import PipelineJob
from tests.support.zookeeper import zookeeper

KILLS = 20
RATE_PER_SECOND = 20
TOPICS = ("orders", "copied", "totals")
COPIED = """\
[sinks.copied]
kind = "kafka"
from = "orders"
cluster = "main"
topic = "copied"
value = "value"
delivery_guarantee = "exactly_once"
"""
TOTALS = """\
[sinks.totals]
kind = "kafka"
from = "counted"
cluster = "main"
topic = "totals"
key = "merchant"
output_mode = "update"
delivery_guarantee = "exactly_once"
"""
BETWEEN_KILLS_S = (5.0, 25.0)


def key_of(number: int) -> bytes:
    """The records of a merchant are in one partition, in order."""
    return b"m%d" % (number % MERCHANTS)


def campaign(address: str, folder: Path, *, sinks: str) -> Report:
    """Kill the job KILLS times, run it to its end, and check the copied records."""
    report = Report(random.SystemRandom().randrange(2**32))
    chance = random.Random(report.seed)
    file = folder / "orders.toml"
    parts = FILE.partition("[sinks.")
    file.write_text(parts[0].format(address=address) + sinks)
    orders = Orders(address, key_of, RATE_PER_SECOND)
    try:
        for life in range(KILLS):
            one_run(file, chance, report, life, ("copied",))
            print(f"life {life}: {report.victims}, {orders.count} records are sent", flush=True)
    finally:
        report.records = orders.end()
    job = PipelineJob(file, log=folder / "last.log", arguments=["--mode", "available_now"])
    try:
        job.finish(timeout_s=LAST_TIMEOUT_S)
    finally:
        job.close()
    check_copied(address, report)
    return report


def check_copied(address: str, report: Report) -> None:
    """Check that consumers of commits receive each record once, in order per key."""
    copied = content(address, "copied")
    for merchant in range(MERCHANTS):
        expected = [order(number) for number in range(merchant, report.records, MERCHANTS)]
        of_key = [
            [record.value for record in records if record.key == key_of(merchant)]
            for records in copied.values()
        ]
        assert [values for values in of_key if values] == [expected]
    everything = content(address, "copied", isolation="read_uncommitted")
    report.aborted = sum(map(len, everything.values())) - report.records


def check_totals(address: str, report: Report) -> None:
    """Check that each state of a total is written once: the counts of a merchant increase."""
    totals: dict[str, list[int]] = {}
    for records in content(address, "totals").values():
        for record in records:
            row = json.loads(record.value or b"")
            totals.setdefault(row["merchant"], []).append(row["orders"])
    for merchant in range(MERCHANTS):
        counts = totals[f"m{merchant}"]
        assert counts == sorted(set(counts)), "a state of a total is written twice, or out of order"
        assert counts[-1] == len(range(merchant, report.records, MERCHANTS))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_job_killed_twenty_times_commits_each_record_once(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        create_topics(broker.address, *TOPICS)
        report = campaign(broker.address, tmp_path, sinks=COPIED + TOTALS)
        check_totals(broker.address, report)
    print(report)
    assert sum(report.victims.values()) == KILLS


@contextmanager
def leaders_killed(cluster: BrokerCluster) -> Iterator[Callable[[], int]]:
    """Within, a thread kills leaders of `copied` and starts them again; returns their number."""
    ended = threading.Event()
    chance = random.Random()
    kills: list[int] = []

    def run() -> None:
        # The kills come at random moments: that is the test.
        while not ended.wait(chance.uniform(*BETWEEN_KILLS_S)):
            leader = cluster.leader("copied", chance.randrange(3))
            if leader not in cluster.running:
                continue
            cluster.kill(leader)
            kills.append(leader)
            ended.wait(chance.uniform(*BETWEEN_KILLS_S))
            cluster.start(leader)
            for topic in TOPICS:
                cluster.wait_until_complete(topic)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run)
        try:
            yield lambda: len(kills)
        finally:
            ended.set()
        done.result(READ_TIMEOUT_S)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_job_and_leaders_killed_commit_each_record_once_on_three_brokers(tmp_path: Path) -> None:
    with (
        zookeeper(tmp_path / "zookeeper") as address,
        broker_cluster(tmp_path, zookeeper_connect=f"{address}/sink") as cluster,
    ):
        for topic in TOPICS:
            cluster.create_topic(topic, partitions=3, configs={"retention.ms": "-1"})
        with leaders_killed(cluster) as killed:
            report = campaign(cluster.bootstrap, tmp_path, sinks=COPIED)
        print(f"{report}, {killed()} leaders were killed")
    assert sum(report.victims.values()) == KILLS
    assert killed() >= 5
