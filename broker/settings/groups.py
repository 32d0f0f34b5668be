"""What bounds groups of the new protocol.

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
"""As `assignors` has them; not imported from there, since every node reads this before it is
ready."""

CONSUMER: Final = "consumer"
"""What `group.coordinator.rebalance.protocols` calls the new protocol."""
ASSIGNMENT_INTERVAL_SETTING: Final = "group.consumer.assignment.interval.ms"
"""The broker's own, which Kafka 4.3 has and the tables of 3.9 have not."""
ASSIGNMENT_INTERVAL_MS: Final = 1_000
ASSIGNMENT_INTERVAL_MAX_MS: Final = 15_000
CLASS_NAMES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UNIFORM,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RANGE,
}
"""What Kafka 3.9 calls the assignors in its settings -> their names."""


class MigrationPolicy(StrEnum):
    """Whether groups with members may change their protocol; empty ones always may."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def is_upgrade_enabled(self) -> bool:
        """From the classic protocol to the new one."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def is_downgrade_enabled(self) -> bool:
        """From the new protocol to the classic one."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class ConsumerSettings(NamedTuple):
    """Of all groups.

    session_timeout_ms      a member that is silent for longer is fenced
    heartbeat_interval_ms   what members are told
    assignment_interval_ms  between two targets of a group; 0: as soon as something has changed
    assignors               names; the first is what a group uses whose members ask for none
    regex_refresh_ms        expressions are matched again at the latest after it
    """

    is_served: bool = True
    """Whether groups of the new protocol are served at all."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = ASSIGNMENT_INTERVAL_MS
    members_max: int = 2**31 - 1
    members_bytes_max: int = 256 << 20
    """What the members of all groups, of either protocol, may take together."""
    classic_members_max: int = 2**31 - 1
    """Of a group that is handed back to the classic protocol."""
    assignors: tuple[str, ...] = (UNIFORM, RANGE)
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_ms: int = 600_000


def assignor_names(setting: tuple[str, ...]) -> tuple[str, ...]:
    """The names in `group.consumer.assignors`, where Kafka 3.9 has names of classes.

    raises  SettingsError for one that is not known, or for none at all
    """
    names = tuple(CLASS_NAMES.get(one, one) for one in setting)
    if not names or any(name not in ASSIGNOR_NAMES for name in names):
        raise InvalidValueError(
            "group.consumer.assignors", ",".join(setting), f"Must name {UNIFORM} or {RANGE}"
        )
    return names


def assignment_interval_ms(written: Mapping[str, str]) -> int:
    """The interval between two assignments of a group, as it is written or by default.

    written  settings as text
    raises   SettingsError for one that is no number, or out of bounds
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
