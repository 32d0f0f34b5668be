"""List groups, and describe them with their members.

Source: Kafka 3.9's admin client (listConsumerGroups, DescribeConsumerGroupsHandler), in the
request versions that it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import consumer_group_describe, describe_groups
from odradek.protocol.messages.find_coordinator import Coordinator
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolAssignment
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client, NotServedError
from odradek.tools.consumer_groups.coordinators import RETRIED, ask_coordinators
from odradek.tools.errors import KafkaError, refused, timed_out

CONSUMER: Final = "consumer"
"""The protocol type of consumer groups; it is empty for a group that only has offsets."""
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
STATES_FILTER_VERSION: Final = 4
TYPES_FILTER_VERSION: Final = 5
"""First versions of ListGroups with the two filters."""
DESCRIBE_GROUPS_VERSION: Final = 5
"""The last version that describes a missing group as dead; later ones return an error."""


class Member(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]


class Description(NamedTuple):
    """State, members and coordinator of a group."""

    state: str
    assignor: str
    members: list[Member]
    coordinator: Coordinator


def canonical_name(text: str, names: Sequence[str]) -> str:
    """The element of `names` that equals `text` but for case, or UNKNOWN."""
    return next((name for name in names if name.upper() == text.upper()), UNKNOWN)


def list_groups(
    client: Client, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    """The consumer groups of all brokers, sorted by name.

    States and types in the result are elements of STATES and TYPES, or UNKNOWN.
    states, types  return only groups with one of these; empty: all groups
    raises         KafkaError, ClientError
    """
    groups: dict[str, ListedGroup] = {}
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    for broker in client.metadata([]).brokers:
        where = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'})"
        connection = client.connection(broker)
        for group in _groups_of(client, connection, request, f"Error listing groups on {where}"):
            if group.protocol_type in ("", CONSUMER):
                group.group_state = canonical_name(group.group_state, STATES)
                group.group_type = canonical_name(group.group_type, TYPES)
                groups[group.group_id] = group
    return [groups[group_id] for group_id in sorted(groups)]


def _groups_of(
    client: Client, connection: BrokerConnection, request: ListGroupsRequest, failed: str
) -> list[ListedGroup]:
    """The groups of one broker, of any protocol type."""
    version = connection.version_of(ListGroupsRequest)
    for filters, since, what in (
        (request.states_filter, STATES_FILTER_VERSION, "states"),
        (request.types_filter, TYPES_FILTER_VERSION, "type"),
    ):
        if filters and version < since:
            raise refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{failed}: The broker only supports ListGroups v{version}, but we need v{since} "
                f"or newer to request groups by {what}.",
            )

    def attempt() -> ListGroupsResponse | None:
        response = connection.request(request, ListGroupsResponse)
        return None if response.error_code in RETRIED else response

    response = client.retry(attempt)
    if response is None:
        raise timed_out(f"{failed}: its groups are not loaded")
    if response.error_code:
        raise refused(response.error_code, failed)
    return response.groups


def describe(client: Client, groups: Iterable[str]) -> dict[str, Description | KafkaError]:
    """Describe groups of both protocols, sorted by name; a missing group is dead.

    raises  ClientError
    """
    classic: set[str] = set()

    def ask(connection: BrokerConnection, keys: list[str], where: Coordinator) -> dict[str, Any]:
        results: dict[str, Any] = {}
        new = [key for key in keys if key not in classic]
        if new:
            results.update(_describe_new(connection, new, where, classic))
        old = [key for key in keys if key in classic]
        if old:
            results.update(_describe_classic(connection, old, where))
        return results

    return ask_coordinators(client, groups, ask)


def _describe_new(
    connection: BrokerConnection, keys: list[str], where: Coordinator, classic: set[str]
) -> dict[str, Any]:
    """Describe the groups of the new protocol (KIP-848); add the other ones to `classic`."""
    module = consumer_group_describe
    request = module.ConsumerGroupDescribeRequest(
        group_ids=keys, include_authorized_operations=False
    )
    try:
        response = connection.request(request, module.ConsumerGroupDescribeResponse)
    except NotServedError:
        classic.update(keys)
        return {}
    results: dict[str, Any] = {}
    for group in response.groups:
        if group.error_code in NOT_OF_THE_NEW_PROTOCOL:
            classic.add(group.group_id)
        elif group.error_code:
            if group.error_code not in RETRIED:
                results[group.group_id] = refused(group.error_code, group.error_message)
        else:
            members = [
                Member(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    [
                        TopicPartition(topic.topic_name, index)
                        for topic in member.assignment.topic_partitions
                        for index in topic.partitions
                    ],
                )
                for member in group.members
            ]
            results[group.group_id] = Description(
                canonical_name(group.group_state, STATES), group.assignor_name, members, where
            )
    return results


def _describe_classic(
    connection: BrokerConnection, keys: list[str], where: Coordinator
) -> dict[str, Any]:
    response = connection.request(
        describe_groups.DescribeGroupsRequest(groups=keys),
        describe_groups.DescribeGroupsResponse,
        DESCRIBE_GROUPS_VERSION,
    )
    results: dict[str, Any] = {}
    for group in response.groups:
        if group.error_code:
            if group.error_code not in RETRIED:
                results[group.group_id] = refused(group.error_code)
        elif group.protocol_type not in ("", CONSUMER):
            results[group.group_id] = KafkaError(
                f"GroupId {group.group_id} is not a consumer group ({group.protocol_type})."
            )
        else:
            members = [
                Member(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    parse_assignment(member.member_assignment),
                )
                for member in group.members
            ]
            results[group.group_id] = Description(
                canonical_name(group.group_state, STATES), group.protocol_data, members, where
            )
    return results


def parse_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions in the assignment of a classic member; none when it is unreadable."""
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
