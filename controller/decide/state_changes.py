"""Changes of partitions that an operator should know: data, then lines of the log.

A partition is *offline* without a leader that is online, *under min ISR* with fewer in-sync
replicas than its topic's min.insync.replicas.  Changes are folded: partitions with the same change,
for the same reason, share a line that names the first of them.  Pure.
Source: Kafka's state-change log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from odradek.controller.image.image import Image, PartitionImage, PartitionState
from odradek.protocol.topic_partition import TopicPartition

NAMED_MAX: Final = 5
"""Partitions that a line names."""


class Health(Enum):
    """The health of one partition."""

    IN_ORDER = "in order"
    UNDER_MIN_ISR = "under min ISR"
    OFFLINE = "offline"


class UncleanElection(NamedTuple):
    """A leader that was not in sync was elected."""

    key: TopicPartition
    former: PartitionState
    elected: PartitionState


class Line(NamedTuple):
    """A line of the log."""

    is_warning: bool
    text: str


PartitionChange = tuple[Health, str]
"""The health that a partition has now, and why."""
FoldedChanges = dict[PartitionChange, list[TopicPartition]]


class PartitionHealth:
    """Remembers the partitions that are not in order, and reports what has changed."""

    def __init__(self, min_isr_of: Callable[[str], int]) -> None:
        """min_isr_of  min.insync.replicas of a topic"""
        self._min_isr_of = min_isr_of
        self._reported: dict[TopicPartition, PartitionChange] = {}
        """Health and text that were reported last of partitions that are not in order."""

    def count(self, health: Health) -> int:
        """How many partitions are offline, or under min ISR."""
        return sum(1 for reported, _ in self._reported.values() if reported is health)

    def fold(
        self, image: Image, partitions: Iterable[TopicPartition], folded: FoldedChanges
    ) -> None:
        """Add those of the partitions to `folded` whose state is another one than was reported.

        cost  a microsecond or two for each partition
        """
        equal: dict[object, PartitionChange] = {}
        min_isr: dict[str, int] = {}
        for key in partitions:
            if key.topic not in min_isr:
                min_isr[key.topic] = self._min_isr_of(key.topic)
            partition = image.partition(*key)
            if partition is None or partition.state is None:
                continue
            state = partition.state
            # Many partitions of a cluster have equal replicas; a failed directory tells them apart.
            apart = key if image.offline_directories else None
            alike = (partition.replicas, state.leader, state.isr, min_isr[key.topic], apart)
            now = equal.get(alike)
            if now is None:
                now = equal[alike] = _health(image, key, partition, state, min_isr[key.topic])
            former = self._reported.get(key)
            if now == former:
                continue
            if now[0] is Health.IN_ORDER:
                if former is None:
                    continue
                del self._reported[key]
            else:
                self._reported[key] = now
            folded.setdefault(now, []).append(key)

    def forget_missing(self, image: Image) -> None:
        """Drop partitions that were deleted; they are not reported."""
        for key in [
            partition for partition in self._reported if image.partition(*partition) is None
        ]:
            del self._reported[key]


def change_lines(folded: FoldedChanges) -> list[Line]:
    """A line for each change."""
    return [_line(change, partitions) for change, partitions in folded.items()]


def unclean_lines(elections: Iterable[UncleanElection]) -> list[Line]:
    """A line for each leader and the in-sync replicas that it replaces."""
    folded: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for election in elections:
        former, elected = election.former, election.elected
        name = (
            f"{election.key.topic}-{election.key.partition} "
            f"(leader epoch {former.leader_epoch} to {elected.leader_epoch})"
        )
        folded.setdefault((elected.leader, former.isr), []).append(name)
    return [
        Line(
            True,
            f"unclean election of broker {leader}, in place of in-sync {_numbers(isr)}; records "
            f"that were acknowledged may be given up: {_first(partitions)}",
        )
        for (leader, isr), partitions in folded.items()
    ]


def name_partitions(partitions: Sequence[TopicPartition]) -> str:
    """The first of the partitions, and how many more there are."""
    return _first([f"{topic}-{index}" for topic, index in partitions])


def why_offline(image: Image, key: TopicPartition, partition: PartitionImage) -> str:
    """Why no replica of an offline partition could be elected."""
    state = partition.state
    isr = () if state is None else state.isr
    reasons = [f"in-sync {replica} {_why_not(image, key, replica)}" for replica in isr]
    lacking = [
        replica
        for replica in partition.replicas
        if replica not in isr and image.is_online(replica, *key)
    ]
    if not lacking:
        return f"no replica is alive ({'; '.join(reasons)})" if reasons else "no replica is alive"
    verb = "is alive and lacks" if len(lacking) == 1 else "are alive and lack"
    reasons.append(f"{_numbers(lacking)} {verb} records")
    return "; ".join([*reasons, "unclean elections are off"])


def _why_not(image: Image, key: TopicPartition, broker_id: int) -> str:
    if broker_id not in image.brokers:
        return "is dead"
    if not image.is_live(broker_id):
        return "is stopping"
    if not image.is_online(broker_id, *key):
        return "has no working log directory for it"
    return "is alive"


def _health(
    image: Image,
    key: TopicPartition,
    partition: PartitionImage,
    state: PartitionState,
    min_isr: int,
) -> PartitionChange:
    if not image.is_online(state.leader, *key, or_shutting_down=True):
        return Health.OFFLINE, why_offline(image, key, partition)
    if len(state.isr) < min_isr:
        return Health.UNDER_MIN_ISR, f"{len(state.isr)} of {min_isr} in sync"
    return Health.IN_ORDER, ""


def _line(change: PartitionChange, partitions: Sequence[TopicPartition]) -> Line:
    health, why = change
    named = name_partitions(partitions)
    match health:
        case Health.OFFLINE:
            return Line(True, f"offline, {why}: {named}")
        case Health.UNDER_MIN_ISR:
            return Line(True, f"under min.insync.replicas ({why}): {named}")
        case Health.IN_ORDER:
            return Line(False, f"led and in sync again: {named}")


def _numbers(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))


def _first(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    named = ", ".join(names[:NAMED_MAX])
    return f"{named} and {more} more" if more > 0 else named


def summary(image: Image, counts: Mapping[Health, int]) -> str:
    """The summary of the partitions that a controller has taken over."""
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    return (
        f"{len(image.brokers)} brokers, {len(image.topics)} topics, {partitions} partitions, "
        f"{counts[Health.OFFLINE]} of them offline, {counts[Health.UNDER_MIN_ISR]} under "
        "min.insync.replicas"
    )
