"""Partitions that this broker does not lead, since their logs have later leader epochs."""

from __future__ import annotations

from typing import Final

from odradek.protocol.topic_partition import TopicPartition

SHOWN_MAX: Final = 10
"""Partitions in one line of the log."""


class RefusedLeaderships:
    """Refused leaderships, and what is to be logged of them; bounded by the broker's replicas."""

    __slots__ = ("_epochs", "_unreported")

    def __init__(self) -> None:
        self._epochs: dict[TopicPartition, int] = {}
        """The leader epoch that was refused last."""
        self._unreported: list[str] = []

    def note(self, key: TopicPartition, leader_epoch: int, log_epoch: int) -> None:
        """A leadership was refused; it is reported unless the last one had the same epoch."""
        if self._epochs.get(key) == leader_epoch:
            return
        self._epochs[key] = leader_epoch
        self._unreported.append(
            f"{key.topic}-{key.partition} (leader epoch {leader_epoch}, its log has {log_epoch})"
        )

    def forget(self, key: TopicPartition) -> None:
        """The replica leads, follows or was removed."""
        self._epochs.pop(key, None)

    def take_warning(self) -> str | None:
        """One line about everything that was refused since the last call; None for nothing."""
        unreported, self._unreported = self._unreported, []
        if not unreported:
            return None
        more = len(unreported) - SHOWN_MAX
        shown = ", ".join(unreported[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        return (
            f"{len(unreported)} partitions are not led, until the controller names a leader epoch "
            f"that is not below that of the log: {shown}"
        )
