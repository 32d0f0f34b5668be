"""Our broker and Apache Kafka 3.9.2 on one ZooKeeper: ACLs that one writes are in force on both.

Clients have no credentials here, so that all of them are User:ANONYMOUS, brokers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kazoo.client import KazooClient

from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.apache import apache_kafka, run_tool
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.wire import Closed, Wire
from tests.support.zookeeper import zookeeper

ACLS_TOOL = "kafka.admin.AclCommand"
AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
REPLICATION = {"offsets.topic.replication.factor": "1", "auto.create.topics.enable": "false"}


class Mixed(NamedTuple):
    folder: Path
    zookeeper: KazooClient
    apache: str
    ours: str


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    folder = tmp_path_factory.mktemp("acls")
    with zookeeper(folder / "zookeeper") as address:
        properties = ["--authorizer-properties", f"zookeeper.connect={address}/kafka"]
        # Everything on the cluster: brokers need ClusterAction, and the tests Alter.
        opened = run_tool(
            ACLS_TOOL,
            [*properties, "--add", "--cluster", "--allow-principal", "User:ANONYMOUS"],
            folder=folder,
        )
        assert opened.exit_code == 0, opened.errors
        settings = {**AUTHORIZER, **REPLICATION, "zookeeper.connect": f"{address}/kafka"}
        (folder / "apache").mkdir()
        (folder / "ours").mkdir()
        with (
            apache_kafka(
                folder / "apache", zookeeper_address=f"{address}/kafka", overrides=settings
            ) as apache,
            odradek_broker(folder / "ours", overrides={**settings, "broker.id": "1"}) as ours,
        ):
            client = KazooClient(f"{address}/kafka")
            client.start()
            try:
                yield Mixed(folder, client, apache.address, ours.address)
            finally:
                client.stop()
                client.close()


@cache
def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address})


def binding(
    name: str,
    operation: AclOperation,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:ANONYMOUS", "*", operation, permission)


def create(address: str, *bindings: AclBinding) -> None:
    for future in admin(address).create_acls(list(bindings), request_timeout=30).values():
        future.result()


def delete(address: str, row: AclBindingFilter) -> set[str]:
    (future,) = admin(address).delete_acls([row], request_timeout=30).values()
    return {each.name for each in future.result()}


def matching(kind: ResourceType, name: str | None) -> AclBindingFilter:
    """A filter of everything that applies to a resource, or to all."""
    of_any: Any = None  # which the stubs of the library do not know
    pattern = ResourcePatternType.MATCH
    operation, permission = AclOperation.ANY, AclPermissionType.ANY
    return AclBindingFilter(kind, name or of_any, pattern, of_any, of_any, operation, permission)


def described(address: str) -> set[tuple[object, ...]]:
    everything = matching(ResourceType.ANY, None)
    return {
        (
            row.restype,
            row.name,
            row.resource_pattern_type,
            row.principal,
            row.host,
            row.operation,
            row.permission_type,
        )
        for row in admin(address).describe_acls(everything, request_timeout=30).result()
    }


def produce_error(address: str, topic: str) -> str | None:
    """The name of the error that a producer gets."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": address, "message.timeout.ms": 10_000})
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    (error,) = errors
    return None if error is None else error.name()


def topic_error(address: str, topic: str) -> str | None:
    """The error of a topic in a Metadata response."""
    error = admin(address).list_topics(topic, timeout=20).topics[topic].error
    return None if error is None else error.name()


def znode(mixed: Mixed, path: str) -> bytes:
    content: bytes = mixed.zookeeper.get(path)[0]
    return content


@pytest.mark.judge
def test_tool_of_apache_kafka_writes_the_same_znodes_through_either_broker(mixed: Mixed) -> None:
    changes: dict[str, list[bytes]] = {}
    for name, address in (("aaaa", mixed.apache), ("bbbb", mixed.ours)):
        for pattern in ("literal", "prefixed"):
            done = run_tool(
                ACLS_TOOL,
                [
                    *("--bootstrap-server", address, "--add", "--allow-principal", "User:x y"),
                    *("--allow-host", "10.1.2.3", "--operation", "Describe"),
                    *("--topic", name, "--transactional-id", name),
                    *("--resource-pattern-type", pattern),
                ],
                folder=mixed.folder,
            )
            assert done.exit_code == 0, done.errors
        changes[name] = [
            content
            for folder in ("/kafka-acl-changes", "/kafka-acl-extended-changes")
            for child in sorted(mixed.zookeeper.get_children(folder))
            if name.encode() in (content := znode(mixed, f"{folder}/{child}"))
        ]
    for folder in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
        for kind in ("Topic", "TransactionalId"):
            assert znode(mixed, f"{folder}/{kind}/aaaa") == znode(mixed, f"{folder}/{kind}/bbbb")
    ours = sorted(each.replace(b"bbbb", b"aaaa") for each in changes["bbbb"])
    assert ours == sorted(changes["aaaa"])
    assert len(ours) == 4
    wait_until("both know all", lambda: described(mixed.apache) == described(mixed.ours))


