"""What the fetchers of a node go by: limits from its settings, and the newest in-sync replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.replication.partition import Partition
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.controller.image.metadata_cache import MetadataCache

if TYPE_CHECKING:
    from odradek.broker.replication.follower.fetcher_state import FetchLimits


def fetch_limits(settings: BrokerSettings) -> FetchLimits:
    """The limits that the settings `replica.fetch.*` give."""
    from odradek.broker.replication.follower.fetcher_state import FetchLimits

    return FetchLimits(
        max_bytes=settings.replica_fetch_response_max_bytes,
        partition_max_bytes=settings.replica_fetch_max_bytes,
        min_bytes=settings.replica_fetch_min_bytes,
        max_wait_ms=settings.replica_fetch_wait_max_ms,
        backoff_ms=settings.replica_fetch_backoff_ms,
    )


def newest_in_sync_replicas(metadata: MetadataCache, partition: Partition) -> tuple[int, ...]:
    """The in-sync replicas by the newest state that this broker has heard of.

    The controller sends a change to followers by UpdateMetadata only.
    """
    cached = metadata.image.partition(partition.topic, partition.index)
    state = None if cached is None else cached.state
    if (
        state is None
        or state.leader_epoch < partition.leader_epoch
        or state.partition_epoch <= partition.partition_epoch
    ):
        return partition.in_sync
    return state.isr
