"""ACLs on three brokers: a change among thousands is in force on each within a moment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

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
SEEN_MS_MAX = 10_000
"""A second on an idle machine."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    with zookeeper(tmp_path / "zookeeper") as address:
        brokers = BrokerCluster(tmp_path, zookeeper_connect=address)
        try:
            for broker in brokers.brokers.values():
                broker.overrides |= {
                    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                    "super.users": "User:ANONYMOUS",
                }
            yield brokers
        finally:
            brokers.close()


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


def test_change_among_many_acls_is_seen_by_each_broker_within_a_moment(
    cluster: BrokerCluster,
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

    def seen_ms(count: int) -> list[int]:
        """When each broker has so many ACLs of a user, from now on."""
        since = monotonic()
        times = []
        for client in clients:
            until(
                partial(count_of, client, "new"), lambda seen: seen == count, "a change is not seen"
            )
            times.append(int((monotonic() - since) * 1_000))
        return times

    first.call(CreateAclsRequest(creations=[creation("t7", "new")]), 3)
    created_ms = seen_ms(1)
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
    deleted_ms = seen_ms(0)
    for client in clients:
        client.close()
    assert max(created_ms + deleted_ms) < SEEN_MS_MAX
