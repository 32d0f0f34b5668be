"""Notifies of consumer groups whose verdict has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from odradek.tools.lag.evaluation import GroupLag, LagStatus


class Notifications(Protocol):
    """Where notifications go to (`Notifier`)."""

    def notify(self, subject: str, fields: Mapping[str, object]) -> None:
        """Send these fields."""


class VerdictChanges:
    """Compares the verdicts of one look with those of the last; memory for a status a group."""

    def __init__(self, cluster: str, notifications: Notifications) -> None:
        self._cluster = cluster
        self._notifications = notifications
        self._statuses: dict[str, LagStatus] = {}

    def note(self, verdicts: Mapping[str, GroupLag]) -> None:
        """Notify of each group whose status is another one; the first look, of all not OK."""
        for group, verdict in verdicts.items():
            former = self._statuses.get(group, LagStatus.OK)
            if verdict.status is not former:
                self._notifications.notify(f"group {group}", self._fields(verdict, former))
        self._statuses = {group: verdict.status for group, verdict in verdicts.items()}

    def _fields(self, verdict: GroupLag, former: LagStatus) -> dict[str, object]:
        fields: dict[str, object] = {
            "kind": "lag",
            "text": f"Kafka consumer group {verdict.group} is {verdict.status.name}, was "
            f"{former.name}: {verdict.total_lag} records to read",
            "cluster": self._cluster,
            "group": verdict.group,
            "status": verdict.status.name,
            "former_status": former.name,
            "total_lag": verdict.total_lag,
        }
        if verdict.worst is not None:
            topic, partition = verdict.worst.partition
            fields |= {
                "topic": topic,
                "partition": partition,
                "partition_status": verdict.worst.status.name,
            }
        return fields
