"""What the shards of the transaction coordinator need from their node."""

from __future__ import annotations

from typing import NamedTuple

from odradek.broker.coordinator_log.context import CoordinatorContext
from odradek.broker.purgatory import Purgatory, Wheel
from odradek.runtime.clock import Clock


class TransactionSettings(NamedTuple):
    """The settings that bound transactions.

    timeout_max_ms  transaction.max.timeout.ms
    expiration_ms   transactional.id.expiration.ms
    append_ms       how long a tombstone waits for the replicas; request.timeout.ms
    """

    timeout_max_ms: int = 900_000
    expiration_ms: int = 604_800_000
    append_ms: int = 30_000


class TransactionContext(CoordinatorContext):
    """Clock, timers, purgatory and settings of the node."""

    __slots__ = ("settings",)

    def __init__(
        self, purgatory: Purgatory, wheel: Wheel, clock: Clock, settings: TransactionSettings
    ) -> None:
        super().__init__(purgatory, wheel, clock)
        self.settings = settings
