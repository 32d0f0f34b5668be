"""From a broker of ours into three of Apache Kafka, and from these into three of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.odradek.backup import scene
from tests.support.broker_cluster import BrokerCluster
from tests.support.broker_process import odradek_broker
from tests.support.zookeeper import zookeeper

pytestmark = pytest.mark.judge
BROKERS = (1, 2, 3)
SETTINGS = {**scene.SETTINGS, "min.insync.replicas": "1"}


@contextmanager
def cluster(folder: Path, connect: str, *, is_apache: bool) -> Iterator[BrokerCluster]:
    """Three running brokers, each with two log directories."""
    brokers = BrokerCluster(
        folder,
        zookeeper_connect=f"{connect}/{folder.name}",
        overrides=SETTINGS,
        of_broker={
            number: {"log.dirs": f"{folder}/broker-{number}/data,{folder}/broker-{number}/data-2"}
            for number in BROKERS
        },
        apache=BROKERS if is_apache else (),
    )
    try:
        brokers.start_all()
        yield brokers
    finally:
        brokers.close()


def restart(brokers: BrokerCluster) -> Callable[[Callable[[], None]], None]:
    def around(act: Callable[[], None]) -> None:
        for number in BROKERS:
            brokers.stop(number)
        act()
        brokers.start_all()

    return around


def restored(brokers: BrokerCluster, place: Path) -> None:
    directories = [broker.log_directories for broker in brokers.brokers.values()]
    words = ["--replication-factor", "3"]
    scene.restore(str(place), brokers.bootstrap, directories, restart(brokers), *words)


def verify(brokers: BrokerCluster, place: Path) -> None:
    words = ["verify", "--from", str(place), "--bootstrap-server", brokers.bootstrap]
    assert "same records at the same offsets" in scene.successful("backup", *words)


def test_backup_goes_from_ours_to_apache_kafka_and_back(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with odradek_broker(tmp_path / "source", overrides=scene.SETTINGS) as source:
        scene.fill(source.address)
        address = source.address
        scene.successful("backup", "--all", "--to", str(first), "--bootstrap-server", address)
        records = scene.read_all(address)
        configs = {topic: scene.configs(address, topic) for topic in scene.PARTITIONS}
    with zookeeper(tmp_path / "zookeeper") as connect:
        with cluster(tmp_path / "apache", connect, is_apache=True) as brokers:
            restored(brokers, first)
            verify(brokers, first)
            # Followers that lead now are whole, too.
            brokers.kill(BROKERS[0])
            for topic in scene.PARTITIONS:
                brokers.wait_until_complete(topic, isr=2)
            verify(brokers, first)
            # Apache Kafka's broker does not start while its former registration is there.
            brokers.wait_for_brokers()
            brokers.start(BROKERS[0])
            for topic in scene.PARTITIONS:
                brokers.wait_until_complete(topic)
            words = ["--all", "--to", str(second), "--bootstrap-server", brokers.bootstrap]
            scene.successful("backup", *words)
        with cluster(tmp_path / "ours", connect, is_apache=False) as brokers:
            restored(brokers, second)
            verify(brokers, first)
            assert scene.read_all(brokers.bootstrap) == records
            assert scene.committed(brokers.bootstrap) == scene.COMMITTED
            for topic, values in configs.items():
                assert scene.configs(brokers.bootstrap, topic) == values
