"""What `restore --bootstrap-server` does: topics before their logs are restored, the rest after.

The topics are created with configs that keep every record, so that no retention and no cleaning
takes place before the logs have been compared with the backup; then they get their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.backup.errors import BackupError
from odradek.tools.backup.manifest import Manifest, TopicBackup
from odradek.tools.client import Client
from odradek.tools.consumer_groups.group_offsets import OffsetWithMetadata, commit
from odradek.tools.errors import partition_text, refused, timed_out
from odradek.tools.partition_offsets import list_offsets
from odradek.tools.topics.requests import create_topics, new_topic

TOPIC_RESOURCE: Final = 2
SET: Final = 0
DELETE: Final = 1
HELD: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""Configs of a topic until its logs are compared with the backup."""


class TopicState(StrEnum):
    """What a cluster has of a topic."""

    MISSING = "missing"
    EMPTY = "empty"
    RESTORED = "restored"


class RestoredTopics:
    """Brings a cluster to the state of a backup, but for the logs."""

    def __init__(self, client: Client, manifest: Manifest) -> None:
        self._client = client
        self._manifest = manifest

    def states(self) -> dict[str, TopicState]:
        """The state of each topic.

        raises  BackupError for a topic with other records or partitions; ToolError
        """
        counts = {topic.name: len(topic.partitions) for topic in self._client.metadata().topics}
        states = {}
        for name, topic in self._manifest.topics.items():
            if name not in counts:
                states[name] = TopicState.MISSING
            elif counts[name] != len(topic.partitions):
                raise BackupError(
                    f"topic {name} exists with {counts[name]} partitions, the backup has "
                    f"{len(topic.partitions)}: delete it"
                )
            else:
                states[name] = self._state(name, topic)
        return states

    def _state(self, name: str, topic: TopicBackup) -> TopicState:
        places = [TopicPartition(name, row.partition) for row in topic.partitions]
        starts = list_offsets(self._client, places, EARLIEST_TIMESTAMP)
        ends = list_offsets(self._client, places, LATEST_TIMESTAMP)
        state = TopicState.RESTORED
        for place, row in zip(places, topic.partitions, strict=True):
            bounds = starts[place], ends[place]
            if bounds == (row.start_offset, row.end_offset):
                continue
            if bounds != (0, 0):
                raise BackupError(
                    f"{partition_text(place)} has offsets {bounds[0]} to {bounds[1]}, the backup "
                    f"{row.start_offset} to {row.end_offset}: a backup is restored into new topics"
                )
            state = TopicState.EMPTY
        return state

    def create(self, names: Sequence[str], replication_factor: int | None) -> bool:
        """Create topics whose configs keep every record.

        replication_factor  None: that of the backup, at most the number of brokers
        returns             False when all of them exist: the broker that was asked has just
                            started, and knows them now
        raises              ToolError
        """
        brokers = len(self._client.metadata([]).brokers)
        topics = [
            new_topic(
                name,
                len(topic.partitions),
                replication_factor or min(topic.replication_factor, brokers),
                configs={**topic.configs, **HELD},
            )
            for name, topic in self._manifest.topics.items()
            if name in names
        ]
        existing = []
        for topic in create_topics(self._client, topics):
            if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                existing.append(topic.name)
            elif topic.error_code:
                raise BackupError(
                    f"topic {topic.name}: {refused(topic.error_code, topic.error_message)}"
                )
        self._await_topics(existing)
        return len(existing) < len(names)

    def _await_topics(self, names: Sequence[str]) -> None:
        def attempt() -> bool | None:
            current = {topic.name for topic in self._client.metadata().topics}
            return True if current.issuperset(names) else None

        if self._client.retry(attempt) is None:
            raise timed_out("The brokers do not know topics that exist.")

    def commit_offsets(self) -> None:
        """Commit the offsets of all groups; those above the end of a log are lowered to it.

        raises  ToolError
        """
        ends = {place: row.end_offset for place, row in self._manifest.partitions()}
        for group, rows in self._manifest.groups.items():
            offsets = {}
            for row in rows:
                place = TopicPartition(row.topic, row.partition)
                if place in ends:
                    offsets[place] = OffsetWithMetadata(min(row.offset, ends[place]), row.metadata)
            if offsets:
                commit(self._client, group, offsets)

    def set_configs(self) -> None:
        """Give the topics their own configs; retention and cleaning go on from here.

        raises  ToolError
        """
        resources = [
            AlterConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=name,
                configs=[
                    *(
                        AlterableConfig(name=key, config_operation=SET, value=value)
                        for key, value in topic.configs.items()
                    ),
                    *(
                        AlterableConfig(name=key, config_operation=DELETE, value=None)
                        for key in HELD
                        if key not in topic.configs
                    ),
                ],
            )
            for name, topic in self._manifest.topics.items()
        ]
        response = self._client.any_broker(
            IncrementalAlterConfigsRequest(resources=resources, validate_only=False),
            IncrementalAlterConfigsResponse,
        )
        for result in response.responses:
            if result.error_code:
                raise BackupError(
                    f"topic {result.resource_name}: "
                    f"{refused(result.error_code, result.error_message)}"
                )
