"""Incremental fetch sessions (KIP-227): the broker remembers the partitions that a client fetches.

Pure.  A full fetch (epoch 0) creates a session, and later requests list the differences; a response
within a session lists only partitions that have records or changed offsets.

    request epoch   id      meaning
    -1              any     full fetch without a session; a given one is closed
    0               any     full fetch that creates a new session; a given one is closed
    n > 0           known   incremental; n must be the expected epoch

Bounds: slots, bytes, and `UNKNOWN_MAX` partitions of a session that do not exist.  A fetch that
goes beyond them is served without a session (id 0), so its client sends a full fetch next time.

When slots or bytes are short, a session is evicted that was not used for `EVICTION_MS`; else one of
a client where the new one is a follower's; else the smallest of those created more than
`EVICTION_MS` ago, if it is smaller than the new one.
Differs from Kafka: one cache, not eight shards (FetchSessionCacheShard); bytes and unknown
partitions are bounded; a session of the host with most of them is evicted for a host with fewer.
Source: Kafka's FetchSession.scala.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from odradek.protocol.errors import ErrorCode

EVICTION_MS: Final = 120_000
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
FULL_EPOCHS: Final = (FINAL_EPOCH, INITIAL_EPOCH)
EPOCH_MAX: Final = 2**31 - 1
NO_SESSION: Final = 0

BYTES_MAX: Final = 64 << 20
"""Bound of all sessions together."""
ENTRY_BYTES: Final = 600
"""A partition in a session, its name aside; a bit more than was measured."""
SESSION_BYTES: Final = 1_000
UNKNOWN_MAX: Final = 100
"""Partitions of one session that do not exist.  Kafka remembers all: they are reported each time,
and served once they exist."""

TopicKey = str | UUID
"""A topic's name (request version 12 and below) or its id."""
PartitionKey = tuple[TopicKey, int]


def next_epoch(epoch: int) -> int:
    """The epoch of a session's next request; 1 follows the largest."""
    return epoch + 1 if epoch < EPOCH_MAX else 1


class FetchPartition(NamedTuple):
    """One partition of a Fetch request."""

    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class SentOffsets(NamedTuple):
    """The offsets that the last response listed for a partition; a change is sent again."""

    high_watermark: int
    log_start_offset: int


class CachedPartition:
    """A partition of a session: how it is fetched, and what was sent about it."""

    __slots__ = ("is_unknown", "requested", "sent")

    def __init__(self, requested: FetchPartition, *, is_unknown: bool) -> None:
        self.requested = requested
        self.sent: SentOffsets | None = None
        self.is_unknown = is_unknown
        """The partition did not exist when it was added."""


SessionClient = tuple[str, bool]
"""The host of a client, and whether it is a broker that replicates: Kafka calls the sessions of
those privileged."""


def entry_bytes(key: PartitionKey) -> int:
    """About how much memory a partition takes in a session."""
    topic, _ = key
    return ENTRY_BYTES + (len(topic) if isinstance(topic, str) else 0)


