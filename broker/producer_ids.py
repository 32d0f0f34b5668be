"""Assigns producer ids from blocks that the controller allocates.

The next block is requested when nine tenths of the current one are used; without a block, producers
wait for it.  A block is stored durably before the first id of it is assigned.
Source: Kafka's RPCProducerIdManager and ZkProducerIdManager.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending

PREFETCH_SHARE: Final = 0.9


class Block(NamedTuple):
    """The ids from `start` to `start + length`, exclusive."""

    start: int
    length: int


class ProducerIds:
    """This broker's current block and the next one."""

    def __init__(self, allocate: Callable[[], Pending[tuple[int, int]]]) -> None:
        self._allocate = allocate
        self._current = Block(0, 0)
        self._used = 0
        self._next: Block | None = None
        self._allocation: Pending[None] | None = None

    @property
    def allocation(self) -> Pending[None] | None:
        """Resolves when the allocation under way has ended; None while there is none."""
        return self._allocation

    def take(self) -> int:
        """A new producer id.

        raises  BrokerError COORDINATOR_LOAD_IN_PROGRESS without a block
        """
        if self._used >= self._current.length * PREFETCH_SHARE:
            self._request_block()
        if self._used >= self._current.length:
            if self._next is None:
                raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._current, self._next, self._used = self._next, None, 0
        producer_id = self._current.start + self._used
        self._used += 1
        return producer_id

    def _request_block(self) -> None:
        if self._allocation is None and self._next is None:
            self._allocation = Pending()
            self._allocate().on_done(self._on_allocated)

    def _on_allocated(self, allocated: Pending[tuple[int, int]]) -> None:
        allocation, self._allocation = self._allocation, None
        assert allocation is not None, "an allocation was requested"
        # After a failure the next call of `take` requests a block again.
        with contextlib.suppress(CoordinationError, BrokerError):
            self._next = Block(*allocated.result())
        allocation.resolve(None)
