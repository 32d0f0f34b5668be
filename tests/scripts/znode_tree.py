"""Records every znode that one broker of Apache Kafka 3.9.2 writes for the requests of clients.

`python -m tests.scripts.znode_tree` starts a ZooKeeper and a broker, sends what `act` sends, and
writes tests/golden/znode_tree.json: path -> [owner, data version, data].  Times, ports and random
ids are masked.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.apache import apache_kafka
from tests.support.tool_cache import PROJECT
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

GOLDEN: Final = PROJECT / "tests" / "golden" / "znode_tree.json"
WAIT_S: Final = 60.0
CHROOT: Final = "/kafka"
SETTINGS: Final = {
    "broker.id": "3",
    "broker.rack": "r1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
}
MASKS: Final = (
    (re.compile(r'"timestamp":"\d+"'), '"timestamp":"<time>"'),
    (re.compile(r'"topic_id":"[\w-]{22}"'), '"topic_id":"<id>"'),
    (re.compile(r'"version":"1","id":"[\w-]{22}"'), '"version":"1","id":"<cluster>"'),
    (re.compile(r"127\.0\.0\.1:\d+"), "<host>:<port>"),
    (re.compile(r'"host":"127\.0\.0\.1"'), '"host":"<host>"'),
    (re.compile(r'"port":\d+'), '"port":<port>'),
)

Node = tuple[str, int, str | None]


def act(address: str) -> None:
    """Topics with and without settings, more partitions, settings of all kinds, producer ids."""
    admin = AdminClient({"bootstrap.servers": address})
    topics = [
        NewTopic("plain", 2, 1),
        NewTopic("with-settings", 1, 1, config={"retention.ms": "5"}),
        NewTopic("placed", num_partitions=2, replica_assignment=[[3], [3]]),
        NewTopic("deleted", 1, 1),
    ]
    for pending in admin.create_topics(topics).values():
        pending.result(WAIT_S)
    for pending in admin.create_partitions([NewPartitions("plain", 3)]).values():
        pending.result(WAIT_S)
    resources = [
        (2, "plain", "segment.ms", "7000000"),
        (4, "3", "log.cleaner.threads", "2"),
        (4, "", "background.threads", "8"),
    ]
    with Wire(address) as wire:
        for kind, name, key, value in resources:
            config = AlterableConfig(name=key, config_operation=0, value=value)
            resource = AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=[config]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            response = wire.call(request, 1)
            assert response.responses[0].error_code == 0, response
    for pending in admin.delete_topics(["deleted"]).values():
        pending.result(WAIT_S)
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    producer.produce("plain", b"v")
    assert producer.flush(WAIT_S) == 0


def read(address: str) -> dict[str, Node]:
    """Every znode below the chroot, once no topic is to be deleted any more."""
    with client_of(address) as client:
        never = threading.Event()
        deadline = time.monotonic() + WAIT_S
        while client.get_children(f"{CHROOT}/admin/delete_topics") or client.exists(
            f"{CHROOT}/brokers/topics/deleted"
        ):
            assert time.monotonic() < deadline, "the topic is not deleted"
            never.wait(0.05)
        nodes: dict[str, Node] = {}
        walk(client, CHROOT, nodes)
    return nodes


def walk(client: KazooClient, path: str, nodes: dict[str, Node]) -> None:
    """Add a znode and all below it."""
    try:
        data, stat = client.get(path)
        names = sorted(client.get_children(path))
    except NoNodeError:
        return
    owner = "session" if stat.ephemeralOwner else "none"
    text = None if data is None else data.decode()
    for pattern, name in MASKS:
        text = text if text is None else pattern.sub(name, text)
    nodes[path[len(CHROOT) :] or "/"] = (owner, stat.version, text)
    for name in names:
        walk(client, f"{path}/{name}", nodes)


@contextmanager
def client_of(address: str) -> Iterator[KazooClient]:
    """A client without a chroot."""
    client = KazooClient(address, timeout=30.0)
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            zookeeper(folder / "zookeeper") as address,
            apache_kafka(folder, zookeeper_address=address + CHROOT, overrides=SETTINGS) as broker,
        ):
            act(broker.address)
            nodes = read(address)
    GOLDEN.write_text(json.dumps(nodes, indent=1) + "\n")


if __name__ == "__main__":
    main()
