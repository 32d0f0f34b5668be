"""Requests that ask for much: one that names many things, or many of them in one packet."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.describe_topic_partitions import TopicRequest as TopicToDescribe
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NAMES: Final = 60_000
ZERO_ID: Final = UUID(int=0)

names = [f"name-{number}" for number in range(NAMES)]


def named_topics(count: int) -> list[MetadataRequestTopic]:
    """Of the first names."""
    return [MetadataRequestTopic(name=name) for name in names[:count]]


def offsets_to_fetch(group: str, topic: str, partitions: int) -> OffsetFetchRequest:
    """Of one group and topic."""
    named = OffsetFetchRequestTopic(name=topic, partition_indexes=list(range(partitions)))
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[named])])


def offsets_to_delete(group: str, topic: str, partitions: int) -> OffsetDeleteRequest:
    """Of one group and topic."""
    numbers = [OffsetDeleteRequestPartition(partition_index=number) for number in range(partitions)]
    named = OffsetDeleteRequestTopic(name=topic, partitions=numbers)
    return OffsetDeleteRequest(group_id=group, topics=[named])


REQUESTS: Final[dict[str, tuple[Any, int]]] = {
    "metadata of unknown names": (
        MetadataRequest(topics=named_topics(NAMES), allow_auto_topic_creation=False),
        9,
    ),
    "metadata that makes topics": (MetadataRequest(topics=named_topics(2_000)), 9),
    "coordinators": (FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4),
    "unknown groups": (DescribeGroupsRequest(groups=names), 5),
    "unknown new groups": (
        ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False),
        0,
    ),
    "groups to delete": (DeleteGroupsRequest(groups_names=names), 2),
    "all groups": (ListGroupsRequest(states_filter=names), 4),
    "one topic's configs again and again": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=2, resource_name="topic", configuration_keys=[str(number)]
                )
                for number in range(5_000)
            ]
        ),
        4,
    ),
    "fetch of unknown partitions": (
        FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic="nothing",
                    partitions=[
                        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=100)
                        for number in range(NAMES)
                    ],
                )
            ],
        ),
        12,
    ),
    "offsets of unknown partitions": (
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="nothing",
                    partitions=[
                        ListOffsetsPartition(partition_index=number, timestamp_ms=-1)
                        for number in range(NAMES)
                    ],
                )
            ],
        ),
        6,
    ),
    "commits to unknown partitions": (
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name="nothing",
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number, committed_offset=1, committed_metadata=""
                        )
                        for number in range(NAMES // 3)
                    ],
                )
            ],
        ),
        8,
    ),
    "committed offsets of many groups": (
        OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        ),
        8,
    ),
    "committed offsets of many partitions": (offsets_to_fetch("g", "topic", NAMES), 8),
    "offsets to delete": (offsets_to_delete("g", "nothing", NAMES), 0),
    "records to delete": (
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="nothing",
                    partitions=[
                        DeleteRecordsPartition(partition_index=number, offset=0)
                        for number in range(NAMES)
                    ],
                )
            ],
            timeout_ms=1_000,
        ),
        2,
    ),
    "ends of epochs": (
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="nothing",
                    partitions=[
                        OffsetForLeaderPartition(partition=number, leader_epoch=0)
                        for number in range(NAMES)
                    ],
                )
            ]
        ),
        4,
    ),
    "producers": (
        DescribeProducersRequest(
            topics=[TopicRequest(name="nothing", partition_indexes=list(range(NAMES)))]
        ),
        0,
    ),
    "topics page by page": (
        DescribeTopicPartitionsRequest(topics=[TopicToDescribe(name=name) for name in names]),
        0,
    ),
    "log dirs": (
        DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic="nothing", partitions=list(range(NAMES)))]
        ),
        2,
    ),
    "topics to delete": (
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=ZERO_ID) for name in names[:20_000]],
            timeout_ms=60_000,
        ),
        6,
    ),
    "partitions of unknown topics": (
        CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=1, assignments=None)
                for name in names[:10_000]
            ],
            timeout_ms=60_000,
            validate_only=False,
        ),
        3,
    ),
    "topics to validate": (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name, num_partitions=10, replication_factor=1, assignments=[], configs=[]
                )
                for name in names[:1_000]
            ],
            timeout_ms=60_000,
            validate_only=True,
        ),
        7,
    ),
    "too many topics to make": (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
                for name in names
            ]
        ),
        7,
    ),
    "configs of unknown topics": (
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=2, resource_name=name, configs=[])
                for name in names[:5_000]
            ],
            validate_only=True,
        ),
        2,
    ),
    "single configs of unknown topics": (
        IncrementalAlterConfigsRequest(
            resources=[
                IncrementalResource(
                    resource_type=2,
                    resource_name=name,
                    configs=[
                        AlterableConfig(name="retention.ms", config_operation=0, value="1000")
                    ],
                )
                for name in names[:5_000]
            ],
            validate_only=False,
        ),
        1,
    ),
    "batches for nowhere": (
        ProduceRequest(
            acks=1,
            timeout_ms=1_000,
            topic_data=[
                TopicProduceData(
                    name="nothing",
                    partition_data=[
                        PartitionProduceData(index=number, records=memoryview(b""))
                        for number in range(19_000)
                    ],
                )
            ],
        ),
        9,
    ),
}
"""One request each, and its version."""

PIPELINED: Final[dict[str, tuple[Any, int, int]]] = {
    "metadata": (MetadataRequest(topics=None), 9, 1_000),
    "api versions": (ApiVersionsRequest(), 0, 5_000),
    "coordinator": (FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4, 5_000),
    "configs": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=2, resource_name="topic", configuration_keys=None
                )
            ]
        ),
        4,
        1_000,
    ),
    "a new topic each": (MetadataRequest(topics=named_topics(1)), 9, 300),
    "topics to validate": (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="never",
                    num_partitions=2_000,
                    replication_factor=1,
                    assignments=[],
                    configs=[],
                )
            ],
            validate_only=True,
        ),
        7,
        100,
    ),
    "single configs": (
        IncrementalAlterConfigsRequest(
            resources=[
                IncrementalResource(
                    resource_type=2,
                    resource_name="topic",
                    configs=[
                        AlterableConfig(name="retention.ms", config_operation=0, value="100000")
                    ],
                )
            ],
            validate_only=False,
        ),
        1,
        100,
    ),
}
"""A request, its version, and how many of them are sent at once."""
