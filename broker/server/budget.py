"""Memory that requests at work and responses under way may take, over all connections.

Received bytes of frames that are not whole are counted elsewhere (`BufferPool`).  When the bound is
reached, the connection that holds most is closed: a client that takes no more than its share keeps
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


class Holder(Protocol):
    """A connection."""

    client_host: str

    def close(self) -> None:
        """End it, which gives back what it holds."""


class Budget:
    """Bytes by connection: of its requests, and of the responses that it has not taken yet."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.response_bytes_max = bytes_max // RESPONSE_SHARE
        self.held_bytes = 0
        self._requests: dict[Holder, int] = {}
        self._responses: dict[Holder, int] = {}

    def charge(self, holder: Holder, size: int) -> None:
        """A request takes more; may close any connection, this one too."""
        if not size:
            return
        self._requests[holder] = self._requests.get(holder, 0) + size
        self.held_bytes += size
        self._enforce()

    def release(self, holder: Holder, size: int) -> None:
        """A request is done; nothing happens when its connection is gone."""
        left = self._requests.pop(holder, 0)
        taken = min(left, size)
        self.held_bytes -= taken
        if left > taken:
            self._requests[holder] = left - taken

    def set_responses(self, holder: Holder, size: int) -> None:
        """What the client has not taken yet; may close any connection, this one too."""
        self.held_bytes += size - self._responses.pop(holder, 0)
        if size:
            self._responses[holder] = size
            self._enforce()

    def forget(self, holder: Holder) -> None:
        """The connection is gone."""
        self.held_bytes -= self._requests.pop(holder, 0) + self._responses.pop(holder, 0)

    def of(self, holder: Holder) -> int:
        """What a connection holds."""
        return self._requests.get(holder, 0) + self._responses.get(holder, 0)

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
