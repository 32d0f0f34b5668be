"""The memory of responses and events that wait for the disk, or for clients to take them."""

from __future__ import annotations

from typing import Final, Protocol

RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that the responses of all connections may take together."""


class ResponseOwner(Protocol):
    """A connection."""

    def close(self) -> None:
        """Close at once; may be called again."""


class ResponseMemory:
    """Counts the bytes of each connection; beyond the bound it closes the one that has most.

    The session of that connection waits for another one, as after any other broken connection.
    """

    def __init__(self, bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._owners: dict[ResponseOwner, int] = {}

    def add(self, owner: ResponseOwner, size_bytes: int) -> None:
        """Count bytes of a connection; may close it, or another one.

        cost  a dict look-up, and within the bound nothing else
        """
        self.used_bytes += size_bytes
        self._owners[owner] = self._owners.get(owner, 0) + size_bytes
        while self.used_bytes > self._bytes_max:
            largest = max(self._owners, key=self._owners.__getitem__)
            self.forget(largest)
            largest.close()

    def remove(self, owner: ResponseOwner, size_bytes: int) -> None:
        """Bytes of a connection are gone; nothing for one that was forgotten."""
        counted = self._owners.get(owner, 0)
        if counted <= size_bytes:
            self.forget(owner)
        else:
            self._owners[owner] = counted - size_bytes
            self.used_bytes -= size_bytes

    def forget(self, owner: ResponseOwner) -> None:
        """A connection is closed."""
        self.used_bytes -= self._owners.pop(owner, 0)
