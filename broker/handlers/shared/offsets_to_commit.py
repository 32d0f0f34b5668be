"""What OffsetCommit and TxnOffsetCommit have in common: the check of each partition's offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.handlers.shared.authorization import refused_names
from odradek.broker.handlers.shared.handler import Context
from odradek.broker.security.acl.permission import READ_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause

OffsetErrors = dict[tuple[str, int], ErrorCode]
"""By topic and partition; plain tuples, since a request may name a million partitions."""


class RequestedOffset(Protocol):
    """A partition of either request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class RequestedTopic(Protocol):
    """A topic of either request."""

    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> Sequence[RequestedOffset]: ...


class OffsetsToCommit(NamedTuple):
    """What may be stored, and what not."""

    commits: dict[TopicPartition, OffsetAndMetadata]
    errors: OffsetErrors
    """Why the other partitions of the request are refused."""
    has_known: bool
    """Whether any partition of the request exists."""


async def check_offsets(
    context: Context, topics: Sequence[RequestedTopic], *, expire_ms: int = -1
) -> OffsetsToCommit:
    """Check each offset.

    expire_ms  when the offsets expire; -1: as the broker says
    """
    services = context.services
    refused = refused_names(context, READ_TOPIC, [topic.name for topic in topics])
    metadata_bytes_max = services.groups.limits.metadata_bytes_max
    commits: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: OffsetErrors = {}
    has_known = False
    for topic in topics:
        for partition in topic.partitions:
            await pause()
            key = (topic.name, partition.partition_index)
            if topic.name in refused:
                errors[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            if services.topics.absence(*key) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            has_known = True
            metadata = partition.committed_metadata or ""
            if java_length(metadata) > metadata_bytes_max:
                errors[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            commits[TopicPartition(*key)] = OffsetAndMetadata(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                context.now_ms,
                expire_ms,
            )
    return OffsetsToCommit(commits, errors, has_known)


def java_length(text: str) -> int:
    """The length as Kafka bounds it: in UTF-16 code units."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def error_of(errors: OffsetErrors, key: tuple[str, int], coordinator_error: ErrorCode) -> ErrorCode:
    """The error of one partition.

    coordinator_error  that of the whole commit; it replaces the check of the metadata
    """
    own = errors.get(key, coordinator_error)
    if own is ErrorCode.OFFSET_METADATA_TOO_LARGE and coordinator_error:
        return coordinator_error
    return own