@pytest.mark.judge
@pytest.mark.client
def test_producer_of_librdkafka_gets_the_errors_and_the_access_that_acls_give(mixed: Mixed) -> None:
    create(
        mixed.ours,
        binding("lit", AclOperation.WRITE),
        binding("pre", AclOperation.WRITE, pattern=ResourcePatternType.PREFIXED),
        binding("pre-secret", AclOperation.WRITE, permission=AclPermissionType.DENY),
    )
    topics = ["lit", "pre-one", "pre-secret", "other"]
    for future in (
        admin(mixed.apache)
        .create_topics([_new_topic(name) for name in topics], request_timeout=30)
        .values()
    ):
        future.result()
    assert [produce_error(mixed.ours, name) for name in topics] == [
        None,
        None,
        # Its client is described no more than its producer may write.
        "TOPIC_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
    ]
    assert topic_error(mixed.ours, "no-such-topic") == topic_error(mixed.ours, "other")
    assert set(admin(mixed.ours).list_topics(timeout=20).topics) >= {"lit", "pre-one"}
    assert "other" not in admin(mixed.ours).list_topics(timeout=20).topics


def _new_topic(name: str) -> NewTopic:
    return NewTopic(name, num_partitions=1, replica_assignment=[[1]])


@pytest.mark.judge
@pytest.mark.parametrize("first", ["apache", "ours"])
def test_change_is_in_force_on_the_other_broker_within_a_moment(mixed: Mixed, first: str) -> None:
    writer, reader = mixed.apache, mixed.ours
    if first == "ours":
        writer, reader = reader, writer
    topic = f"seen-{first}"
    assert topic_error(reader, topic) == "TOPIC_AUTHORIZATION_FAILED"
    create(writer, binding(topic, AclOperation.DESCRIBE))
    wait_until("it is allowed", lambda: topic_error(reader, topic) == "UNKNOWN_TOPIC_OR_PART")
    row = matching(ResourceType.TOPIC, topic)
    assert delete(reader, row) == {topic}
    wait_until("refused", lambda: topic_error(writer, topic) == "TOPIC_AUTHORIZATION_FAILED")
    assert mixed.zookeeper.exists(f"/kafka-acl/Topic/{topic}") is None


OUT_OF_RANGE = (77, 127, 0, -1, -128)
FILTER: dict[str, Any] = {
    "resource_type_filter": 2,
    "resource_name_filter": "without-acls",
    "pattern_type_filter": 3,
    "principal_filter": "User:a",
    "host_filter": "*",
    "operation": 3,
    "permission_type": 3,
}
CREATION: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "out-of-range",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def requests(code: int) -> Iterator[object]:
    """Requests of each API with the code in each place, and in all places."""
    for names in (*((name,) for name in CODES), CODES):
        fields = FILTER | dict.fromkeys(names, code)
        yield DescribeAclsRequest(**fields)
        yield DeleteAclsRequest(filters=[DeleteAclsFilter(**fields)])
    for names in (*((name,) for name in CREATED_CODES), CREATED_CODES):
        yield CreateAclsRequest(creations=[AclCreation(**CREATION | dict.fromkeys(names, code))])


CODES = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
CREATED_CODES = ("resource_type", "resource_pattern_type", "operation", "permission_type")


@pytest.mark.parametrize("code", OUT_OF_RANGE)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_codes_out_of_range_have_the_responses_of_apache_kafka(
    mixed: Mixed, code: int, version: int
) -> None:
    def response(address: str, request: object) -> object:
        with Wire(address) as client:
            try:
                return client.call(request, version)
            except Closed:
                return "closed"

    for request in requests(code):
        assert response(mixed.ours, request) == response(mixed.apache, request), request
