"""Incremental fetch sessions (KIP-227): the broker remembers what a client asks for.

Pure.  A session is created by a full fetch (epoch 0) and then fed with differences; a response
within a session lists only partitions that have something new to say.

    request epoch   id      meaning
    -1              any     full fetch without a session; a given one is closed
    0               any     full fetch that asks for a new session; a given one is closed
    n > 0           known   incremental; n must be the expected epoch

Bounds: slots, bytes, and `UNKNOWN_MAX` partitions of a session that do not exist.  A fetch that
goes beyond them is served without a session (id 0), so its client sends a full fetch next time.

When slots or bytes are short, a session is evicted that was not used for `EVICTION_MS`; else one of
a client where the new one is a follower's; else the smallest of those created more than
`EVICTION_MS` ago, if it is smaller than the new one.
Differs from Kafka: one cache, not eight shards (FetchSessionCacheShard); bytes and unknown
partitions are bounded; a session of the host that has most makes room for a host that has less.
Source: Kafka's FetchSession.scala.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from odradek.protocol.errors import ErrorCode

EVICTION_MS: Final = 120_000
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1
NO_SESSION: Final = 0

BYTES_MAX: Final = 64 << 20
"""What all sessions may take together."""
ENTRY_BYTES: Final = 600
"""A partition in a session, its name aside; a bit more than was measured."""
SESSION_BYTES: Final = 1_000
UNKNOWN_MAX: Final = 100
"""Partitions of one session that do not exist.  Kafka remembers all: they are reported each time,
and served once they exist."""

TopicKey = str | UUID
"""A topic's name (request version 12 and below) or its id."""
PartitionKey = tuple[TopicKey, int]


class Wanted(NamedTuple):
    """What is asked of one partition."""

    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class Told(NamedTuple):
    """What the last answer said about one partition, as far as a change of it must be told."""

    high_watermark: int
    log_start_offset: int


class _Cached:
    __slots__ = ("is_unknown", "told", "wanted")

    def __init__(self, wanted: Wanted, *, is_unknown: bool) -> None:
        self.wanted = wanted
        self.told: Told | None = None
        self.is_unknown = is_unknown
        """The partition did not exist when it was added."""


class Client(NamedTuple):
    """Who asks for a session."""

    host: str = ""
    is_follower: bool = False
    """A broker that replicates; Kafka calls its sessions privileged."""


def entry_bytes(key: PartitionKey) -> int:
    """What a partition takes in a session, about."""
    topic, _ = key
    return ENTRY_BYTES + (len(topic) if isinstance(topic, str) else 0)


