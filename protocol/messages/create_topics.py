"""CreateTopics (key 19): creates topics.

    1   error message, dry run
    2   throttle time
    4   -1 partitions or replicas mean the broker's defaults (KIP-464)
    5   flexible encoding (KIP-482); what was created, with its configuration (KIP-525)
    6   the client understands THROTTLING_QUOTA_EXCEEDED (KIP-599)
    7   topic id (KIP-516)

Source: kafka.apache.org/protocol, CreateTopics.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class CreatableReplicaAssignment:
    partition_index: int = field("int32", "0+")
    broker_ids: list[int] = field(["int32"], "0+")


@nested
class CreatableTopicConfig:
    name: str = field("string", "0+")
    value: str | None = field("string", "0+", nullable="0+")


@nested
class CreatableTopic:
    name: str = field("string", "0+")
    num_partitions: int = field("int32", "0+")
    """-1 with assignments, or for the default of the broker."""
    replication_factor: int = field("int16", "0+")
    """-1 with assignments, or for the default of the broker."""
    assignments: list[CreatableReplicaAssignment] = field([CreatableReplicaAssignment], "0+")
    configs: list[CreatableTopicConfig] = field([CreatableTopicConfig], "0+")


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field([CreatableTopic], "0+")
    timeout_ms: int = field("int32", "0+", default=60000)
    """How long to wait until the partitions can serve."""
    validate_only: bool = field("bool", "1+", default=False)
    """Check and create nothing."""


@nested
class CreatableTopicConfigs:
    name: str = field("string", "0+")
    value: str | None = field("string", "0+", nullable="0+")
    read_only: bool = field("bool", "0+")
    config_source: int = field("int8", "0+", default=-1)
    is_sensitive: bool = field("bool", "0+")


@nested
class CreatableTopicResult:
    name: str = field("string", "0+")
    topic_id: Uuid = field("uuid", "7+", default=ZERO_UUID)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "1+", nullable="1+", default=None)
    topic_config_error_code: int = field("int16", "5+", tag=0, default=0)
    """Set when the caller may not see the configuration."""
    num_partitions: int = field("int32", "5+", default=-1)
    """-1 if unknown."""
    replication_factor: int = field("int16", "5+", default=-1)
    """-1 if unknown."""
    configs: list[CreatableTopicConfigs] | None = field(
        [CreatableTopicConfigs], "5+", nullable="5+", default=None
    )


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: int = field("int32", "2+", default=0)
    topics: list[CreatableTopicResult] = field([CreatableTopicResult], "0+")
