"""What becomes of groups when records of `__consumer_offsets` cannot be read.

    `odradek.unreadable.offsets.refuse`
    group      (the default) a record that cannot be read is passed over.  A group whose last
               committed offset of a partition is among them goes on from the one before it, which
               repeats records; if none is left, its clients would start where `auto.offset.reset`
               says and could leave records out, so the group is refused
    none       likewise, and no group is refused
    partition  all groups of the partition are refused

A group that is refused has no coordinator: COORDINATOR_NOT_AVAILABLE.  A tombstone that cannot be
read brings back what it deleted, until that expires.

Differs from Kafka, which stops at such a record, ignores everything after it, and serves the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from odradek.broker.settings.types import InvalidValueError

SETTING: Final = "odradek.unreadable.offsets.refuse"
NAMES_SHOWN: Final = 10
"""Of committed offsets, in a line of the log."""
PLACES_KEPT: Final = 20
"""Of those that cannot be read in a partition; the others are counted."""
LINES_MAX: Final = 20
"""Of lost offsets, for a partition."""


logger = logging.getLogger("odradek.groups")


class Refuse(StrEnum):
    """The values of the setting: what is refused."""

    NONE = "none"
    GROUP = "group"
    PARTITION = "partition"


def refuse_setting(written: Mapping[str, str]) -> Refuse:
    """The setting as it is written, or its default.

    written  settings as text
    raises   SettingsError for another value
    """
    text = written.get(SETTING, Refuse.GROUP)
    try:
        return Refuse(text)
    except ValueError:
        raise InvalidValueError(SETTING, text, f"Must be one of {', '.join(Refuse)}") from None


class Unreadable(NamedTuple):
    """Records that were passed over."""

    first_offset: int
    next_offset: int
    """Exclusive."""
    reason: str
    committed: tuple[str, ...] = ()
    """What their keys name as far as they can be read: `group: topic-partition`."""

    def __str__(self) -> str:
        named = ", ".join(self.committed[:NAMES_SHOWN])
        if len(self.committed) > NAMES_SHOWN:
            named += f" and {len(self.committed) - NAMES_SHOWN} more"
        return (
            f"offsets {self.first_offset} to {self.next_offset - 1} cannot be read and are passed "
            f"over: {self.reason}; committed offsets that they can be seen to name: "
            f"{named or 'none'}"
        )


class LostOffset(NamedTuple):
    """A committed offset whose last record cannot be read, and no later one replaces it."""

    group_id: str
    topic: str
    partition: int
    log_offset: int
    """Of the record that cannot be read."""
    has_older: bool
    """An older committed offset is there."""


def report(
    where: str,
    unreadable: Sequence[Unreadable],
    count: int,
    lost: Sequence[LostOffset],
    refuse: Refuse,
) -> dict[str, None]:
    """Log what was passed over, and what that means to the groups; returns those to be refused.

    where  the partition
    count  of the places that cannot be read, of which `unreadable` are the first
    """
    for one in unreadable:
        logger.warning("%s: %s", where, one)
    if count > len(unreadable):
        more = count - len(unreadable)
        logger.warning("%s: %d more places cannot be read and are passed over", where, more)
    for place in lost[:LINES_MAX]:
        logger.warning("%s: %s", where, _described(place, refuse))
    if len(lost) > LINES_MAX:
        logger.warning("%s: %d more committed offsets are lost", where, len(lost) - LINES_MAX)
    if refuse is not Refuse.GROUP:
        return {}
    return dict.fromkeys(one.group_id for one in lost if not one.has_older)


def _described(lost: LostOffset, refuse: Refuse) -> str:
    if lost.has_older:
        outcome = "the one before it counts, so that records are repeated"
    elif refuse is Refuse.GROUP:
        outcome = f"none is left, so that the group is refused until {SETTING}={Refuse.NONE}"
    else:
        outcome = "none is left, so that clients start where auto.offset.reset says"
    return (
        f"the last committed offset of group {lost.group_id} for {lost.topic}-{lost.partition}, "
        f"stored at offset {lost.log_offset}, cannot be read: {outcome}"
    )
