"""`odradek topics` with scripted brokers: responses that one healthy broker never sends."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from odradek.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from odradek.tools.errors import ToolError
from odradek.tools.topics.queries import compile_pattern
from tests.odradek.scripted_broker import Request, ScriptedResponse, scripted_broker
from tests.odradek.topics_tools import masked, our_tool

ID = UUID(int=7)


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("order.*", "orders", True),
        ("a,b", "b", True),
        (" a , b ", "b", True),
        ('"a,b"', "b", True),
        ("''a''", "a", True),
        (r"a\.b", "a.b", True),
        (r"a\.b", "axb", False),
        ("a.b", "axb", True),
        (r"\Qa.b\E.*", "a.bc", True),
        (r"\Qa.b\E.*", "axbc", False),
        (r"\Qa.b", "a.b", True),
        ("a{", "a{", True),
        ("(a|b)[0-9]{2}", "b17", True),
        ("", "a", False),
    ],
)
def test_topic_option_matches_whole_names(pattern: str, name: str, is_match: bool) -> None:
    assert bool(compile_pattern(pattern).fullmatch(name)) == is_match


@pytest.mark.parametrize("pattern", ["[", "(a", "*", "a**", "a)"])
def test_invalid_regular_expression_is_an_error(pattern: str) -> None:
    with pytest.raises(ToolError) as raised:
        compile_pattern(pattern)
    assert str(raised.value) == f"{pattern} is an invalid regex."


def metadata(*names: str, partitions: int = 2, leader: int = 0) -> ScriptedResponse:
    """Topics whose replicas are brokers 0 and 5, of which the cluster has only the first."""
    topics = [
        MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=ID,
            is_internal=name.startswith("__"),
            partitions=[
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=index,
                    leader_id=leader,
                    replica_nodes=[0, 5],
                    isr_nodes=[0],
                    offline_replicas=[5],
                )
                for index in reversed(range(partitions))
            ],
        )
        for name in names
    ]
    return lambda request: request.metadata(topics=topics)


def configs(*names: str) -> ScriptedResponse:
    """Topics with two settings, one of which is a broker's."""

    def response(request: Request) -> bytes:
        rows = [
            DescribeConfigsResourceResult(
                name=name, value=value, read_only=False, config_source=source, is_sensitive=False
            )
            for name, value, source in (("min.insync.replicas", "1", 5), ("retention.ms", "9", 4))
        ]
        results = [
            DescribeConfigsResult(
                error_code=0, error_message=None, resource_type=2, resource_name=name, configs=rows
            )
            for name in names
        ]
        return request.response(DescribeConfigsResponse(results=results))

    return response


def reassignments(request: Request) -> bytes:
    """Partition 0 of topic `a` is reassigned from broker 5 to broker 6."""
    reassignment = OngoingPartitionReassignment(
        partition_index=0, replicas=[0, 6, 5], adding_replicas=[6], removing_replicas=[5]
    )
    topic = OngoingTopicReassignment(name="a", partitions=[reassignment])
    return request.response(
        ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=[topic])
    )


def output_lines(script: dict[ApiKey, list[ScriptedResponse]], *words: str) -> list[str]:
    """The output lines of a successful command."""
    with scripted_broker(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, *words])
    assert (result.exit_code, result.errors) == (0, "")
    return masked(result.output).splitlines()


def test_broker_settings_count_as_overrides_and_reassignments_are_shown() -> None:
    script: dict[ApiKey, list[ScriptedResponse]] = {
        ApiKey.METADATA: [metadata("a")],
        ApiKey.DESCRIBE_CONFIGS: [configs("a")],
        ApiKey.LIST_PARTITION_REASSIGNMENTS: [reassignments],
    }
    head = "\tTopic: a\tPartition: "
    assert output_lines(script, "--describe") == [
        "Topic: a\tTopicId: ID\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: retention.ms=9",
        f"{head}0\tLeader: 0\tReplicas: 0,5\tIsr: 0\tAdding Replicas: 6\tRemoving Replicas: 5"
        "\tElr: N/A\tLastKnownElr: N/A",
        f"{head}1\tLeader: 0\tReplicas: 0,5\tIsr: 0\tElr: N/A\tLastKnownElr: N/A",
    ]


def test_topics_are_described_in_the_order_of_their_names() -> None:
    names = ["b", "c-1", "a", "c"]
    script: dict[ApiKey, list[ScriptedResponse]] = {
        ApiKey.METADATA: [metadata(*names, partitions=1)],
        ApiKey.DESCRIBE_CONFIGS: [configs(*names)],
    }
    lines = [line for line in output_lines(script, "--describe") if not line.startswith("\t")]
    assert [line.split("\t")[0] for line in lines] == [
        f"Topic: {name}" for name in ("a", "b", "c", "c-1")
    ]


