"""Which transactions a partition may be added to by its first batch (KIP-890).

A batch that opens a transaction in the log is appended only after the transaction coordinator has
confirmed that the partition belongs to the transaction.  Meanwhile a guard is kept for the
producer; it is dropped when a batch opens the transaction and when a marker is appended.  So a
confirmation that was overtaken by a marker is worth nothing: its guard is gone.

In transactions of version 2 each has an epoch of its own, and the marker of the one before it has
the same epoch: such a marker may be written after the verification has begun, and drops no guard.
In Kafka it does, and the producer's first batch fails then.

Pure; not stored: producers try again after a change of the leader.
Source: Kafka's VerificationGuard and VerificationStateEntry.
"""

from __future__ import annotations

from typing import Final

GUARDS_MAX: Final = 10_000
"""Guards of one partition; beyond it the oldest is dropped, and its batch is refused."""


class VerificationGuard:
    """One verification of one producer; compared by identity."""

    __slots__ = ("is_v2", "lowest_sequence", "producer_epoch", "started_ms")

    def __init__(
        self, lowest_sequence: int, producer_epoch: int, started_ms: int, *, is_v2: bool
    ) -> None:
        self.lowest_sequence = lowest_sequence
        """Least of the verified batches of `producer_epoch`: no later one may overtake it."""
        self.producer_epoch = producer_epoch
        self.started_ms = started_ms
        self.is_v2 = is_v2
        """All batches under this guard are of transactions of version 2."""

    def include(self, sequence: int, producer_epoch: int, *, is_v2: bool) -> None:
        """Another batch is verified under this guard."""
        self.is_v2 = self.is_v2 and is_v2
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


class Verifications:
    """The guards of one partition, by producer id."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def begin(
        self,
        producer_id: int,
        *,
        sequence: int,
        producer_epoch: int,
        now_ms: int,
        is_v2: bool = False,
    ) -> VerificationGuard:
        """The guard under which a batch is verified: the present one of the producer, or a new one.

        sequence  the first of the batch, -1 for offsets of a group
        """
        guard = self._guards.get(producer_id)
        if guard is None:
            if len(self._guards) >= GUARDS_MAX:
                del self._guards[next(iter(self._guards))]
            guard = VerificationGuard(sequence, producer_epoch, now_ms, is_v2=is_v2)
            self._guards[producer_id] = guard
        else:
            guard.include(sequence, producer_epoch, is_v2=is_v2)
        return guard

    def is_valid(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Whether nothing has ended the verification since it began."""
        return self._guards.get(producer_id) is guard

    def clear(self, producer_id: int) -> None:
        """A batch has opened the producer's transaction."""
        self._guards.pop(producer_id, None)

    def on_marker(self, producer_id: int, producer_epoch: int) -> None:
        """A marker was appended: it ends what is verified, unless it ends what came before."""
        guard = self._guards.get(producer_id)
        if guard is not None and not (guard.is_v2 and producer_epoch <= guard.producer_epoch):
            del self._guards[producer_id]

    def clear_all(self) -> None:
        """Drop every guard."""
        self._guards.clear()

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop the guards of batches that were never appended."""
        for producer_id, guard in list(self._guards.items()):
            if now_ms - guard.started_ms >= expiration_ms:
                del self._guards[producer_id]
