"""The metrics of consumer groups: what they have committed, and how far behind they are.

Names and labels are kafka_exporter's, and Kafka's for the numbers of groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.monitoring.exposition import Exposition, gauge, label_text
from odradek.broker.monitoring.lag_times import LagTimes
from odradek.broker.services import Services
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause

OFFSETS_PER_STEP: Final = 100
GROUP_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")
"""Kafka counts the groups of each."""
GROUP_FAMILIES: Final = (
    gauge("kafka_consumergroup_current_offset", "The committed offset of a group."),
    gauge("kafka_consumergroup_lag", "Records behind the high watermark, where a replica is here."),
    gauge("kafka_consumergroup_lag_seconds", "How old the record is that a group reads next."),
    gauge("kafka_consumergroup_current_offset_sum", "Committed offsets of a topic, added up."),
    gauge("kafka_consumergroup_lag_sum", "Lag of a topic in records, added up."),
    gauge("kafka_consumergroup_members", "Members of a group."),
)


class GroupRows:
    """The samples of the groups, as far as they are gathered."""

    def __init__(self) -> None:
        self.offsets: list[tuple[str, int]] = []
        self.lags: list[tuple[str, int]] = []
        self.lag_seconds: list[tuple[str, float]] = []
        self.offset_sums: Counter[str] = Counter()
        self.lag_sums: Counter[str] = Counter()
        self.members: list[tuple[str, int]] = []
        self.states: Counter[str] = Counter(dict.fromkeys(GROUP_STATES, 0))


async def write_groups(exposition: Exposition, services: Services, lags: LagTimes) -> None:
    """Committed offsets, and the lag where this broker has a replica.

    A broker does not know the ends of partitions without a replica here:
    `kafka_topic_partition_current_offset` of the others has them.
    """
    rows = GroupRows()
    for shard in list(services.groups.shards.values()):
        for group in list(shard.groups.values()):
            body = group.body
            rows.states["Empty" if body is None else str(body.state)] += 1
            labels = label_text({"consumergroup": group.group_id})
            rows.members.append((labels, 0 if body is None else len(body.members)))
            if len(rows.members) % OFFSETS_PER_STEP == 0:
                await pause()
            await _committed(rows, services, lags, group.group_id, group.offsets.committed)
        await pause()
    lags.end_look()
    columns: tuple[Sequence[tuple[str, float]], ...] = (
        rows.offsets,
        rows.lags,
        rows.lag_seconds,
        list(rows.offset_sums.items()),
        list(rows.lag_sums.items()),
        rows.members,
    )
    for family, column in zip(GROUP_FAMILIES, columns, strict=True):
        await exposition.family(family, column)
    prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    exposition.metric(gauge(prefix, "Groups coordinated here."), rows.states.total())
    for state in GROUP_STATES:
        family = gauge(f"{prefix}{state.lower()}", f"Those that are {state}.")
        exposition.metric(family, rows.states[state])


async def _committed(
    rows: GroupRows,
    services: Services,
    lags: LagTimes,
    group_id: str,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """Gather what a group has committed."""
    partitions, now_ms = services.partitions, services.clock.monotonic_ms()
    for (topic, index), commit in list(committed.items()):
        of_topic = label_text({"consumergroup": group_id, "topic": topic})
        labels = f'{of_topic[:-1]},partition="{index}"}}'
        rows.offsets.append((labels, commit.offset))
        rows.offset_sums[of_topic] += commit.offset
        held = partitions.get(topic, index)
        if held is not None:
            end_offset = held.high_watermark
            lag = max(0, end_offset - commit.offset)
            rows.lags.append((labels, lag))
            rows.lag_sums[of_topic] += lag
            history = lags.look((topic, index), end_offset, now_ms)
            if history is not None:
                lag_ms = history.lag_ms(commit.offset, now_ms) if lag else 0.0
                rows.lag_seconds.append((labels, round(lag_ms / 1_000, 3)))
        if len(rows.offsets) % OFFSETS_PER_STEP == 0:
            await pause()
