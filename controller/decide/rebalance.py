"""Chooses the partitions that go back to their preferred leaders by themselves.  Pure.

Source: Kafka's KafkaController.checkAndTriggerAutoLeaderRebalance.
"""

from __future__ import annotations

from collections.abc import Collection

from odradek.controller.decide.elections import can_preferred_lead
from odradek.controller.image.image import Image, PartitionImage
from odradek.protocol.topic_partition import TopicPartition


def decide_rebalance(
    image: Image, *, deleting: Collection[str], imbalance_percentage: int
) -> list[TopicPartition]:
    """Partitions whose preferred leaders are to be elected.

    deleting              topics that are being deleted, which do not count
    imbalance_percentage  of the partitions that prefer a broker: while at most so many are led by
                          others, the broker is left alone
    """
    preferring: dict[int, int] = {}
    elsewhere: dict[int, list[tuple[str, PartitionImage]]] = {}
    for topic, partition in image.partitions():
        if topic in deleting or not partition.replicas:
            continue
        preferred = partition.replicas[0]
        preferring[preferred] = preferring.get(preferred, 0) + 1
        if partition.state is not None and partition.state.leader != preferred:
            elsewhere.setdefault(preferred, []).append((topic, partition))
    return [
        TopicPartition(topic, partition.partition)
        for broker in sorted(elsewhere)
        if len(elsewhere[broker]) * 100 > imbalance_percentage * preferring[broker]
        for topic, partition in elsewhere[broker]
        if can_preferred_lead(image, topic, partition)
    ]
