"""The memory that members of all groups of a coordinator use together, in estimated bytes, and the
pending members: their ids are assigned, and no client has used them yet.

Pure.  All groups share one budget, and every host gets a part of it: a host may use at most as much
as remains free, and a group at most as much as its host leaves free beyond that.  So the first host
can use half of the budget, the next one half of the rest, and a small new group always fits.  When
memory is short, members that have never completed a join are removed first.

Differs from Kafka, which bounds the number of members of a group and not the bytes that they send.
Source: KIP-394.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from odradek.broker.group.limits import GroupLimits

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


class UnjoinedMember(NamedTuple):
    """A member that has never completed a join, and may be removed when memory is short."""

    host: str
    size_bits: int
    remove: Callable[[], None]


class MemberMemory:
    """Bytes by host, the members that have never completed a join, and the pending members."""

    __slots__ = ("_hosts", "_unjoined", "_unjoined_by_size", "limits", "pending", "used_bytes")

    def __init__(self, limits: GroupLimits | None = None) -> None:
        self.limits = limits or GroupLimits()
        """What bounds each group that uses this memory."""
        self.used_bytes = 0
        self.pending = PendingMembers(self.limits.pending_bytes_max)
        self._hosts: dict[str, int] = {}
        self._unjoined: dict[Hashable, UnjoinedMember] = {}
        self._unjoined_by_size: dict[tuple[str, int], dict[Hashable, None]] = {}
        """Host and size, as a power of two -> the unjoined members, oldest first."""

    def charge(self, host: str, more_bytes: int) -> None:
        """Add to what a host's members use; `more_bytes` may be negative."""
        self.used_bytes += more_bytes
        left = self._hosts.get(host, 0) + more_bytes
        assert left >= 0, "a host releases at most what it was charged"
        if left:
            self._hosts[host] = left
        else:
            self._hosts.pop(host, None)

    def fits(self, host: str, group_bytes: int, more_bytes: int, bytes_max: int) -> bool:
        """Whether a host's member may add `more_bytes` to a group that uses `group_bytes`."""
        if more_bytes <= 0:
            return True
        free_after = bytes_max - self.used_bytes - more_bytes
        host_after = self._hosts.get(host, 0) + more_bytes
        return group_bytes + more_bytes <= free_after - host_after

    def reclaim(self, host: str, group_bytes: int, more_bytes: int, bytes_max: int) -> None:
        """Remove unjoined members until `more_bytes` fit, those of the largest host first.

        Only members at least as large as the new one (to a power of two) are removed: a large
        member never displaces small ones.
        cost  the number of hosts for each member that is removed
        """
        least_bits = more_bytes.bit_length()
        while not self.fits(host, group_bytes, more_bytes, bytes_max):
            victim = self._take_unjoined(least_bits)
            if victim is None:
                return
            victim.remove()

    def _take_unjoined(self, least_bits: int) -> UnjoinedMember | None:
        candidates = [kind for kind in self._unjoined_by_size if kind[1] >= least_bits]
        if not candidates:
            return None
        kind = max(
            candidates,
            key=lambda candidate: (self._hosts.get(candidate[0], 0), candidate[1], candidate[0]),
        )
        return self.note_joined(next(iter(self._unjoined_by_size[kind])))

    def add_unjoined(
        self, member: Hashable, host: str, size_bytes: int, remove: Callable[[], None]
    ) -> None:
        """Note a new member; until `note_joined` it may be removed."""
        unjoined_member = self._unjoined[member] = UnjoinedMember(
            host, size_bytes.bit_length(), remove
        )
        self._unjoined_by_size.setdefault((host, unjoined_member.size_bits), {})[member] = None

    def note_joined(self, member: Hashable) -> UnjoinedMember | None:
        """Note that a member has completed its join or was removed; its entry if it had one."""
        unjoined_member = self._unjoined.pop(member, None)
        if unjoined_member is None:
            return None
        kind = (unjoined_member.host, unjoined_member.size_bits)
        others = self._unjoined_by_size[kind]
        del others[member]
        if not others:
            del self._unjoined_by_size[kind]
        return unjoined_member
