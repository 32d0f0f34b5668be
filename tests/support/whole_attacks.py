"""Requests one part of which has as many elements as it may, or that are decided as a whole."""

from __future__ import annotations

from typing import Any, Final

from odradek.broker.handlers.shared.table import WHOLE_ELEMENTS_MAX
from odradek.protocol.messages.alter_configs import AlterableConfig as WrittenConfig
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.attacks import offsets_to_delete, offsets_to_fetch

ELEMENTS: Final = 199_000
MEMBER_TIMEOUT_MS: Final = 10_000

names: Final = [f"name-{number}" for number in range(ELEMENTS)]


def _reassignment(partitions: list[ReassignablePartition]) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="topic", partitions=partitions)]
    )


def whole_requests(count: int) -> dict[str, tuple[Any, int]]:
    """Requests that are decided as a whole, with that many elements in their largest array."""
    return _to_coordinators(count) | _to_the_controller(count)


def _to_coordinators(count: int) -> dict[str, tuple[Any, int]]:
    return {
        "members of a group to remove": (
            LeaveGroupRequest(
                group_id="g",
                members=[
                    MemberIdentity(member_id=name, group_instance_id=None) for name in names[:count]
                ],
            ),
            5,
        ),
        "assignments of a group": (
            SyncGroupRequest(
                group_id="g",
                generation_id=1,
                member_id="m",
                assignments=[
                    SyncGroupRequestAssignment(member_id=name, assignment=b"")
                    for name in names[:count]
                ],
            ),
            3,
        ),
        "protocols of a member": (
            JoinGroupRequest(
                group_id="protocols",
                session_timeout_ms=MEMBER_TIMEOUT_MS,
                rebalance_timeout_ms=MEMBER_TIMEOUT_MS,
                member_id="",
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequestProtocol(name=name, metadata=b"") for name in names[:count]
                ],
            ),
            3,
        ),
        "subscribed names": (
            ConsumerGroupHeartbeatRequest(
                group_id="subscribed",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=MEMBER_TIMEOUT_MS,
                subscribed_topic_names=names[:count],
                topic_partitions=[],
            ),
            0,
        ),
    }


def _to_the_controller(count: int) -> dict[str, tuple[Any, int]]:
    return {
        "features": (
            UpdateFeaturesRequest(
                feature_updates=[
                    FeatureUpdateKey(feature=name, max_version_level=1) for name in names[:count]
                ]
            ),
            1,
        ),
        "leaders to elect": (
            ElectLeadersRequest(
                topic_partitions=[
                    TopicPartitions(topic="topic", partitions=list(range(count - 1)))
                ],
                timeout_ms=1_000,
            ),
            2,
        ),
        "reassignments to cancel": (
            _reassignment(
                [ReassignablePartition(partition_index=number) for number in range(count - 1)]
            ),
            0,
        ),
        "replicas of one partition": (
            _reassignment([ReassignablePartition(partition_index=0, replicas=[*range(count - 2)])]),
            0,
        ),
        "reassignments under way": (
            ListPartitionReassignmentsRequest(
                topics=[
                    ListPartitionReassignmentsTopics(
                        name="topic", partition_indexes=list(range(count - 1))
                    )
                ]
            ),
            0,
        ),
    }


WHOLE_REQUESTS: Final = whole_requests(WHOLE_ELEMENTS_MAX)

WIDE_REQUESTS: Final[dict[str, tuple[Any, int]]] = {
    "offsets of a known group to delete": (offsets_to_delete("known", "topic", ELEMENTS // 2), 0),
    "offsets of all partitions that a group may have": (
        offsets_to_fetch("known", "topic", ELEMENTS),
        8,
    ),
    "offsets of many topics of a group": (
        OffsetFetchRequest(
            group_id="known",
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=[0])
                for name in names[: ELEMENTS // 2]
            ],
        ),
        1,
    ),
    "settings of one topic": (
        IncrementalAlterConfigsRequest(
            resources=[
                IncrementalResource(
                    resource_type=2,
                    resource_name="topic",
                    configs=[
                        AlterableConfig(name=name, config_operation=1, value=None) for name in names
                    ],
                )
            ],
            validate_only=False,
        ),
        1,
    ),
    "settings of the broker": (
        IncrementalAlterConfigsRequest(
            resources=[
                IncrementalResource(
                    resource_type=4,
                    resource_name="0",
                    configs=[
                        AlterableConfig(name=name, config_operation=0, value="1") for name in names
                    ],
                )
            ],
            validate_only=False,
        ),
        1,
    ),
    "settings of one topic to replace": (
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2,
                    resource_name="topic",
                    configs=[WrittenConfig(name=name, value="1") for name in names],
                )
            ],
            validate_only=False,
        ),
        2,
    ),
    "settings of the broker by name": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=4, resource_name="0", configuration_keys=names
                )
            ]
        ),
        4,
    ),
    "partitions of many topics": (
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names[: ELEMENTS // 3]]
        ),
        0,
    ),
}
"""Their handlers work in steps, or refuse one part."""
