"""A bound on the memory of unfinished requests and unsent responses, over all connections.

The received bytes of incomplete frames are counted elsewhere (`BufferPool`).  When the bound is
reached, the connection that takes most is closed: a client that takes no more than its share keeps
its connection, whatever others do.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

BYTES_MAX: Final = 256 << 20
"""Where queued.max.request.bytes sets no bound.  Differs from Kafka, which then has none."""
RESPONSE_SHARE: Final = 4
"""One response may take this part of the whole."""

logger = logging.getLogger("odradek.server")


class BudgetedConnection(Protocol):
    """A connection, as far as the budget uses it."""

    client_host: str

    def close(self) -> None:
        """End it, which releases its memory."""


class Budget:
    """Bytes by connection: of its requests, and of the responses that its client has not taken."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.response_bytes_max = bytes_max // RESPONSE_SHARE
        self.held_bytes = 0
        self._requests: dict[BudgetedConnection, int] = {}
        self._responses: dict[BudgetedConnection, int] = {}

    def charge(self, connection: BudgetedConnection, size: int) -> None:
        """A request takes `size` bytes more; may close any connection, this one too."""
        if not size:
            return
        self._requests[connection] = self._requests.get(connection, 0) + size
        self.held_bytes += size
        self._enforce()

    def release(self, connection: BudgetedConnection, size: int) -> None:
        """A request is done; does nothing when its connection is forgotten."""
        left = self._requests.pop(connection, 0)
        taken = min(left, size)
        self.held_bytes -= taken
        if left > taken:
            self._requests[connection] = left - taken

    def set_responses(self, connection: BudgetedConnection, size: int) -> None:
        """Replace the size of the unsent responses; may close any connection, this one too."""
        self.held_bytes += size - self._responses.pop(connection, 0)
        if size:
            self._responses[connection] = size
            self._enforce()

    def forget(self, connection: BudgetedConnection) -> None:
        """Release all that a closed connection has taken."""
        self.held_bytes -= self._requests.pop(connection, 0) + self._responses.pop(connection, 0)

    def of(self, connection: BudgetedConnection) -> int:
        """The bytes of a connection."""
        return self._requests.get(connection, 0) + self._responses.get(connection, 0)

    def _enforce(self) -> None:
        while self.held_bytes > self.bytes_max:
            largest = max((*self._requests, *self._responses), key=self.of)
            logger.warning(
                "closing the connection of %s: its requests and responses take %d of %d bytes",
                largest.client_host,
                self.of(largest),
                self.bytes_max,
            )
            largest.close()
            self.forget(largest)
