"""Which groups a cluster has, and who is in them.

Source: Kafka 3.9's admin client (listConsumerGroups, DescribeConsumerGroupsHandler), with the
versions that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import consumer_group_describe, describe_groups
from odradek.protocol.messages.find_coordinator import Coordinator
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolAssignment
from odradek.tools.client import Client, Connection, NotServedError
from odradek.tools.consumer_groups.coordinators import RETRIED, ask_coordinators
from odradek.tools.consumer_groups.errors import KafkaError, refused, timed_out
from odradek.tools.consumer_groups.java_hash_order import TopicPartition, in_hash_order

CONSUMER: Final = "consumer"
"""The protocol type of consumers; groups that only have offsets have an empty one."""
UNKNOWN: Final = "Unknown"
STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
TYPES: Final = ("Consumer", "Classic")
NOT_OF_THE_NEW_PROTOCOL: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
STATES_FROM: Final = 4
TYPES_FROM: Final = 5
"""The versions of ListGroups that know them."""
DESCRIBE_GROUPS_VERSION: Final = 5
"""Newer ones do not tell of groups that do not exist that they are dead."""


class Member(NamedTuple):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]


class Description(NamedTuple):
    """A group and who looks after it."""

    state: str
    assignor: str
    members: list[Member]
    coordinator: Coordinator


def known(text: str, names: Sequence[str]) -> str:
    """One of STATES or TYPES, in whatever case it is written; or UNKNOWN."""
    return next((name for name in names if name.upper() == text.upper()), UNKNOWN)


def list_groups(
    client: Client, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    """The consumer groups of all brokers, in the order of Kafka's tool; states and types are known.

    states, types  only those that have one of them; all when empty
    raises         KafkaError, ClientError
    """
    found: dict[str, ListedGroup] = {}
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    for broker in client.metadata([]).brokers:
        where = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'})"
        connection = client.connection(broker.node_id, broker.host, broker.port)
        for group in _groups_of(client, connection, request, f"Error listing groups on {where}"):
            if group.protocol_type in ("", CONSUMER):
                group.group_state = known(group.group_state, STATES)
                group.group_type = known(group.group_type, TYPES)
                found[group.group_id] = group
    return [found[group_id] for group_id in in_hash_order(found)]


def _groups_of(
    client: Client, connection: Connection, request: ListGroupsRequest, failed: str
) -> list[ListedGroup]:
    """The groups of one broker, of whatever protocol."""
    version = connection.version_of(ApiKey.LIST_GROUPS, ListGroupsRequest)
    for wanted, since, what in (
        (request.states_filter, STATES_FROM, "states"),
        (request.types_filter, TYPES_FROM, "type"),
    ):
        if wanted and version < since:
            raise refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{failed}: The broker only supports ListGroups v{version}, but we need v{since} "
                f"or newer to request groups by {what}.",
            )

    def attempt() -> ListGroupsResponse | None:
        answer = connection.request(ApiKey.LIST_GROUPS, request, ListGroupsResponse)
        return None if answer.error_code in RETRIED else answer

    answer = client.until(attempt)
    if answer is None:
        raise timed_out(f"{failed}: its groups are not loaded")
    if answer.error_code:
        raise refused(answer.error_code, failed)
    return answer.groups


def describe(client: Client, groups: Iterable[str]) -> dict[str, Description | KafkaError]:
    """Groups of both protocols, in the order of Kafka's tool; one that does not exist is dead.

    raises  ClientError
    """
    classic: set[str] = set()

    def ask(connection: Connection, keys: list[str], where: Coordinator) -> dict[str, Any]:
        found: dict[str, Any] = {}
        new = [key for key in keys if key not in classic]
        if new:
            found.update(_describe_new(connection, new, where, classic))
        old = [key for key in keys if key in classic]
        if old:
            found.update(_describe_classic(connection, old, where))
        return found

    return ask_coordinators(client, groups, ask)


def _describe_new(
    connection: Connection, keys: list[str], where: Coordinator, classic: set[str]
) -> dict[str, Any]:
    """Those of the new protocol (KIP-848); the others are added to `classic`."""
    module = consumer_group_describe
    request = module.ConsumerGroupDescribeRequest(
        group_ids=keys, include_authorized_operations=False
    )
    try:
        answer = connection.request(
            ApiKey.CONSUMER_GROUP_DESCRIBE, request, module.ConsumerGroupDescribeResponse
        )
    except NotServedError:
        classic.update(keys)
        return {}
    found: dict[str, Any] = {}
    for group in answer.groups:
        if group.error_code in NOT_OF_THE_NEW_PROTOCOL:
            classic.add(group.group_id)
        elif group.error_code:
            if group.error_code not in RETRIED:
                found[group.group_id] = refused(group.error_code, group.error_message)
        else:
            members = [
                Member(
                    one.member_id,
                    one.instance_id,
                    one.client_id,
                    one.client_host,
                    [
                        TopicPartition(topic.topic_name, index)
                        for topic in one.assignment.topic_partitions
                        for index in topic.partitions
                    ],
                )
                for one in group.members
            ]
            found[group.group_id] = Description(
                known(group.group_state, STATES), group.assignor_name, members, where
            )
    return found


def _describe_classic(
    connection: Connection, keys: list[str], where: Coordinator
) -> dict[str, Any]:
    answer = connection.request(
        ApiKey.DESCRIBE_GROUPS,
        describe_groups.DescribeGroupsRequest(groups=keys),
        describe_groups.DescribeGroupsResponse,
        DESCRIBE_GROUPS_VERSION,
    )
    found: dict[str, Any] = {}
    for group in answer.groups:
        if group.error_code:
            if group.error_code not in RETRIED:
                found[group.group_id] = refused(group.error_code)
        elif group.protocol_type not in ("", CONSUMER):
            found[group.group_id] = KafkaError(
                f"java.lang.IllegalArgumentException: GroupId {group.group_id} is not a consumer "
                f"group ({group.protocol_type})."
            )
        else:
            members = [
                Member(
                    one.member_id,
                    one.group_instance_id,
                    one.client_id,
                    one.client_host,
                    parse_assignment(one.member_assignment),
                )
                for one in group.members
            ]
            found[group.group_id] = Description(
                known(group.group_state, STATES), group.protocol_data, members, where
            )
    return found


def parse_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions that a member of a classic group was given; none for what is unreadable."""
    if len(data) < 2:
        return []
    try:
        assignment, _ = decoder(ConsumerProtocolAssignment, 0)(memoryview(data), 2)
    except DecodeError:
        return []
    return [
        TopicPartition(row.topic, index)
        for row in assignment.assigned_partitions
        for index in row.partitions
    ]
