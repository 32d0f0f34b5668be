"""`odradek consumer-groups` with scripted brokers, for responses that one broker never sends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from odradek.protocol.messages.consumer_group_describe import DescribedGroup as NewGroup
from odradek.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from odradek.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from odradek.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_delete import OffsetDeleteResponse
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.consumer_groups.group_offsets import (
    commit_offsets,
    committed_offsets,
    delete_offsets,
)
from odradek.tools.consumer_groups.queries import list_groups, parse_assignment
from odradek.tools.consumer_groups.reset import parse_scope
from odradek.tools.errors import KafkaError, refused
from odradek.tools.options import OptionsError
from odradek.tools.partition_offsets import list_offsets
from tests.odradek.consumer_groups_conversation import our_tool
from tests.odradek.scripted_broker import Request, ScriptedBroker, ScriptedResponse, scripted_broker
from tests.support.ports import free_port

STALL_MS = 3_000
"""Longer than a busy machine keeps the scripted broker from its response."""
LOADING, NOT_COORDINATOR, NOT_LEADER, DENIED = 14, 16, 6, 30
FAILED = "\nError: Executing consumer group command failed due to "
T0 = TopicPartition("t", 0)
VERSIONS = {
    ApiKey.LIST_OFFSETS: 9,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 4,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 0,
    ApiKey.METADATA: 12,
    ApiKey.API_VERSIONS: 0,
}


def broker_of(
    script: Mapping[ApiKey, list[ScriptedResponse]], versions: Mapping[ApiKey, int] | None = None
) -> Any:
    """A scripted broker that is the coordinator of all groups."""
    served = VERSIONS | dict(versions or {})
    full = {ApiKey.FIND_COORDINATOR: [coordinator_response()]} | dict(script)
    rows = [
        ApiVersion(api_key=key, min_version=0, max_version=served[key])
        for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, *full)
    ]
    first: ScriptedResponse = partial(_say, ApiVersionsResponse(error_code=0, api_keys=rows))
    return scripted_broker({ApiKey.API_VERSIONS: [first]} | full)


def _say(body: Any, request: Request) -> bytes:
    return request.response(body)


def says(body: Any) -> ScriptedResponse:
    """The same response to every request."""
    return partial(_say, body)


def coordinator_response(error_code: int = 0, group: str = "g") -> ScriptedResponse:
    """FindCoordinator responses with the broker itself, for requests of one key and of several."""

    def response(request: Request) -> bytes:
        host, port = request.address
        row = Coordinator(
            key=group, node_id=0, host=host, port=port, error_code=error_code, error_message=""
        )
        return request.response(
            FindCoordinatorResponse(
                error_code=error_code, node_id=0, host=host, port=port, coordinators=[row]
            )
        )

    return response


def client_of(broker: ScriptedBroker, timeout_ms: int = 5_000) -> Client:
    return Client(broker.bootstrap, timeout_ms=timeout_ms)


def dead(error_code: int = 0) -> ScriptedResponse:
    group = DescribedGroup(
        error_code=error_code,
        group_id="g",
        group_state="Dead",
        protocol_type="",
        protocol_data="",
        members=[],
    )
    return says(DescribeGroupsResponse(groups=[group]))


def asked(broker: ScriptedBroker) -> list[ApiKey]:
    """The APIs of the received requests, in order, without ApiVersions."""
    return [request.key for request in broker.requests if request.key is not ApiKey.API_VERSIONS]


def test_loading_coordinator_is_retried_and_a_moved_one_looked_up() -> None:
    responses = [dead(LOADING), dead(NOT_COORDINATOR), dead()]
    coordinators = [coordinator_response(LOADING), coordinator_response()]
    script = {ApiKey.DESCRIBE_GROUPS: responses, ApiKey.FIND_COORDINATOR: coordinators}
    words = ["--describe", "--group", "g", "--state"]
    with broker_of(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, *words])
    assert result.output == "\nError: Consumer group 'g' does not exist.\n"
    assert asked(broker).count(ApiKey.DESCRIBE_GROUPS) == 3
    assert asked(broker).count(ApiKey.FIND_COORDINATOR) == 4


def test_coordinator_that_never_loads_times_out() -> None:
    words = ["--describe", "--group", "g", "--timeout", "150"]
    with broker_of({ApiKey.DESCRIBE_GROUPS: [dead(LOADING)]}) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, *words])
    assert result.exit_code == 0
    assert result.output.startswith(f"{FAILED}REQUEST_TIMED_OUT: ")
    assert asked(broker).count(ApiKey.DESCRIBE_GROUPS) >= 2


@pytest.mark.parametrize(("code", "is_asked_twice"), [(69, True), (35, True), (DENIED, False)])
def test_classic_group_is_described_with_describe_groups(code: int, is_asked_twice: bool) -> None:
    new = NewGroup(
        error_code=code,
        error_message="not for you",
        group_id="g",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
    script = {
        ApiKey.CONSUMER_GROUP_DESCRIBE: [says(ConsumerGroupDescribeResponse(groups=[new]))],
        ApiKey.DESCRIBE_GROUPS: [dead()],
    }
    with broker_of(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, "--describe", "--group", "g"])
    assert (ApiKey.DESCRIBE_GROUPS in asked(broker)) == is_asked_twice
    refusal = f"{FAILED}GROUP_AUTHORIZATION_FAILED: not for you\n"
    assert (result.output == refusal) == (not is_asked_twice)


def test_unknown_group_state_is_an_error() -> None:
    group = DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="NotReady",
        protocol_type="consumer",
        protocol_data="",
        members=[],
    )
    script = {ApiKey.DESCRIBE_GROUPS: [says(DescribeGroupsResponse(groups=[group]))]}
    words = ["--describe", "--group", "g", "--state"]
    with broker_of(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, *words])
    problem = "Expected a valid consumer group state, but found 'Unknown'."
    assert result.output == f"{FAILED}{problem}\n"


def listing(*rows: tuple[str, str, str], error_code: int = 0) -> ScriptedResponse:
    groups = [
        ListedGroup(group_id=name, protocol_type=kind, group_state=state)
        for name, kind, state in rows
    ]
    return says(ListGroupsResponse(error_code=error_code, groups=groups))


def test_only_consumer_groups_are_listed_and_loading_brokers_retried() -> None:
    rows = (("b", "consumer", "stable"), ("c", "connect", "Stable"), ("a", "", "Odd"))
    script = {ApiKey.LIST_GROUPS: [listing(error_code=LOADING), listing(*rows)]}
    words = ["--list", "--state", "--type"]
    with broker_of(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, *words])
    lines = [line.split() for line in result.output.splitlines()]
    assert lines == [
        ["GROUP", "TYPE", "STATE"],
        ["a", "Unknown", "Unknown"],
        ["b", "Unknown", "Stable"],
    ]


def test_broker_without_state_and_type_filters_is_an_error() -> None:
    with broker_of({ApiKey.LIST_GROUPS: [listing()]}, {ApiKey.LIST_GROUPS: 3}) as broker:
        at = ["--bootstrap-server", broker.bootstrap]
        states = our_tool([*at, "--list", "--state", "stable"])
        types = our_tool([*at, "--list", "--type", "classic"])
        plain = our_tool([*at, "--list"])
    where = f"Error listing groups on {broker.bootstrap} (id: 0 rack: null): "
    failed = f"{FAILED}UNSUPPORTED_VERSION: {where}The broker only supports "
    problem = "ListGroups v3, but we need v{} or newer to request groups by {}.\n"
    assert states.output == failed + problem.format(4, "states")
    assert types.output == failed + problem.format(5, "type")
    assert plain == (plain.__class__)(0, "", "")


def test_error_of_list_groups_is_raised() -> None:
    with broker_of({ApiKey.LIST_GROUPS: [listing(error_code=DENIED)]}) as broker:
        client = client_of(broker)
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED: Error listing groups on"):
            list_groups(client)
        client.close()


def fetched(code: int = 0, offset: int = 7) -> ScriptedResponse:
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=index, committed_offset=number, metadata="", error_code=error
        )
        for index, number, error in ((0, offset, 0), (1, -1, 0), (2, 5, 3))
    ]
    topic = OffsetFetchResponseTopic(name="t", partitions=partitions)
    return says(OffsetFetchResponse(topics=[topic], error_code=code))


def test_offsets_are_fetched_from_a_broker_without_batched_groups() -> None:
    script = {ApiKey.OFFSET_FETCH: [fetched(LOADING), fetched()]}
    with broker_of(script, {ApiKey.FIND_COORDINATOR: 3}) as broker:
        client = client_of(broker)
        assert committed_offsets(client, "g") == {T0: 7}
        client.close()


@pytest.mark.parametrize(
    ("coordinator", "fetch", "problem"),
    [
        (0, DENIED, "GROUP_AUTHORIZATION_FAILED: Group authorization failed."),
        (0, 1234, "UNKNOWN_SERVER_ERROR: The server experienced an unexpected error"),
        (DENIED, 0, "GROUP_AUTHORIZATION_FAILED: FindCoordinator request for groupId"),
        (24, 0, "INVALID_GROUP_ID: FindCoordinator request for key"),
    ],
)
def test_error_of_offset_fetch_is_raised(coordinator: int, fetch: int, problem: str) -> None:
    script = {
        ApiKey.FIND_COORDINATOR: [coordinator_response(coordinator)],
        ApiKey.OFFSET_FETCH: [fetched(fetch)],
    }
    with broker_of(script) as broker:
        client = client_of(broker)
        with pytest.raises(KafkaError) as raised:
            committed_offsets(client, "g")
        client.close()
    assert str(raised.value).startswith(problem)


def committed(*codes: int) -> ScriptedResponse:
    rows = [
        OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    ]
    return says(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=rows)]))


def test_commit_is_retried_in_a_rebalance_and_its_error_names_partitions() -> None:
    with broker_of({ApiKey.OFFSET_COMMIT: [committed(0, 27), committed(0, 12)]}) as broker:
        client = client_of(broker)
        with pytest.raises(KafkaError) as raised:
            commit_offsets(client, "g", {T0: 1, TopicPartition("t", 1): 2})
        client.close()
    assert str(raised.value) == (
        "OFFSET_METADATA_TOO_LARGE: Failed altering consumer group offsets for the "
        "following partitions: [t-1]"
    )
    assert asked(broker).count(ApiKey.OFFSET_COMMIT) == 2


def test_deletion_is_retried_while_the_coordinator_loads() -> None:
    def results(code: int) -> ScriptedResponse:
        row = DeletableGroupResult(group_id="g", error_code=code)
        return says(DeleteGroupsResponse(results=[row]))

    script = {
        ApiKey.DELETE_GROUPS: [results(LOADING), results(0)],
        ApiKey.OFFSET_DELETE: [
            says(OffsetDeleteResponse(error_code=code, topics=[])) for code in (LOADING, 69)
        ],
    }
    with broker_of(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, "--delete", "--group", "g"])
        client = client_of(broker)
        with pytest.raises(KafkaError) as raised:
            delete_offsets(client, "g", [T0])
        client.close()
    assert result.output == "Deletion of requested consumer groups ('g') was successful.\n"
    assert raised.value.code == 69


def led(error_code: int = 0, leader_id: int = 0) -> ScriptedResponse:
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader_id,
        replica_nodes=[0],
        isr_nodes=[0],
        offline_replicas=[],
    )
    topic = MetadataResponseTopic(error_code=error_code, name="t", partitions=[partition])

    def response(request: Request) -> bytes:
        return request.metadata(topics=[topic])

    return response


def listed(code: int) -> ScriptedResponse:
    row = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=7)
    return says(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])]))


def test_list_offsets_follows_a_moved_leader() -> None:
    script = {
        ApiKey.METADATA: [led(5), led(leader_id=-1), led(leader_id=9), led(), led()],
        ApiKey.LIST_OFFSETS: [listed(NOT_LEADER), listed(0)],
    }
    with broker_of(script) as broker:
        client = client_of(broker)
        assert list_offsets(client, [T0], LATEST_TIMESTAMP) == {T0: 7}
        client.close()
    assert asked(broker).count(ApiKey.METADATA) == 5


@pytest.mark.parametrize(
    ("metadata", "offsets", "problem"),
    [
        (29, 0, "TOPIC_AUTHORIZATION_FAILED: Failed to fetch metadata for partition t-0 due to "),
        (17, 0, "INVALID_TOPIC_EXCEPTION: Failed to fetch metadata for partition t-0 due to inv"),
        (-1, 0, "UNKNOWN_SERVER_ERROR: Failed to fetch metadata for partition t-0 due to une"),
        (0, 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT: The message format version"),
    ],
)
def test_error_of_list_offsets_is_raised(metadata: int, offsets: int, problem: str) -> None:
    script = {ApiKey.METADATA: [led(metadata)], ApiKey.LIST_OFFSETS: [listed(offsets)]}
    with broker_of(script) as broker:
        client = client_of(broker)
        with pytest.raises(KafkaError) as raised:
            list_offsets(client, [T0], LATEST_TIMESTAMP)
        client.close()
    assert str(raised.value).startswith(problem)


def test_partition_without_a_leader_times_out() -> None:
    with broker_of({ApiKey.METADATA: [led(leader_id=-1)]}) as broker:
        client = client_of(broker, timeout_ms=STALL_MS)
        with pytest.raises(KafkaError, match=r"REQUEST_TIMED_OUT: .* partition t-0\.$"):
            list_offsets(client, [T0], LATEST_TIMESTAMP)
        client.close()


def test_unreachable_broker_is_reported_at_once() -> None:
    address = f"127.0.0.1:{free_port()}"
    result = our_tool(["--bootstrap-server", address, "--list"])
    assert (result.exit_code, result.errors) == (0, "")
    assert result.output == f"{FAILED}{address} cannot be reached: Connection refused\n"


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0", b"\0\0\0\0\0\x01\0", b"\0\0\x7f\xff\xff\xff"]
)
def test_unreadable_assignment_has_no_partitions(data: bytes) -> None:
    assert parse_assignment(data) == []


def test_error_code_without_a_text_is_reported_by_name() -> None:
    assert str(refused(129)).startswith("REBOOTSTRAP_REQUIRED: ")


@pytest.mark.parametrize(
    ("text", "partitions"),
    [("t:0", [0]), ("t:2,0", [2, 0]), ("t:+1,", [1]), ("t:-1", [-1]), ("t:0:", [0])],
)
def test_scope_is_parsed_into_partitions(text: str, partitions: list[int]) -> None:
    assert parse_scope(text) == [TopicPartition("t", index) for index in partitions]


@pytest.mark.parametrize(
    "text", ["t:", ":", "t:0:1", "t:x", "t:0,,1", "t:,1", "t: 0", "t:9999999999"]
)
def test_invalid_scope_is_wrong_usage(text: str) -> None:
    with pytest.raises(OptionsError) as raised:
        parse_scope(text)
    assert raised.value.shows_help
