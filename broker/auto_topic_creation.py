"""Creates topics on first use: those that clients produce to, and internal ones.

Source: Kafka's AutoTopicCreationManager.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.broker_settings import BrokerSettings, CurrentSettings
from odradek.broker.topics import OFFSETS_TOPIC
from odradek.controller.active.topic_admin import Charge, Requester, TopicResult, free_of_charge
from odradek.controller.controller import Controller
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.image.image import INTERNAL_TOPICS
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending

REPLICATION_FACTOR_MAX: Final = 32_767
UNDER_WAY_MAX: Final = 1_000
"""Topics that are being created at a time; clients must retry for more."""


class AutoTopicCreation:
    """The creations under way, by topic (Kafka: inflightTopics)."""

    def __init__(self, controller: Controller, settings: CurrentSettings) -> None:
        self._controller = controller
        self._settings = settings
        self._under_way: dict[str, Pending[TopicResult]] = {}

    def create(
        self, name: str, requester: str, charge: Charge = free_of_charge
    ) -> Pending[TopicResult]:
        """Begin to create a topic, or join the creation that is under way.

        Done when the topic is stored; the image has it after the controller's next UpdateMetadata.
        requester  the client, for the log
        charge     counts the partitions, and may refuse them
        fails      BrokerError LEADER_NOT_AVAILABLE beyond `UNDER_WAY_MAX`
        """
        creation = self._under_way.get(name)
        if creation is not None:
            return creation
        if len(self._under_way) >= UNDER_WAY_MAX:
            return Pending.failed(BrokerError(ErrorCode.LEADER_NOT_AVAILABLE))

        def forget(_: Pending[TopicResult]) -> None:
            del self._under_way[name]

        live_count = len(self._controller.image.live_brokers())
        topic = first_use_topic(name, self._settings.value, broker_count=live_count)
        creation = self._controller.admin.auto_create_topic(topic, Requester(requester, charge))
        self._under_way[name] = creation
        creation.on_done(forget)
        return creation


def first_use_topic(topic: str, settings: BrokerSettings, *, broker_count: int) -> CreateTopicSpec:
    """The settings of a topic that is created on first use (Kafka: creatableTopic).

    broker_count  live brokers, the largest replication factor of an internal topic without
                  zookeeper.connect, unless the settings name several controllers.
                  Differs from Kafka, which creates no internal topic while there are fewer brokers
                  than its replication factor (KIP-115): with embedded coordination there is one
    """
    quorum = settings.quorum
    is_alone = settings.zookeeper_connect is None and (
        quorum is None or quorum.controller_count < 2
    )
    largest = broker_count if is_alone else REPLICATION_FACTOR_MAX
    if topic not in INTERNAL_TOPICS:
        return CreateTopicSpec(topic)
    if topic == OFFSETS_TOPIC:
        return CreateTopicSpec(
            topic,
            partitions=settings.offsets_topic_num_partitions,
            replication_factor=min(settings.offsets_topic_replication_factor, largest),
            config={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    return CreateTopicSpec(
        topic,
        partitions=settings.transaction_state_log_num_partitions,
        replication_factor=min(settings.transaction_state_log_replication_factor, largest),
        config={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
