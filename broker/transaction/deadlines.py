"""The time-outs of open transactions: what is open for longer than its producer allows is reported.

An id has one timer at most.  A transaction that ends leaves its timer; when that fires, it is set
for the transaction that is open by then.  So short transactions cost a look-up in a dict each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.transaction.context import TransactionContext
from odradek.broker.transaction.decisions import is_timed_out
from odradek.broker.transaction.metadata import TransactionMetadata, TransactionState

if TYPE_CHECKING:
    from odradek.runtime.timers import Timer


class TransactionDeadlines:
    """The timers of one shard, whose transactional ids bound them.

    on_timed_out  called with ids whose transactions have timed out, once for each deadline
    """

    def __init__(
        self, context: TransactionContext, on_timed_out: Callable[[TransactionMetadata], None]
    ) -> None:
        self._context = context
        self._on_timed_out = on_timed_out
        self._timers: dict[TransactionMetadata, Timer] = {}

    def watch(self, metadata: TransactionMetadata) -> None:
        """The transaction of an id is open."""
        if metadata not in self._timers:
            self._set(metadata)

    def _set(self, metadata: TransactionMetadata) -> None:
        clock = self._context.clock
        current = metadata.current
        # In time is what lasts exactly as long as its time-out.
        left_ms = max(0, current.start_ms + current.timeout_ms + 1 - clock.now_ms())
        self._timers[metadata] = self._context.wheel.add(
            clock.monotonic_ms() + left_ms, lambda: self._due(metadata)
        )

    def _due(self, metadata: TransactionMetadata) -> None:
        del self._timers[metadata]
        if metadata.pending_state is not None:
            # It is watched again if it is open after that.
            return
        if metadata.current.state is not TransactionState.ONGOING:
            return
        if is_timed_out(metadata, now_ms=self._context.clock.now_ms()):
            self._on_timed_out(metadata)
        else:
            self._set(metadata)

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
