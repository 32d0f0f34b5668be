"""Partitions in the embedded protocol of classic consumers, by topic name instead of topic id.

For the classic members of a consumer group the coordinator does what their leader did: it reads
subscriptions and writes assignments.

Pure.  Source: Kafka's ConsumerProtocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.broker.group.classic.consumer_protocol import VERSION
from odradek.broker.group.consumer.model import Assignment
from odradek.broker.group.consumer.reconcile import ReportedPartitions
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.protocol.compiler import encoder
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolAssignment, TopicPartition


def write_assignment(
    partitions: Assignment | Mapping[Any, Mapping[int, int]], topics: TopicDirectory, version: int
) -> bytes:
    """A member's assignment; topics that do not exist are left out."""
    assigned = [
        TopicPartition(topic=facts.name, partitions=list(indexes))
        for topic_id, indexes in partitions.items()
        if (facts := topics.by_id(topic_id)) is not None
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return VERSION.pack(version) + encoder(ConsumerProtocolAssignment, version)(message)


def by_id(partitions: list[TopicPartition], topics: TopicDirectory) -> ReportedPartitions:
    """Partitions by topic id; topics that do not exist are left out."""
    return [
        (facts.topic_id, topic_partitions.partitions)
        for topic_partitions in partitions
        if (facts := topics.by_name(topic_partitions.topic)) is not None
    ]