class FetchSession:
    """The partitions of one client, in the order in which they are served."""

    __slots__ = (
        "created_ms",
        "epoch",
        "host",
        "id",
        "is_follower",
        "partitions",
        "size_bytes",
        "unknown_count",
        "used_ms",
        "uses_ids",
    )

    def __init__(self, session_id: int, client: SessionClient, uses_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.host, self.is_follower = client
        self.uses_ids = uses_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.size_bytes = SESSION_BYTES
        self.unknown_count = 0

    def update(
        self,
        requested: Mapping[PartitionKey, FetchPartition],
        forgotten: Iterable[PartitionKey],
        exists: Callable[[PartitionKey], bool],
    ) -> None:
        """Apply a request, up to the unknown partition that exceeds `UNKNOWN_MAX`."""
        for key, value in requested.items():
            cached = self.partitions.get(key)
            if cached is not None:
                cached.requested = value
                if self.is_follower:
                    # It may have dropped the response whose offsets it would not be sent again:
                    # its log or its leader epoch has changed since the request of that response.
                    cached.sent = None
                continue
            is_unknown = not exists(key)
            self.partitions[key] = CachedPartition(value, is_unknown=is_unknown)
            self.size_bytes += entry_bytes(key)
            self.unknown_count += is_unknown
            if self.unknown_count > UNKNOWN_MAX:
                return
        for key in forgotten:
            cached = self.partitions.pop(key, None)
            if cached is not None:
                self.size_bytes -= entry_bytes(key)
                self.unknown_count -= cached.is_unknown

    def move_to_end(self, key: PartitionKey) -> None:
        """Serve the partition after all others next time, since it has sent records."""
        self.partitions[key] = self.partitions.pop(key)


class FetchPlan:
    """The partitions to read for one request, and which of them its response lists.

    `session_id` is the response's.
    """

    __slots__ = ("_session", "error", "has_session", "is_incremental", "partitions", "session_id")

    def __init__(
        self,
        partitions: Mapping[PartitionKey, FetchPartition],
        session: FetchSession | None,
        *,
        is_incremental: bool,
        error: ErrorCode = ErrorCode.NONE,
        is_closed: bool = False,
    ) -> None:
        self.partitions = partitions
        self.error = error
        self.is_incremental = is_incremental
        self._session = session
        self.has_session = session is not None
        """Whether it is asked what the response lists, and noted; else the response lists all."""
        self.session_id = NO_SESSION if session is None or is_closed else session.id

    def sent(self, key: PartitionKey) -> SentOffsets | None:
        """Offsets of a partition that the client of an incremental fetch knows; None: nothing."""
        if self._session is None or not self.is_incremental:
            return None
        cached = self._session.partitions.get(key)
        return None if cached is None else cached.sent

    def must_respond_with(self, key: PartitionKey, offsets: SentOffsets, *, has_news: bool) -> bool:
        """Whether the response lists the partition; a full response lists all.

        has_news  records, an error, a diverging epoch or a preferred replica
        """
        if not self.is_incremental or has_news:
            return True
        assert self._session is not None, "an incremental fetch has a session"
        cached = self._session.partitions.get(key)
        return cached is None or cached.sent != offsets

    def on_response(self, key: PartitionKey, offsets: SentOffsets, *, has_records: bool) -> None:
        """The response lists the partition."""
        if self._session is None:
            return
        cached = self._session.partitions.get(key)
        if cached is not None:
            cached.sent = offsets
            if has_records and self.is_incremental:
                self._session.move_to_end(key)


class _Share:
    """How much the sessions of one host take."""

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
        """By host, without followers' sessions: clients cannot evict those."""
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
        requested: Mapping[PartitionKey, FetchPartition],
        forgotten: Iterable[PartitionKey],
        exists: Callable[[PartitionKey], bool],
        client: SessionClient,
        now_ms: int,
    ) -> FetchPlan:
        """Apply a request; `error` of the result is the response's top-level error.

        exists  whether the cluster has the partition, on whichever broker
        """
        if session_epoch in FULL_EPOCHS:
            if session_id in self._sessions:
                self._remove(self._sessions[session_id])
            session = None
            if session_epoch == INITIAL_EPOCH:
                session = FetchSession(NO_SESSION, client, uses_ids, now_ms)
                if not self._create(session, requested, exists):
                    session = None
            return FetchPlan(requested, session, is_incremental=False)
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
        return self._continue(session, requested, forgotten, exists, now_ms)

    def close(self, session_id: int) -> None:
        """Forget a session whose client does not learn of it."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._remove(session)

    def _continue(
        self,
        session: FetchSession,
        requested: Mapping[PartitionKey, FetchPartition],
        forgotten: Iterable[PartitionKey],
        exists: Callable[[PartitionKey], bool],
        now_ms: int,
    ) -> FetchPlan:
        former_bytes = session.size_bytes
        session.update(requested, forgotten, exists)
        self._charge(session, session.size_bytes - former_bytes)
        session.used_ms = now_ms
        if not session.partitions:
            self._remove(session)
            return FetchPlan({}, None, is_incremental=False)
        self._sessions.move_to_end(session.id)
        session.epoch = next_epoch(session.epoch)
        partitions = {key: cached.requested for key, cached in session.partitions.items()}
        is_too_large = session.size_bytes > former_bytes and not self._may_stay(session)
        if is_too_large:
            partitions |= requested
            self._remove(session)
        return FetchPlan(partitions, session, is_incremental=True, is_closed=is_too_large)

    def _may_stay(self, session: FetchSession) -> bool:
        return session.unknown_count <= UNKNOWN_MAX and self.used_bytes <= self._bytes_max

    def _create(
        self,
        session: FetchSession,
        requested: Mapping[PartitionKey, FetchPartition],
        exists: Callable[[PartitionKey], bool],
    ) -> bool:
        """Give a session its partitions, an id and a slot; False when it does not fit."""
        session.update(requested, (), exists)
        if session.unknown_count > UNKNOWN_MAX or not self._evict_for(session):
            return False
        while session.id == NO_SESSION or session.id in self._sessions:
            session.id = 1 + self._random_below(2**31 - 1)
        self._sessions[session.id] = session
        self._charge(session, session.size_bytes, slots=1)
        return True

    def _charge(self, session: FetchSession, more_bytes: int, *, slots: int = 0) -> None:
        self.used_bytes += more_bytes
        if session.is_follower:
            return
        share = self._shares.setdefault(session.host, _Share())
        share.slots += slots
        share.bytes += more_bytes
        if not share.slots:
            del self._shares[session.host]

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self._charge(session, -session.size_bytes, slots=-1)

    # Eviction.

    def _evict_for(self, new: FetchSession) -> bool:
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
        """The session that Kafka would evict."""
        sessions = self._sessions.values()
        oldest = next(iter(sessions), None)
        now_ms = new.created_ms
        if oldest is None or now_ms - oldest.used_ms > EVICTION_MS:
            return oldest
        is_follower = new.is_follower
        evictable = [
            (session.is_follower, len(session.partitions), session.id)
            for session in sessions
            if now_ms - session.created_ms > EVICTION_MS
            or (is_follower and not session.is_follower)
        ]
        least = min(evictable, default=None)
        if least is None or (is_follower, len(new.partitions)) <= least[:2]:
            return None
        return self._sessions[least[2]]

    def _of_the_largest_host(self, new: FetchSession) -> FetchSession | None:
        """The least recently used session of the host that has most, unless the host of the new
        one would then have as much."""
        are_slots_short = len(self._sessions) >= self._slots_max

        def amount(share: _Share) -> int:
            return share.slots if are_slots_short else share.bytes

        host = max(self._shares, key=lambda name: amount(self._shares[name]), default=None)
        if host is None:
            return None
        own = self._shares.get(new.host, _Share())
        needed = amount(own) + (1 if are_slots_short else new.size_bytes)
        if host == new.host or needed >= amount(self._shares[host]):
            return None
        return next(
            session
            for session in self._sessions.values()
            if session.host == host and not session.is_follower
        )
