"""Makes the group coordinator of a node, and reports to it which offsets partitions it leads."""

from __future__ import annotations

from odradek.broker.group.context import GroupContext
from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.group.limits import GroupLimits
from odradek.broker.group.unreadable import refuse_setting
from odradek.broker.node.platform import Platform
from odradek.broker.replication.leadership import LeadershipObserver
from odradek.broker.replication.partition import Partition
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.groups import (
    CONSUMER,
    ConsumerGroupSettings,
    MigrationPolicy,
    assignment_interval_ms,
    assignor_names,
)
from odradek.broker.topics import OFFSETS_TOPIC, Topics
from odradek.broker.transaction.coordinator import TransactionCoordinator

MINUTE_MS = 60_000


class CoordinatorLeadership(LeadershipObserver):
    """Reports to a coordinator which partitions of its topic this broker leads."""

    def __init__(self, topic: str, coordinator: GroupCoordinator | TransactionCoordinator) -> None:
        self._topic = topic
        self._coordinator = coordinator

    def on_leader_change(self, partition: Partition) -> None:
        """Load what the partition stores when this broker leads it, else unload it."""
        if partition.topic != self._topic:
            return
        if partition.leader is None:
            self._coordinator.resign(partition.index)
        else:
            self._coordinator.lead(partition)


class GroupLeadership(CoordinatorLeadership):
    """Reports deleted partitions, too, but no deleted logs: a partition whose replica has moved to
    another broker keeps its committed offsets."""

    def __init__(self, groups: GroupCoordinator) -> None:
        super().__init__(OFFSETS_TOPIC, groups)
        self._groups = groups

    def on_partition_deleted(self, topic: str, index: int) -> None:
        """Have the groups forget their offsets of the partition."""
        self._groups.on_partition_deleted(topic, index)


def build_group_coordinator(
    platform: Platform, settings: BrokerSettings, topics: Topics
) -> GroupCoordinator:
    """The coordinator, with the settings of the start: those of groups are read-only."""
    context = GroupContext(
        platform.purgatory,
        platform.wheel,
        platform.clock,
        GroupLimits(
            initial_delay_ms=settings.group_initial_rebalance_delay_ms,
            session_min_ms=settings.group_min_session_timeout_ms,
            session_max_ms=settings.group_max_session_timeout_ms,
            members_max=settings.group_max_size,
            metadata_bytes_max=settings.offset_metadata_max_bytes,
        ),
        codec=settings.offsets_topic_compression_codec,
        commit_timeout_ms=settings.offsets_commit_timeout_ms,
        consumer=consumer_settings(settings),
        refuse=refuse_setting(settings.written),
    )
    return GroupCoordinator(
        context,
        topics,
        platform.rng,
        partition_count=settings.offsets_topic_num_partitions,
        retention_ms=settings.offsets_retention_minutes * MINUTE_MS,
    )


def consumer_settings(settings: BrokerSettings) -> ConsumerGroupSettings:
    """The settings of groups of the consumer protocol."""
    return ConsumerGroupSettings(
        is_served=CONSUMER in settings.group_coordinator_rebalance_protocols,
        session_timeout_ms=settings.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        assignment_interval_ms=assignment_interval_ms(settings.written),
        members_max=settings.group_consumer_max_size,
        classic_members_max=settings.group_max_size,
        assignors=assignor_names(settings.group_consumer_assignors),
        migration=MigrationPolicy(settings.group_consumer_migration_policy.lower()),
    )
