"""The assignors that the coordinator knows, by the names that `group.consumer.assignors` gives.

Source: KIP-848; Kafka 4.3's UniformAssignor and RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import Assignment, MemberSubscription, SubscriptionType
from odradek.broker.group.consumer.range_assignor import assign_ranges
from odradek.broker.group.consumer.uniform import assign_homogeneous
from odradek.broker.group.consumer.uniform_heterogeneous import assign_heterogeneous

Assignor = Callable[
    [Mapping[str, MemberSubscription], SubscriptionType, Mapping[Uuid, int]], dict[str, Assignment]
]
"""Members by id, whether they subscribe alike, partition counts of the topics -> what each gets."""

UNIFORM: Final = "uniform"
RANGE: Final = "range"


def assign_uniform(
    members: Mapping[str, MemberSubscription],
    subscription_type: SubscriptionType,
    partition_counts: Mapping[Uuid, int],
) -> dict[str, Assignment]:
    """Balance partitions over their subscribers, and move as few partitions as possible."""
    if not members:
        return {}
    if subscription_type is SubscriptionType.HOMOGENEOUS:
        return assign_homogeneous(members, partition_counts)
    return assign_heterogeneous(members, partition_counts)


def assign_range(
    members: Mapping[str, MemberSubscription],
    subscription_type: SubscriptionType,
    partition_counts: Mapping[Uuid, int],
) -> dict[str, Assignment]:
    """A run of each topic for each of its subscribers, whether they subscribe alike or not."""
    return assign_ranges(members, partition_counts)


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
"""The first one is the default, as in Kafka."""
