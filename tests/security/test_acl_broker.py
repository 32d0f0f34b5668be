"""Our broker with an authorizer: changes while clients are connected, log lines, newer APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kazoo.client import KazooClient

from odradek.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.errors import ErrorCode
from tests.security.acl_matrix import CLIENT, SETTINGS, HostWire, Matrix, made
from tests.security.record_acl_matrix import bootstrap
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port

ALLOW, LITERAL = AclPermissionType.ALLOW, PatternType.LITERAL


class Running(NamedTuple):
    broker: BrokerProcess
    tree: KazooClient
    administrator: Matrix


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("authorizer")
    tree = f"127.0.0.1:{free_port()}"
    settings = {
        **SETTINGS,
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "odradek.embedded.zookeeper.listener": tree,
    }
    with odradek_broker(folder, overrides=settings) as broker:
        client = KazooClient(tree)
        client.start()
        bootstrap(client)
        client.create("/kafka-acl-changes/acl_changes_", b"CLUSTER:kafka-cluster", sequence=True)
        administrator = Matrix(broker.address, is_super=False)
        wait_until("the first ACLs are read", administrator.may_administrate)
        administrator.prepare_coordinators()
        yield Running(broker, client, administrator)
        administrator.close()
        client.stop()
        client.close()


def call(running: Running, api: ApiKey, version: int, **fields: Any) -> Any:
    wire = HostWire(running.broker.address, CLIENT)
    try:
        return wire.call(made(messages_of(api)[0], fields), version)
    finally:
        wire.close()


def entry(kind: ResourceType, name: str, operation: AclOperation, host: str = CLIENT) -> Any:
    return (kind, name, LITERAL, host, operation, ALLOW)


def test_apis_that_only_this_broker_serves_ask_too(running: Running) -> None:
    heartbeat: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "rebalance_timeout_ms": 1_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    group = {"group_ids": ["g"], "include_authorized_operations": True}
    page = {"topics": [{"name": "absent"}], "response_partition_limit": 10}
    refused = [
        call(running, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **heartbeat).error_code,
        call(running, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, **group).groups[0].error_code,
        call(running, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, **page).topics[0].error_code,
    ]
    assert refused == [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]
    running.administrator.create(
        [
            entry(ResourceType.GROUP, "g", AclOperation.READ),
            entry(ResourceType.TOPIC, "absent", AclOperation.DESCRIBE),
        ]
    )
    wait_until(
        "the group is served",
        lambda: not call(running, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **heartbeat).error_code,
        timeout_s=30.0,
    )
    (described,) = call(running, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, **group).groups
    operations = AclOperation.READ, AclOperation.DESCRIBE
    assert described.authorized_operations == sum(1 << operation for operation in operations)
    (topic,) = call(running, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, **page).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.client
def is_record(message: Message | None) -> bool:
    return message is not None and message.error() is None


def test_consumer_that_is_connected_gains_and_loses_access(running: Running) -> None:
    running.administrator.create([entry(ResourceType.TOPIC, "seen", AclOperation.ALL, "127.0.0.1")])
    running.administrator.create_topic("seen")
    producer = Producer({"bootstrap.servers": running.broker.address})
    producer.produce("seen", b"v")
    assert producer.flush(30.0) == 0
    settings = {"bootstrap.servers": running.broker.address, "group.id": "unused"}
    # The group, which it does not use, is refused: a commit at the end would wait for it.
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition("seen", 0, 0)])
    wait_until("the record is read", lambda: is_record(consumer.poll(1.0)), timeout_s=30.0)

    def refused() -> bool:
        message = consumer.poll(0.05)
        error = None if message is None else message.error()
        return error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    running.administrator.delete(["127.0.0.1"])
    # A fetch that waits has been permitted; the next one is not.
    wait_until("the consumer is refused", refused, timeout_s=30.0)
    consumer.close()


def test_denials_are_logged_and_audited_when_they_are_asked_for(running: Running) -> None:
    def denied() -> None:
        response = call(running, ApiKey.METADATA, 9, topics=[{"name": "secret", "topic_id": None}])
        assert response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    denied()
    log = running.broker.folder / "broker.log"
    line = (
        "Principal = User:ANONYMOUS is Denied Operation = Describe from host = 127.0.0.3 "
        "on resource = Topic:LITERAL:secret for request = Metadata"
    )
    wait_until("the denial is logged", lambda: line in log.read_text())
    assert "odradek.audit" not in log.read_text()
    running.administrator.set_level("odradek.audit", "INFO")
    denied()
    wait_until("the denial is audited", lambda: "INFO     odradek.audit: {" in log.read_text())
    (audited,) = [
        json.loads(row.partition("odradek.audit: ")[2])
        for row in log.read_text().splitlines()
        if "INFO     odradek.audit: {" in row
    ]
    assert audited == {
        "principal": "User:ANONYMOUS",
        "host": CLIENT,
        "operation": "Describe",
        "resource_type": "Topic",
        "resource": "secret",
        "request": "Metadata",
        "allowed": False,
    }
