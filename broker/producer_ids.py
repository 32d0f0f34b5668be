"""Producer ids, handed out from blocks that the controller allocates.

The next block is asked for when nine tenths of the current one are used; while none is there,
producers are told to try again.
Source: Kafka's RPCProducerIdManager and ZkProducerIdManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from controller.coordination.errors import CoordinationError
from controller.coordination.pending import Pending
from protocol.errors import BrokerError, ErrorCode

PREFETCH_SHARE: Final = 0.9


class Block(NamedTuple):
    """Ids from `start`, `length` of them."""

    start: int
    length: int


class ProducerIds:
    """This broker's blocks: the one in use and the next."""

    def __init__(self, allocate: Callable[[], Pending[tuple[int, int]]]) -> None:
        self._allocate = allocate
        self._current = Block(0, 0)
        self._used = 0
        self._next: Block | None = None
        self._is_asking = False

    def take(self) -> int:
        """An id that no producer had before.

        raises  BrokerError COORDINATOR_LOAD_IN_PROGRESS while no block is there
        """
        if self._used >= self._current.length * PREFETCH_SHARE:
            self._ask()
        if self._used >= self._current.length:
            if self._next is None:
                raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._current, self._next, self._used = self._next, None, 0
        producer_id = self._current.start + self._used
        self._used += 1
        return producer_id

    def _ask(self) -> None:
        if self._is_asking or self._next is not None:
            return
        self._is_asking = True
        self._allocate().on_done(self._on_allocated)

    def _on_allocated(self, allocated: Pending[tuple[int, int]]) -> None:
        self._is_asking = False
        try:
            start, length = allocated.result()
        except (CoordinationError, BrokerError):
            # The next producer that asks makes the next try.
            return
        self._next = Block(start, length)
