"""Apache Kafka 3.9.2 as the follower of our leader, on one ZooKeeper."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.apache import ApacheBroker, apache_kafka
from tests.support.broker_process import odradek_broker
from tests.support.processes import pause_process
from tests.support.scripted_follower import LeadingBroker, Replicated
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

pytestmark = pytest.mark.judge

COMMON = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "200",
}
SEGMENT = "data/t-0/00000000000000000000.log"


class MixedCluster:
    """Our broker 0 and Apache's broker 1, which is started again after each kill."""

    def __init__(self, folder: Path, coordinator: str) -> None:
        self.folder = folder
        self._coordinator = f"{coordinator}/kafka"
        self._apache = ExitStack()
        self.apache: ApacheBroker | None = None
        self.address = ""

    def start_ours(self, stack: ExitStack) -> None:
        folder = self.folder / "ours"
        folder.mkdir()
        settings = {**COMMON, "zookeeper.connect": self._coordinator}
        self.address = stack.enter_context(odradek_broker(folder, overrides=settings)).address

    def start_apache(self) -> ApacheBroker:
        folder = self.folder / "apache"
        folder.mkdir(exist_ok=True)
        self.apache = self._apache.enter_context(
            apache_kafka(
                folder, zookeeper_address=self._coordinator, overrides={**COMMON, "broker.id": "1"}
            )
        )
        return self.apache

    def kill_apache(self) -> None:
        assert self.apache is not None
        self.apache.process.kill()
        self._apache.close()

    def close(self) -> None:
        self._apache.close()

    def is_equal(self) -> bool:
        """Whether both have the same segment."""
        ours, theirs = (self.folder / name / SEGMENT for name in ("ours", "apache"))
        return ours.read_bytes() == theirs.read_bytes()


@contextmanager
def mixed_cluster(folder: Path, controller: str) -> Iterator[MixedCluster]:
    """controller  "ours" or "apache": it is started first"""
    with zookeeper(folder / "zookeeper") as coordinator, ExitStack() as stack:
        cluster = MixedCluster(folder, coordinator)
        stack.callback(cluster.close)
        if controller == "apache":
            cluster.start_apache()
        cluster.start_ours(stack)
        if controller == "ours":
            cluster.start_apache()
        yield cluster


def append(topic: Replicated, producer: Wire, count: int, first_offset: int) -> int:
    """Append records with acks=all; the next offset."""
    for offset in range(first_offset, first_offset + count):
        topic.produce(producer)
        assert topic.produced(producer) == (0, offset)
    return first_offset + count


@pytest.mark.parametrize("controller", [pytest.param("ours", marks=pytest.mark.slow), "apache"])
def test_apache_follows_and_leaves_and_comes_back(tmp_path: Path, controller: str) -> None:
    with mixed_cluster(tmp_path, controller) as cluster:
        topic = Replicated(LeadingBroker(cluster.address, lambda: None, lambda: None), "t")
        producer = topic.wire()
        end = append(topic, producer, 100, 0)
        topic.until(lambda: topic.in_sync() == [0, 1], "it follows")
        assert topic.consume(0).high_watermark == end

        assert cluster.apache is not None
        pause_process(cluster.apache.process.pid)
        end = append(topic, producer, 10, end)
        topic.until(lambda: topic.in_sync() == [0], "it is out of sync")
        os.kill(cluster.apache.process.pid, signal.SIGCONT)
        topic.until(lambda: topic.in_sync() == [0, 1], "it is in sync again")
        end = append(topic, producer, 10, end)

        cluster.kill_apache()
        end = append(topic, producer, 10, end)
        topic.until(lambda: topic.live_brokers() == [0], "its session has ended")
        cluster.start_apache()
        topic.until(lambda: topic.in_sync() == [0, 1], "it is in sync after its restart")
        end = append(topic, producer, 10, end)
        assert topic.consume(0, epoch=-1).high_watermark == end
        topic.until(cluster.is_equal, "both have the same records")
        topic.close()
