"""Znodes with deeply nested JSON, written by another program: brokers go on and start again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek.broker.settings.quorum_config import TREE_LISTENER
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.support.zookeeper import zookeeper_server

WAIT_S = 60.0
DEEP = b'{"version":1,"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}"
CHANGED = {
    "/brokers/topics/a": "topic a: not JSON",
    "/brokers/topics/b/partitions/0/state": "state of b-0: not JSON",
    "/config/topics/a": "config of topic.* a: not JSON",
    "/config/brokers/0": "config of brokers 0: not JSON",
    "/cluster/id": "/cluster/id: not JSON",
    "/latest_producer_id_block": "no producer ids: /latest_producer_id_block: not JSON",
    "/controller": "/controller: not JSON",
    "/feature": "/feature: not JSON",
}
"""Znodes that exist, or are not in a list -> what the log contains in the end."""
CREATED = {
    "/brokers/ids/9": "registration of broker 9: not JSON",
    "/admin/reassign_partitions": "/admin/reassign_partitions: not JSON",
    "/admin/preferred_replica_election": "/admin/preferred_replica_election: not JSON",
    "/config/changes/config_change_": r"/config/changes/config_change_\d+: not JSON",
    "/isr_change_notification/isr_change_": r"isr_change_\d+: not JSON",
    "/log_dir_event_notification/log_dir_event_": r"log_dir_event_\d+: not JSON",
}


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.judge)])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a tree, and the settings of a broker on it."""
    if request.param == "embedded":
        address = f"127.0.0.1:{free_port()}"
        yield address, {TREE_LISTENER: address}
    else:
        with zookeeper_server(tmp_path / "zookeeper") as server:
            yield server.address, {"zookeeper.connect": server.address}


def produce(address: str, **settings: str) -> None:
    """One record with acks=all into the topic that is not touched."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": address, "acks": "all", **settings})
    producer.produce("canary", b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None]


def log_of(folder: Path) -> str:
    return (folder / "broker.log").read_text()


@pytest.mark.client
def test_broker_goes_on_and_starts_with_znodes_that_cannot_be_read(
    tmp_path: Path, tree: tuple[str, dict[str, str]]
) -> None:
    tree_address, settings = tree
    folder = tmp_path / "broker"
    folder.mkdir()
    with odradek_broker(folder, overrides=settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        for created in admin.create_topics(
            [NewTopic(name, 1, 1) for name in ("a", "b", "canary")]
        ).values():
            created.result(WAIT_S)
        zookeeper = KazooClient(tree_address, timeout=30.0)
        with closing(zookeeper):
            zookeeper.start(timeout=WAIT_S)
            for path in [*CREATED, *CHANGED]:
                try:
                    zookeeper.set(path, DEEP)
                except NoNodeError:
                    zookeeper.create(path, DEEP, sequence=path.endswith("_"), makepath=True)
                produce(broker.address)
            controller = CHANGED["/controller"]
            wait_until("the watch has fired", lambda: re.search(controller, log_of(folder)))
            zookeeper.stop()
        assert broker.stop() == 0
        broker.start()
        produce(broker.address)
        idempotent = {"bootstrap.servers": broker.address, "enable.idempotence": True}
        producer = Producer(idempotent)
        producer.produce("canary", b"v")
        broker.process.wait_for_line(CHANGED["/latest_producer_id_block"], timeout_s=WAIT_S)
        producer.purge()
        assert broker.stop() == 0
    log = log_of(folder)
    assert "Traceback" not in log
    assert not [
        expected for expected in {**CREATED, **CHANGED}.values() if not re.search(expected, log)
    ]
