"""The parts of a node that the shards of the transaction coordinator use."""

from __future__ import annotations

from collections.abc import Callable
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
    """Clock, timers, purgatory and settings of the node.

    new_producer_id      raises BrokerError while there is none
    transaction_version  the finalized level of the feature `transaction.version`
    """

    __slots__ = ("new_producer_id", "settings", "transaction_version")

    def __init__(
        self,
        purgatory: Purgatory,
        wheel: Wheel,
        clock: Clock,
        settings: TransactionSettings,
        *,
        new_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
    ) -> None:
        super().__init__(purgatory, wheel, clock)
        self.settings = settings
        self.new_producer_id = new_producer_id
        self.transaction_version = transaction_version
