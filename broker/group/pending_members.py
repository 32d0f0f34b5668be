"""Pending members: member ids that the coordinator has assigned and no client has used yet.

Pure.  Source: KIP-394.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

PENDING_MEMBER_BYTES: Final = 2_000
"""Memory of a pending member without the characters of its id, and of a group that may exist only
because of it."""


class PendingMembers:
    """The pending members of all groups of a coordinator, oldest first.

    Differs from Kafka, which keeps each of them for a session timeout: a flood of joins without a
    member id (KAFKA-7610) costs at most `bytes_max`.  Beyond it the oldest expire; a client that
    joins with an expired id gets UNKNOWN_MEMBER_ID and asks for another one.
    """

    __slots__ = ("_bytes_max", "_oldest", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._oldest: OrderedDict[str, tuple[int, Callable[[], None]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._oldest)

    def add(self, member_id: str, group_id: str, expire: Callable[[], None]) -> None:
        """Add a pending member, and expire the oldest ones if the bound is exceeded.

        expire  removes the member from its group
        """
        size = PENDING_MEMBER_BYTES + len(group_id) + len(member_id)
        self._oldest[member_id] = (size, expire)
        self.used_bytes += size
        while self.used_bytes > self._bytes_max:
            oldest, (_, expire_oldest) = next(iter(self._oldest.items()))
            self.discard(oldest)
            expire_oldest()

    def discard(self, member_id: str) -> None:
        """Remove a member that has joined or expired, if it is there."""
        entry = self._oldest.pop(member_id, None)
        if entry is not None:
            self.used_bytes -= entry[0]
