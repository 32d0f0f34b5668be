"""What topics are created as on first use."""

from __future__ import annotations

from odradek.broker.group.coordinator import OFFSETS_TOPIC
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.topics import INTERNAL_TOPICS
from odradek.controller.decide.topics import CreateTopic


def first_use_topic(topic: str, settings: BrokerSettings, *, broker_count: int) -> CreateTopic:
    """The topic that is created on first use.

    Internal topics bring their own settings (Kafka: AutoTopicCreationManager.creatableTopic).

    broker_count  brokers alive.  Differs from Kafka, which creates no internal topic before there
                  are as many as its replication factor (KIP-115), and whose default is 3: with
                  embedded coordination there are never more, so each gets a replica
    """
    if topic not in INTERNAL_TOPICS:
        return CreateTopic(topic)
    if topic == OFFSETS_TOPIC:
        return CreateTopic(
            topic,
            partitions=settings.offsets_topic_num_partitions,
            replication_factor=min(settings.offsets_topic_replication_factor, broker_count),
            config={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    return CreateTopic(
        topic,
        partitions=settings.transaction_state_log_num_partitions,
        replication_factor=min(settings.transaction_state_log_replication_factor, broker_count),
        config={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
