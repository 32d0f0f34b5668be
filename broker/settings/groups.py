"""The settings of groups of the consumer protocol (KIP-848).

Source: Kafka 4.3's GroupCoordinatorConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from odradek.broker.settings.types import InvalidValueError

UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNOR_NAMES: Final = (UNIFORM, RANGE)
"""The names of `group/consumer/assignors`, not imported here: it would delay every start."""

CONSUMER: Final = "consumer"
"""The name of the consumer protocol in `group.coordinator.rebalance.protocols`."""
ASSIGNMENT_INTERVAL_SETTING: Final = "group.consumer.assignment.interval.ms"
"""A setting of Kafka 4.3 that is not in the tables of 3.9."""
ASSIGNMENT_INTERVAL_MS: Final = 1_000
ASSIGNMENT_INTERVAL_MAX_MS: Final = 15_000
CLASS_NAMES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UNIFORM,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RANGE,
}
"""The names of Kafka 3.9's classes -> the names of the assignors."""


class MigrationPolicy(StrEnum):
    """Whether groups with members may change their protocol; empty groups always may."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def is_upgrade_enabled(self) -> bool:
        """Whether a group may change from the classic protocol to the consumer protocol."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def is_downgrade_enabled(self) -> bool:
        """Whether a group may change from the consumer protocol to the classic protocol."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class ConsumerGroupSettings(NamedTuple):
    """The settings of all groups.

    session_timeout_ms      a member is fenced after this time without a heartbeat
    heartbeat_interval_ms   sent to members
    assignment_interval_ms  between two target assignments of a group; 0: after every change
    assignors               names; the first is the default
    regex_refresh_ms        regular expressions are matched again after this time at the latest
    """

    is_served: bool = True
    """Whether the consumer protocol is served."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = ASSIGNMENT_INTERVAL_MS
    members_max: int = 2**31 - 1
    members_bytes_max: int = 256 << 20
    """Bound of the memory of all members of all groups, of either protocol."""
    classic_members_max: int = 2**31 - 1
    """The maximum size of a group that is downgraded to the classic protocol."""
    assignors: tuple[str, ...] = (UNIFORM, RANGE)
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_ms: int = 600_000


def assignor_names(setting: tuple[str, ...]) -> tuple[str, ...]:
    """The assignors of `group.consumer.assignors`, given by name or by Kafka 3.9's class.

    raises  SettingsError for an unknown name, or for none at all
    """
    names = tuple(CLASS_NAMES.get(name, name) for name in setting)
    if not names or any(name not in ASSIGNOR_NAMES for name in names):
        raise InvalidValueError(
            "group.consumer.assignors", ",".join(setting), f"Must name {UNIFORM} or {RANGE}"
        )
    return names


def assignment_interval_ms(written: Mapping[str, str]) -> int:
    """The value of `group.consumer.assignment.interval.ms`, or its default.

    written  settings as text
    raises   SettingsError unless it is a number within its bounds
    """
    text = written.get(ASSIGNMENT_INTERVAL_SETTING)
    if text is None:
        return ASSIGNMENT_INTERVAL_MS
    try:
        interval_ms = int(text)
    except ValueError:
        raise InvalidValueError(ASSIGNMENT_INTERVAL_SETTING, text, "Must be a number") from None
    if not 0 <= interval_ms <= ASSIGNMENT_INTERVAL_MAX_MS:
        raise InvalidValueError(
            ASSIGNMENT_INTERVAL_SETTING, text, f"Must be from 0 to {ASSIGNMENT_INTERVAL_MAX_MS}"
        )
    return interval_ms
