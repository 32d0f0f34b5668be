"""Groups after records of `__consumer_offsets` were found to be unreadable.

    `odradek.unreadable.offsets.refuse`
    group      (the default) unreadable records are skipped.  If one of them was the last committed
               offset of a partition, the group continues from the committed offset before it, which
               repeats records; without such an offset, clients would start at `auto.offset.reset`
               and could skip records, so the group is refused
    none       as `group`, but no group is refused
    partition  all groups of the partition are refused

Requests for a refused group get COORDINATOR_NOT_AVAILABLE.  If a tombstone is unreadable, what it
has deleted is there again until it expires.

Differs from Kafka, which stops at such a record, ignores all later ones, and serves the groups.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from odradek.broker.settings.types import InvalidValueError

SETTING: Final = "odradek.unreadable.offsets.refuse"
NAMES_SHOWN: Final = 10
"""Committed offsets in one log line."""
RANGES_KEPT: Final = 20
"""Unreadable ranges of a partition that are logged; further ones are counted."""
LINES_MAX: Final = 20
"""Lost offsets of a partition that are logged."""


logger = logging.getLogger("odradek.groups")


class Refuse(StrEnum):
    """The values of the setting."""

    NONE = "none"
    GROUP = "group"
    PARTITION = "partition"


def refuse_setting(written: Mapping[str, str]) -> Refuse:
    """The value of the setting.

    written  settings as text
    raises   SettingsError for another value
    """
    text = written.get(SETTING, Refuse.GROUP)
    try:
        return Refuse(text)
    except ValueError:
        raise InvalidValueError(SETTING, text, f"Must be one of {', '.join(Refuse)}") from None


class Unreadable(NamedTuple):
    """A range of records that was skipped."""

    first_offset: int
    next_offset: int
    """Exclusive."""
    reason: str
    committed: tuple[str, ...] = ()
    """Committed offsets that the readable keys name: `group: topic-partition`."""

    def __str__(self) -> str:
        named = ", ".join(self.committed[:NAMES_SHOWN])
        if len(self.committed) > NAMES_SHOWN:
            named += f" and {len(self.committed) - NAMES_SHOWN} more"
        return (
            f"offsets {self.first_offset} to {self.next_offset - 1} are unreadable and are "
            f"skipped: {self.reason}; committed offsets that they name: "
            f"{named or 'none'}"
        )


class LostOffset(NamedTuple):
    """A committed offset whose last record is unreadable."""

    group_id: str
    topic: str
    partition: int
    log_offset: int
    """Offset of the unreadable record."""
    has_older: bool
    """An older committed offset is known."""


def report(
    where: str,
    unreadable: Sequence[Unreadable],
    count: int,
    lost: Sequence[LostOffset],
    refuse: Refuse,
) -> dict[str, None]:
    """Log what was skipped, and its consequences for groups; returns the groups to refuse.

    where  the partition
    count  of all unreadable ranges, of which `unreadable` are the first
    """
    for unreadable_range in unreadable:
        logger.warning("%s: %s", where, unreadable_range)
    if count > len(unreadable):
        more = count - len(unreadable)
        logger.warning("%s: %d more ranges are unreadable and are skipped", where, more)
    for one_lost in lost[:LINES_MAX]:
        logger.warning("%s: %s", where, _description(one_lost, refuse))
    if len(lost) > LINES_MAX:
        logger.warning("%s: %d more committed offsets are lost", where, len(lost) - LINES_MAX)
    if refuse is not Refuse.GROUP:
        return {}
    return dict.fromkeys(lost_offset.group_id for lost_offset in lost if not lost_offset.has_older)


def _description(lost: LostOffset, refuse: Refuse) -> str:
    if lost.has_older:
        outcome = "the one before it is used, so records are repeated"
    elif refuse is Refuse.GROUP:
        outcome = f"none is left, so the group is refused until {SETTING}={Refuse.NONE}"
    else:
        outcome = "none is left, so clients start at auto.offset.reset"
    return (
        f"the last committed offset of group {lost.group_id} for {lost.topic}-{lost.partition}, "
        f"stored at offset {lost.log_offset}, is unreadable: {outcome}"
    )