class FetchSession:
    """The partitions of one client, in the order in which they are served."""

    __slots__ = (
        "client",
        "created_ms",
        "epoch",
        "id",
        "partitions",
        "size_bytes",
        "unknown_count",
        "used_ms",
        "uses_ids",
    )

    def __init__(self, session_id: int, client: Client, uses_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.client = client
        self.uses_ids = uses_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1
        self.partitions: dict[PartitionKey, _Cached] = {}
        self.size_bytes = SESSION_BYTES
        self.unknown_count = 0

    def update(
        self,
        wanted: Mapping[PartitionKey, Wanted],
        forgotten: Iterator[PartitionKey],
        exists: Callable[[PartitionKey], bool],
    ) -> None:
        """Apply a request, up to the first unknown partition that is too many."""
        for key, value in wanted.items():
            cached = self.partitions.get(key)
            if cached is not None:
                cached.wanted = value
                continue
            is_unknown = not exists(key)
            self.partitions[key] = _Cached(value, is_unknown=is_unknown)
            self.size_bytes += entry_bytes(key)
            self.unknown_count += is_unknown
            if self.unknown_count > UNKNOWN_MAX:
                return
        for key in forgotten:
            cached = self.partitions.pop(key, None)
            if cached is not None:
                self.size_bytes -= entry_bytes(key)
                self.unknown_count -= cached.is_unknown

    def serve_last(self, key: PartitionKey) -> None:
        """The partition gave records: the others come first next time."""
        self.partitions[key] = self.partitions.pop(key)


class FetchPlan:
    """What one request is to be served, and how its answer is cut down.

    `session_id` is what the response carries.
    """

    __slots__ = ("_session", "error", "is_incremental", "session_id", "wanted")

    def __init__(
        self,
        wanted: Mapping[PartitionKey, Wanted],
        session: FetchSession | None,
        *,
        is_incremental: bool,
        error: ErrorCode = ErrorCode.NONE,
        is_closed: bool = False,
    ) -> None:
        self.wanted = wanted
        self.error = error
        self.is_incremental = is_incremental
        self._session = session
        self.session_id = NO_SESSION if session is None or is_closed else session.id

    def must_tell(self, key: PartitionKey, told: Told, *, has_news: bool) -> bool:
        """Whether an answer lists the partition; a full answer lists all.

        has_news  records, an error, a diverging epoch or a preferred replica
        """
        if not self.is_incremental or has_news:
            return True
        assert self._session is not None, "an incremental fetch has a session"
        cached = self._session.partitions.get(key)
        return cached is None or cached.told != told

    def on_answered(self, key: PartitionKey, told: Told, *, has_records: bool) -> None:
        """The answer lists the partition; one that gave records is served last next time."""
        if self._session is None:
            return
        cached = self._session.partitions.get(key)
        if cached is not None:
            cached.told = told
            if has_records and self.is_incremental:
                self._session.serve_last(key)


class _Share:
    """What the sessions of one host take."""

    __slots__ = ("bytes", "slots")

    def __init__(self) -> None:
        self.slots = 0
        self.bytes = 0


class FetchSessions:
    """All sessions of a broker, at most `slots_max`, which take at most `bytes_max`."""

    def __init__(
        self, slots_max: int, random_below: Callable[[int], int], *, bytes_max: int = BYTES_MAX
    ) -> None:
        self._slots_max = slots_max
        self._bytes_max = bytes_max
        self._random_below = random_below
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """By last use, oldest first."""
        self._shares: dict[str, _Share] = {}
        """By host, followers' sessions aside: no client takes their places."""
        self.used_bytes = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        *,
        session_id: int,
        session_epoch: int,
        uses_ids: bool,
        wanted: Mapping[PartitionKey, Wanted],
        forgotten: Iterator[PartitionKey],
        exists: Callable[[PartitionKey], bool],
        client: Client,
        now_ms: int,
    ) -> FetchPlan:
        """What to serve; `error` of the result is the response's top-level error.

        exists  whether there is such a partition in the cluster, whoever leads it
        """
        if session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id in self._sessions:
                self._remove(self._sessions[session_id])
            session = None
            if session_epoch == INITIAL_EPOCH:
                session = FetchSession(NO_SESSION, client, uses_ids, now_ms)
                if not self._create(session, wanted, exists):
                    session = None
            return FetchPlan(wanted, session, is_incremental=False)
        session = self._sessions.get(session_id)
        error = ErrorCode.NONE
        if session is None:
            error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif session.epoch != session_epoch:
            error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        elif session.uses_ids != uses_ids:
            error = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if session is None or error:
            return FetchPlan({}, None, is_incremental=False, error=error)
        return self._continue(session, wanted, forgotten, exists, now_ms)

    def _continue(
        self,
        session: FetchSession,
        wanted: Mapping[PartitionKey, Wanted],
        forgotten: Iterator[PartitionKey],
        exists: Callable[[PartitionKey], bool],
        now_ms: int,
    ) -> FetchPlan:
        former_bytes = session.size_bytes
        session.update(wanted, forgotten, exists)
        self._charge(session, session.size_bytes - former_bytes)
        session.used_ms = now_ms
        if not session.partitions:
            self._remove(session)
            return FetchPlan({}, None, is_incremental=False)
        self._sessions.move_to_end(session.id)
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else 1
        asked = {key: cached.wanted for key, cached in session.partitions.items()}
        is_too_large = session.size_bytes > former_bytes and not self._may_stay(session)
        if is_too_large:
            asked |= wanted
            self._remove(session)
        return FetchPlan(asked, session, is_incremental=True, is_closed=is_too_large)

    def _may_stay(self, session: FetchSession) -> bool:
        return session.unknown_count <= UNKNOWN_MAX and self.used_bytes <= self._bytes_max

    def _create(
        self,
        session: FetchSession,
        wanted: Mapping[PartitionKey, Wanted],
        exists: Callable[[PartitionKey], bool],
    ) -> bool:
        """Give a session its partitions, an id and a slot; False when it gets none."""
        session.update(wanted, iter(()), exists)
        if session.unknown_count > UNKNOWN_MAX or not self._make_room(session):
            return False
        while session.id == NO_SESSION or session.id in self._sessions:
            session.id = 1 + self._random_below(2**31 - 1)
        self._sessions[session.id] = session
        self._charge(session, session.size_bytes, slots=1)
        return True

    def _charge(self, session: FetchSession, more_bytes: int, *, slots: int = 0) -> None:
        self.used_bytes += more_bytes
        client = session.client
        if client.is_follower:
            return
        share = self._shares.setdefault(client.host, _Share())
        share.slots += slots
        share.bytes += more_bytes
        if not share.slots:
            del self._shares[client.host]

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self._charge(session, -session.size_bytes, slots=-1)

    # Eviction.

    def _make_room(self, new: FetchSession) -> bool:
        size_bytes = new.size_bytes
        if size_bytes > self._bytes_max:
            return False
        while (
            len(self._sessions) >= self._slots_max or self.used_bytes + size_bytes > self._bytes_max
        ):
            victim = self._victim(new) or self._of_the_largest_host(new)
            if victim is None:
                return False
            self._remove(victim)
            self.evicted += 1
        return True

    def _victim(self, new: FetchSession) -> FetchSession | None:
        """By Kafka's rules."""
        sessions = self._sessions.values()
        oldest = next(iter(sessions), None)
        now_ms = new.created_ms
        if oldest is None or now_ms - oldest.used_ms > EVICTION_MS:
            return oldest
        is_follower = new.client.is_follower
        evictable = [
            (one.client.is_follower, len(one.partitions), one.id)
            for one in sessions
            if now_ms - one.created_ms > EVICTION_MS or (is_follower and not one.client.is_follower)
        ]
        least = min(evictable, default=None)
        if least is None or (is_follower, len(new.partitions)) <= least[:2]:
            return None
        return self._sessions[least[2]]

    def _of_the_largest_host(self, new: FetchSession) -> FetchSession | None:
        """The least recently used session of the host that has most, unless the new one's host
        would then have as much."""
        are_slots_short = len(self._sessions) >= self._slots_max

        def amount(share: _Share) -> int:
            return share.slots if are_slots_short else share.bytes

        host = max(self._shares, key=lambda name: amount(self._shares[name]), default=None)
        if host is None:
            return None
        own = self._shares.get(new.client.host, _Share())
        wanted = amount(own) + (1 if are_slots_short else new.size_bytes)
        if host == new.client.host or wanted >= amount(self._shares[host]):
            return None
        return next(
            one
            for one in self._sessions.values()
            if one.client.host == host and not one.client.is_follower
        )