def test_leader_that_is_not_alive_is_shown_as_none() -> None:
    script = {
        ApiKey.METADATA: [metadata("a", partitions=1, leader=5)],
        ApiKey.DESCRIBE_CONFIGS: [configs("a")],
    }
    line = "\tTopic: a\tPartition: 0\tLeader: none\tReplicas: 0,5\tIsr: 0\tElr: N/A"
    assert output_lines(script, "--describe", "--unavailable-partitions") == [
        line + "\tLastKnownElr: N/A"
    ]


def page(cursor: Cursor | None, *partitions: tuple[str, int]) -> ScriptedResponse:
    """One response of DescribeTopicPartitions."""
    topics = [
        DescribeTopicPartitionsResponseTopic(
            error_code=0,
            name=name,
            topic_id=ID,
            partitions=[
                DescribeTopicPartitionsResponsePartition(
                    error_code=0,
                    partition_index=index,
                    leader_id=0,
                    replica_nodes=[0],
                    isr_nodes=[0],
                    eligible_leader_replicas=[],
                    last_known_elr=[5],
                    offline_replicas=[],
                )
            ],
        )
        for name, index in partitions
    ]
    body = DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)
    return lambda request: request.response(body)


def test_topics_are_described_in_pages_by_a_broker_that_supports_it() -> None:
    script = {
        ApiKey.METADATA: [metadata("a", "b")],
        ApiKey.DESCRIBE_CONFIGS: [configs("a", "b")],
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
            page(Cursor(topic_name="a", partition_index=1), ("a", 0)),
            page(Cursor(topic_name="b", partition_index=0), ("a", 1)),
            page(None, ("b", 0)),
        ],
    }
    lines = output_lines(script, "--describe", "--partition-size-limit-per-response", "1")
    tail = "Leader: 0\tReplicas: 0\tIsr: 0\tElr: \tLastKnownElr: 5"
    counts = "ReplicationFactor: 1\tConfigs: retention.ms=9"
    assert lines == [
        f"Topic: a\tTopicId: ID\tPartitionCount: 2\t{counts}",
        f"\tTopic: a\tPartition: 0\t{tail}",
        f"\tTopic: a\tPartition: 1\t{tail}",
        f"Topic: b\tTopicId: ID\tPartitionCount: 1\t{counts}",
        f"\tTopic: b\tPartition: 0\t{tail}",
    ]


def test_broker_that_repeats_a_page_is_an_error() -> None:
    script = {
        ApiKey.METADATA: [metadata("a")],
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
            page(Cursor(topic_name="a", partition_index=1), ("a", 0))
        ],
    }
    with scripted_broker(script) as broker:
        result = our_tool(["--bootstrap-server", broker.bootstrap, "--describe"])
    assert result.exit_code == 1
    assert result.output == (
        "Error while executing topic command : The broker repeats a page of partitions.\n"
    )


def test_internal_topics_are_left_out_on_request() -> None:
    script = {ApiKey.METADATA: [metadata("__consumer_offsets", "a")]}
    assert output_lines(script, "--list") == ["__consumer_offsets", "a"]
    assert output_lines(script, "--list", "--exclude-internal") == ["a"]
    words = ["--describe", "--topic", "__.*", "--exclude-internal", "--if-exists"]
    assert output_lines(script, *words) == []


def test_error_without_a_message_has_the_text_of_its_code() -> None:
    result = CreatableTopicResult(name="a", error_code=7, error_message=None, configs=None)
    body = CreateTopicsResponse(topics=[result])
    script: dict[ApiKey, list[ScriptedResponse]] = {
        ApiKey.CREATE_TOPICS: [lambda request: request.response(body)]
    }
    with scripted_broker(script) as broker:
        done = our_tool(["--bootstrap-server", broker.bootstrap, "--create", "--topic", "a"])
    assert (done.exit_code, done.output) == (
        1,
        "Error while executing topic command : The request timed out.\n",
    )


@pytest.mark.parametrize("address", ["", ":", "host:port", "/kafka"])
def test_invalid_zookeeper_address_is_an_error(address: str) -> None:
    result = our_tool(["--zookeeper", address, "--list"])
    assert (result.exit_code, result.output) == (1, "")
    assert result.errors.startswith(f"'{address}' is not an address of ZooKeeper: ")
    assert result.errors.count("\n") == 1
