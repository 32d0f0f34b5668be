"""Producer ids, given out from blocks that the controller allocates.

The next block is asked for when nine tenths of the current one are used; while none is there,
producers wait for it.  A block is stored durably before an id of it is given out.
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
        self._asked: Pending[None] | None = None

    @property
    def asked(self) -> Pending[None] | None:
        """Done when the allocation under way has ended, and `take` may be called again."""
        return self._asked

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
        if self._asked is None and self._next is None:
            self._asked = Pending()
            self._allocate().on_done(self._on_allocated)

    def _on_allocated(self, allocated: Pending[tuple[int, int]]) -> None:
        asked, self._asked = self._asked, None
        assert asked is not None, "an allocation was asked for"
        # After a failure the next producer that asks makes the next try.
        with contextlib.suppress(CoordinationError, BrokerError):
            self._next = Block(*allocated.result())
        asked.resolve(None)
