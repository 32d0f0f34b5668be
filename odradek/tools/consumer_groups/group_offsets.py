"""Read, commit and delete the offsets of groups, and delete groups.

Source: Kafka 3.9's admin client (ListConsumerGroupOffsetsHandler, AlterConsumerGroupOffsetsHandler,
DeleteConsumerGroupsHandler, DeleteConsumerGroupOffsetsHandler), in its request versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.find_coordinator import Coordinator
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client
from odradek.tools.consumer_groups.coordinators import RETRIED, ask_coordinator, ask_coordinators
from odradek.tools.errors import KafkaError, partition_text, refused

GROUPS_AT_ONCE: Final = 8
"""The first version of OffsetFetch that takes several groups."""
NAMED_TOPICS_VERSION: Final = 9
"""The last version of OffsetFetch and OffsetCommit that names topics; later ones use topic ids."""


class OffsetWithMetadata(NamedTuple):
    """A committed offset, and the text that the client has committed with it."""

    offset: int
    metadata: str = ""


def committed_offsets(client: Client, group: str) -> dict[TopicPartition, int]:
    """The committed offsets of a group, sorted by partition.

    raises  KafkaError, ClientError
    """
    offsets = ask_coordinator(client, group, _ask_for_offsets)
    return {partition: offsets[partition].offset for partition in sorted(offsets)}


def committed_offsets_of(
    client: Client, groups: Iterable[str]
) -> dict[str, dict[TopicPartition, int] | KafkaError]:
    """The committed offsets of groups, or why they are not known; raises ClientError."""
    return {
        group: rows
        if isinstance(rows, KafkaError)
        else {partition: row.offset for partition, row in rows.items()}
        for group, rows in committed_of(client, groups).items()
    }


def lag_of(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Records after the committed offsets, of partitions whose end is known."""
    return sum(max(0, ends[key] - offset) for key, offset in offsets.items() if key in ends)


def committed_of(
    client: Client, groups: Iterable[str]
) -> dict[str, dict[TopicPartition, OffsetWithMetadata] | KafkaError]:
    """`committed_offsets_of` with the metadata of each offset; raises ClientError."""
    return ask_coordinators(client, groups, _ask_for_offsets)


def _ask_for_offsets(
    connection: BrokerConnection, groups: list[str], _: Coordinator
) -> dict[str, Any]:
    version = min(connection.version_of(OffsetFetchRequest), NAMED_TOPICS_VERSION)
    offsets: dict[str, Any] = {}
    for together in [groups] if version >= GROUPS_AT_ONCE else [[group] for group in groups]:
        request = OffsetFetchRequest(
            group_id=together[0],
            topics=None,
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in together],
        )
        response = connection.request(request, OffsetFetchResponse, version)
        if version < GROUPS_AT_ONCE:
            offsets |= _offsets_of(together[0], response)
        for part in response.groups:
            offsets |= _offsets_of(part.group_id, part)
    return offsets


def _offsets_of(group: str, part: OffsetFetchResponse | OffsetFetchResponseGroup) -> dict[str, Any]:
    if part.error_code in RETRIED:
        return {}
    if part.error_code:
        return {group: refused(part.error_code)}
    return {
        group: {
            TopicPartition(topic.name, partition.partition_index): OffsetWithMetadata(
                partition.committed_offset, partition.metadata or ""
            )
            for topic in part.topics
            for partition in topic.partitions
            if not partition.error_code and partition.committed_offset >= 0
        }
    }


def commit_offsets(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group that has no members, without metadata.

    raises  KafkaError, ClientError
    """
    commit(client, group, {place: OffsetWithMetadata(offset) for place, offset in offsets.items()})


def commit(
    client: Client, group: str, offsets: Mapping[TopicPartition, OffsetWithMetadata]
) -> None:
    """Commit offsets for a group that has no members.

    raises  KafkaError, ClientError
    """
    retried = (*RETRIED, ErrorCode.REBALANCE_IN_PROGRESS)
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, committed in offsets.items():
        topics.setdefault(partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=committed.offset,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()
        ],
    )

    def ask(connection: BrokerConnection, keys: list[str], _: Coordinator) -> dict[str, Any]:
        response = connection.request(request, OffsetCommitResponse, NAMED_TOPICS_VERSION)
        codes = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        return {} if any(code in retried for code in codes.values()) else {group: codes}

    codes = ask_coordinator(client, group, ask)
    failed = [partition for partition in sorted(codes) if codes[partition]]
    if failed:
        partitions = ", ".join(map(partition_text, failed))
        raise refused(
            codes[failed[0]],
            f"Failed altering consumer group offsets for the following partitions: [{partitions}]",
        )


def delete_groups(client: Client, groups: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete groups; the error of each, None for a deleted group, sorted by name.

    raises  ClientError
    """

    def ask(connection: BrokerConnection, keys: list[str], _: Coordinator) -> dict[str, Any]:
        request = DeleteGroupsRequest(groups_names=keys)
        response = connection.request(request, DeleteGroupsResponse)
        return {
            row.group_id: refused(row.error_code) if row.error_code else None
            for row in response.results
            if row.error_code not in RETRIED
        }

    return ask_coordinators(client, groups, ask)


def delete_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Delete committed offsets; the error code of each partition, 0 also when it had no offset.

    raises  KafkaError for an error of the whole group; ClientError
    """
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(
            OffsetDeleteRequestPartition(partition_index=partition.partition)
        )
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=rows) for name, rows in topics.items()
        ],
    )

    def ask(connection: BrokerConnection, keys: list[str], _: Coordinator) -> dict[str, Any]:
        response = connection.request(request, OffsetDeleteResponse)
        if response.error_code in RETRIED:
            return {}
        if response.error_code:
            return {group: refused(response.error_code)}
        codes = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        return {group: codes}

    codes: dict[TopicPartition, int] = ask_coordinator(client, group, ask)
    return codes
