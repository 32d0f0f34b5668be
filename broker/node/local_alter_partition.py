"""AlterPartition for a broker that is the controller: a call."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.replication.in_sync_replicas import Altered
from odradek.controller.controller import Controller
from odradek.controller.decide.isr import AlterIsr
from odradek.runtime.pending import Pending


class LocalAlterPartition:
    """The way to the controller of this broker."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def alter(self, proposals: Sequence[tuple[str, AlterIsr]]) -> Pending[Altered]:
        """Ask for other in-sync replicas: (topic, proposal) for each partition."""
        controller = self._controller
        return controller.alter_isr(controller.broker_id, controller.broker_epoch, proposals)
