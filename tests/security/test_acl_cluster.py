"""ACLs on three brokers: a change among thousands is in force on each, which reads it alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from tests.security.quota_requests import until
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

ACLS = 10_000
PER_RESOURCE = 50
TOPIC, LITERAL, READ, ALLOW, ANY = 2, 3, 3, 3, 1


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[str]:
    with zookeeper(tmp_path / "zookeeper") as address:
        yield address


@pytest.fixture
def cluster(ensemble: str, tmp_path: Path) -> Iterator[BrokerCluster]:
    brokers = BrokerCluster(tmp_path, zookeeper_connect=ensemble)
    try:
        for broker in brokers.brokers.values():
            broker.overrides |= {
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:ANONYMOUS",
            }
        yield brokers
    finally:
        brokers.close()


@pytest.fixture
def observer(ensemble: str) -> Iterator[KazooClient]:
    """A client of the ZooKeeper, for its figures."""
    client = KazooClient(ensemble)
    client.start()
    yield client
    client.stop()
    client.close()


def packets(observer: KazooClient) -> int:
    """How many requests ZooKeeper has received, pings included."""
    lines = observer.command(b"mntr").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("zk_packets_received"))


def creation(topic: str, user: str) -> AclCreation:
    """Allows a user to read a topic."""
    return AclCreation(
        resource_type=TOPIC,
        resource_name=topic,
        resource_pattern_type=LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )


def count_of(client: Wire, user: str | None) -> int:
    """The ACLs of a user, or of all."""
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None if user is None else f"User:{user}",
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    return sum(len(resource.acls) for resource in client.call(request, 3).resources)


def test_change_among_many_acls_is_seen_by_each_broker_which_reads_no_others(
    cluster: BrokerCluster, observer: KazooClient
) -> None:
    cluster.start_all()
    cluster.wait_for_brokers()
    clients = [Wire(broker.address) for broker in cluster.brokers.values()]
    first = clients[0]
    for number in range(ACLS // PER_RESOURCE):
        acls = [creation(f"t{number}", f"u{user}") for user in range(PER_RESOURCE)]
        results = first.call(CreateAclsRequest(creations=acls), 3).results
        assert {result.error_code for result in results} == {ErrorCode.NONE}
    for client in clients:
        until(partial(count_of, client, None), lambda count: count == ACLS, "a broker lacks ACLs")

    def wait_for_all(count: int) -> None:
        """Until each broker has so many ACLs of a user."""
        for client in clients:
            until(
                partial(count_of, client, "new"), lambda seen: seen == count, "a change is not seen"
            )

    before = packets(observer)
    first.call(CreateAclsRequest(creations=[creation("t7", "new")]), 3)
    wait_for_all(1)
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter="t7",
                pattern_type_filter=LITERAL,
                principal_filter="User:new",
                host_filter=None,
                operation=ANY,
                permission_type=ANY,
            )
        ]
    )
    clients[2].call(request, 3)
    wait_for_all(0)
    assert packets(observer) - before < ACLS // PER_RESOURCE, "each resource is a read"
    for client in clients:
        client.close()
