"""An Apache Kafka broker whose ZooKeeper is the embedded tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kazoo.client import KazooClient

from odradek.tools.cluster.supervised import brokers_know_each_other
from tests.support.apache import apache_kafka
from tests.support.compacted import wait_until
from tests.support.tree_server import tree_server

WAIT_S = 120.0


@pytest.mark.judge
def test_apache_kafka_keeps_its_cluster_in_the_tree(tmp_path: Path) -> None:
    with tree_server(str(make_folder(tmp_path / "tree"))) as server:
        address = f"{server.address}/kafka"
        with apache_kafka(tmp_path, zookeeper_address=address) as broker:
            client = KazooClient(hosts=address)
            client.start(timeout=WAIT_S)
            # librdkafka would wait a minute for the controller.
            wait_until(
                "the broker knows the controller",
                lambda: brokers_know_each_other([broker.address]),
                timeout_s=WAIT_S,
            )
            admin = AdminClient({"bootstrap.servers": broker.address})
            admin.create_topics([NewTopic("t", 2, 1)])["t"].result(WAIT_S)
            entry = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
            topic = json.loads(client.get("/brokers/topics/t")[0])
            assert topic["partitions"] == {"0": [0], "1": [0]}
            config = json.loads(client.get("/config/topics/t")[0])
            assert config["config"] == {"retention.ms": "5000"}
            producer = Producer({"bootstrap.servers": broker.address})
            producer.produce("t", b"hello", partition=1)
            assert producer.flush(WAIT_S) == 0
            consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
            consumer.assign([TopicPartition("t", 1, OFFSET_BEGINNING)])
            record = wait_until("a record", lambda: consumer.poll(1.0), timeout_s=WAIT_S)
            assert record.value() == b"hello"
            consumer.close()
            # Its connections break, its session goes on.
            epoch = client.exists("/brokers/ids/0").czxid
            server.call(server.close_connections)
            wait_until("the client has reconnected", lambda: client.connected, timeout_s=WAIT_S)
            admin.delete_topics(["t"])["t"].result(WAIT_S)
            wait_until(
                "it is gone", lambda: not client.exists("/brokers/topics/t"), timeout_s=WAIT_S
            )
            assert client.exists("/brokers/ids/0").czxid == epoch
        # Kafka ends its session when it stops.
        assert client.get_children("/brokers/ids") == []
        client.stop()
        client.close()


def make_folder(path: Path) -> Path:
    """A new folder."""
    path.mkdir()
    return path
