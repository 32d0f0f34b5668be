"""List topics, and describe them with partitions, settings and reassignments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from odradek.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from odradek.tools.client import Client, NotServedError
from odradek.tools.errors import ToolError, error_text
from odradek.tools.topics.render import Config, DescribedPartition, DescribedReassignment, Topic

TOPIC_RESOURCE: Final = 2
DEFAULT_SOURCE: Final = 5
PARTITIONS_PER_RESPONSE: Final = 2000
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)


def check(code: int, message: str | None = None) -> None:
    """Raise ToolError for an error code, unless it is 0."""
    if not code:
        return
    if message:
        raise ToolError(message)
    if code not in list(ErrorCode):
        raise ToolError(f"The broker responds with the unknown error {code}.")
    raise ToolError(error_text(code))


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a `--topic` into a pattern that matches whole names.

    text    surrounding quotes and all blanks are removed; a comma means `|`; text between `\\Q` and
            `\\E` is literal, as in Java
    raises  ToolError
    source  Kafka's TopicFilter.IncludeList
    """
    written = text.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'")
    try:
        return re.compile(_QUOTED.sub(lambda quoted: re.escape(quoted[1]), written))
    except (re.error, OverflowError):
        raise ToolError(f"{written} is an invalid regex.") from None


def find_topics(
    client: Client, pattern: str | None, *, exclude_internal: bool, must_exist: bool
) -> list[str]:
    """The sorted names of the topics that match `pattern`; all topics when it is None.

    raises  ToolError when nothing matches a pattern and `must_exist`
    """
    names = sorted(
        topic.name
        for topic in client.metadata().topics
        if topic.name is not None and not (exclude_internal and topic.is_internal)
    )
    if pattern is not None:
        expression = compile_pattern(pattern)
        names = [name for name in names if expression.fullmatch(name)]
        if not names and pattern and must_exist:
            raise ToolError(f"Topic 'Optional[{pattern}]' does not exist as expected")
    return names


def live_brokers(client: Client) -> list[int]:
    """Ids of the brokers that are alive."""
    return [broker.node_id for broker in client.metadata([]).brokers]


def describe_topics(
    client: Client, names: Sequence[str], live: Sequence[int], partitions_max: int
) -> list[Topic]:
    """Describe topics, in the order of `names`, which is sorted.

    partitions_max  bound on the partitions in one response
    raises          ToolError for a topic that has been deleted meanwhile
    """
    try:
        by_name = _describe_in_pages(client, names, live, partitions_max)
    except NotServedError:
        topics = client.metadata(list(names)).topics
        by_name = {topic.name: _topic(topic, live) for topic in topics if topic.name is not None}
    return [by_name[name] for name in names if name in by_name]


def describe_topic_id(
    client: Client, topic_id: UUID, live: Sequence[int], *, exclude_internal: bool
) -> Topic | None:
    """The topic with this id, or None."""
    for topic in client.metadata().topics:
        if topic.topic_id == topic_id and not (exclude_internal and topic.is_internal):
            return _topic(topic, live)
    return None


def _topic(topic: MetadataResponseTopic, live: Sequence[int]) -> Topic:
    check(topic.error_code)
    assert topic.name is not None, "a topic without an error has its name"
    partitions = [_partition(partition, live, None, None) for partition in topic.partitions]
    return Topic(topic.name, topic.topic_id, sorted(partitions, key=_order))


def _partition(
    partition: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition,
    live: Sequence[int],
    eligible: list[int] | None,
    last_known: list[int] | None,
) -> DescribedPartition:
    return DescribedPartition(
        partition.partition_index,
        partition.leader_id if partition.leader_id in live else None,
        partition.replica_nodes,
        partition.isr_nodes,
        eligible,
        last_known,
    )


def _describe_in_pages(
    client: Client, names: Sequence[str], live: Sequence[int], partitions_max: int
) -> dict[str, Topic]:
    """Use DescribeTopicPartitions (KIP-966), which only brokers of KRaft clusters support."""
    by_name: dict[str, Topic] = {}
    cursor: Cursor | None = None
    while True:
        first = names[0] if cursor is None else cursor.topic_name
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names if name >= first],
            response_partition_limit=partitions_max,
            cursor=cursor,
        )
        response = client.any_broker(request, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            check(topic.error_code)
            assert topic.name is not None, "a topic without an error has its name"
            earlier = by_name[topic.name].partitions if topic.name in by_name else ()
            partitions = [
                _partition(
                    partition, live, partition.eligible_leader_replicas, partition.last_known_elr
                )
                for partition in topic.partitions
            ]
            by_name[topic.name] = Topic(
                topic.name, topic.topic_id, sorted([*earlier, *partitions], key=_order)
            )
        if response.next_cursor is None:
            return by_name
        if response.next_cursor == cursor:
            raise ToolError("The broker repeats a page of partitions.")
        cursor = response.next_cursor


def _order(partition: DescribedPartition) -> int:
    return partition.partition_index


def describe_configs(client: Client, names: Iterable[str]) -> dict[str, dict[str, Config]]:
    """The settings of topics by topic and name, in the order of the response."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
            )
            for name in names
        ]
    )
    response = client.any_broker(request, DescribeConfigsResponse)
    configs: dict[str, dict[str, Config]] = {}
    for result in response.results:
        check(result.error_code, result.error_message)
        configs[result.resource_name] = {
            row.name: Config(row.value, row.config_source == DEFAULT_SOURCE)
            for row in result.configs
        }
    return configs


def reassignments_of(
    client: Client, topics: Sequence[Topic]
) -> dict[tuple[str, int], DescribedReassignment]:
    """The running reassignments, by topic and partition.

    Empty when the broker does not support the API or denies access, as in Kafka's TopicCommand.
    """
    request = ListPartitionReassignmentsRequest(
        timeout_ms=30_000,
        topics=[
            ListPartitionReassignmentsTopics(
                name=topic.name,
                partition_indexes=[partition.partition_index for partition in topic.partitions],
            )
            for topic in topics
        ],
    )
    try:
        response = client.controller(request, ListPartitionReassignmentsResponse)
    except NotServedError:
        return {}
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return {}
    check(response.error_code, response.error_message)
    return {
        (topic.name, partition.partition_index): DescribedReassignment(
            partition.replicas, partition.adding_replicas, partition.removing_replicas
        )
        for topic in response.topics
        for partition in topic.partitions
    }
