"""What bounds groups: settings, time, memory.

Apart from the rest of the coordinator, since every node reads this before it is ready.

Members take their memory from one budget for all groups.  Every client gets some of it: a host may
hold at most as much as is still free, and a group at most as much as its host leaves free beyond
that.  So the first host can take half of the budget, the next one half of the rest, and there is
always room for a small new group.  When there is too little, members that never completed a join
are dropped first.

Differs from Kafka, which bounds the members of a group and not what they send.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

GIVEN_ID_BYTES: Final = 2_000
"""A pending member id, without its characters, and a group that may exist for it alone."""


class Now(NamedTuple):
    """The time at which an event happens."""

    wall_ms: int
    """Milliseconds since 1970: for what is stored."""
    monotonic_ms: int
    """For deadlines."""


class Limits(NamedTuple):
    """The settings that bound groups."""

    initial_delay_ms: int = 3_000
    session_min_ms: int = 6_000
    session_max_ms: int = 1_800_000
    members_max: int = 2**31 - 1
    metadata_bytes_max: int = 4_096
    members_bytes_max: int = 256 << 20
    """What the members of all groups may take together."""
    pending_bytes_max: int = 32 << 20
    """What pending member ids may take: beyond it the oldest are dropped."""


class PendingIds:
    """Member ids that were given out and not used yet, in all groups, oldest first.

    Differs from Kafka, which keeps them all for a session timeout: a flood of joins without an id
    (KAFKA-7610) costs no more than `bytes_max`; beyond it the oldest are dropped, and a client that
    comes with one later gets UNKNOWN_MEMBER_ID and asks for another.
    """

    __slots__ = ("_bytes_max", "_oldest", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._oldest: OrderedDict[str, tuple[int, Callable[[], None]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._oldest)

    def add(self, member_id: str, group_id: str, drop: Callable[[], None]) -> None:
        """One more; `drop` of the oldest is called when they are too many."""
        size = GIVEN_ID_BYTES + len(group_id) + len(member_id)
        self._oldest[member_id] = (size, drop)
        self.used_bytes += size
        while self.used_bytes > self._bytes_max:
            oldest, (_, drop_oldest) = next(iter(self._oldest.items()))
            self.discard(oldest)
            drop_oldest()

    def discard(self, member_id: str) -> None:
        """The id was used, or its time is up."""
        known = self._oldest.pop(member_id, None)
        if known is not None:
            self.used_bytes -= known[0]


class Unjoined(NamedTuple):
    """A member that has never completed a join; to be dropped when memory is short."""

    host: str
    size_bits: int
    drop: Callable[[], None]


class Memory:
    """What the members of all groups of a coordinator take, by host; about, in bytes."""

    __slots__ = ("_hosts", "_unjoined", "_unjoined_by_size", "pending_ids", "used_bytes")

    def __init__(self, pending_bytes_max: int = Limits().pending_bytes_max) -> None:
        self.used_bytes = 0
        self.pending_ids = PendingIds(pending_bytes_max)
        self._hosts: dict[str, int] = {}
        self._unjoined: dict[Hashable, Unjoined] = {}
        self._unjoined_by_size: dict[tuple[str, int], dict[Hashable, None]] = {}
        """Host and size, as a power of two -> the unjoined members, oldest first."""

    def charge(self, host: str, more_bytes: int) -> None:
        """Members of a host take so much more, or less."""
        self.used_bytes += more_bytes
        left = self._hosts.get(host, 0) + more_bytes
        assert left >= 0, "a host gives back what it has taken"
        if left:
            self._hosts[host] = left
        else:
            self._hosts.pop(host, None)

    def has_room(self, host: str, group_bytes: int, more_bytes: int, bytes_max: int) -> bool:
        """Whether a host's member may take so much more in a group that has `group_bytes`."""
        if more_bytes <= 0:
            return True
        free_after = bytes_max - self.used_bytes - more_bytes
        host_after = self._hosts.get(host, 0) + more_bytes
        return group_bytes + more_bytes <= free_after - host_after

    def make_room(self, host: str, group_bytes: int, more_bytes: int, bytes_max: int) -> None:
        """Drop unjoined members, of the host that has most first, until there is room.

        Only those that are as large as the new one: a large member never displaces small ones.
        cost  the number of hosts for each member that is dropped
        """
        least_bits = more_bytes.bit_length()
        while not self.has_room(host, group_bytes, more_bytes, bytes_max):
            victim = self._take_unjoined(least_bits)
            if victim is None:
                return
            victim.drop()

    def _take_unjoined(self, least_bits: int) -> Unjoined | None:
        candidates = [kind for kind in self._unjoined_by_size if kind[1] >= least_bits]
        if not candidates:
            return None
        kind = max(candidates, key=lambda one: (self._hosts.get(one[0], 0), one[1], one[0]))
        return self.joined(next(iter(self._unjoined_by_size[kind])))

    def add_unjoined(
        self, member: Hashable, host: str, size_bytes: int, drop: Callable[[], None]
    ) -> None:
        """A member has entered; until `joined` it may be dropped."""
        one = self._unjoined[member] = Unjoined(host, size_bytes.bit_length(), drop)
        self._unjoined_by_size.setdefault((host, one.size_bits), {})[member] = None

    def joined(self, member: Hashable) -> Unjoined | None:
        """A member has completed its join, or is gone; its entry if it still had one."""
        one = self._unjoined.pop(member, None)
        if one is None:
            return None
        kind = (one.host, one.size_bits)
        others = self._unjoined_by_size[kind]
        del others[member]
        if not others:
            del self._unjoined_by_size[kind]
        return one

    @property
    def unjoined_count(self) -> int:
        """Members that have not completed a join."""
        return len(self._unjoined)
