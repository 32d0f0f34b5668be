"""Incremental fetch sessions (KIP-227): the broker remembers what a client asks for.

Pure.  A session is created by a full fetch (epoch 0) and then fed with differences; an answer
within a session lists only partitions that have something new to say.

    request epoch   id      meaning
    -1              any     full fetch without a session; a given one is closed
    0               any     full fetch that asks for a new session; a given one is closed
    n > 0           known   incremental; n must be the expected epoch

Eviction when all slots are taken: a session unused for `EVICTION_MS`, else the smallest one of
those created more than `EVICTION_MS` ago, if it is smaller than the new one.
Differs from Kafka: one cache, not eight shards (FetchSessionCacheShard).
Source: Kafka's FetchSession.scala.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from protocol.errors import ErrorCode

EVICTION_MS: Final = 120_000
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1
NO_SESSION: Final = 0

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
    __slots__ = ("told", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.told: Told | None = None


class FetchSession:
    """The partitions of one client, in the order in which they are served."""

    __slots__ = ("created_ms", "epoch", "id", "partitions", "used_ms", "uses_ids")

    def __init__(self, session_id: int, uses_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.uses_ids = uses_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1
        self.partitions: OrderedDict[PartitionKey, _Cached] = OrderedDict()

    def update(
        self, wanted: Mapping[PartitionKey, Wanted], forgotten: Iterator[PartitionKey]
    ) -> None:
        """Apply an incremental request."""
        for key, value in wanted.items():
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = _Cached(value)
            else:
                cached.wanted = value
        for key in forgotten:
            self.partitions.pop(key, None)


class FetchPlan:
    """What one request is to be served, and how its answer is cut down.

    `session_id` is what the answer carries.
    """

    __slots__ = ("_session", "error", "is_incremental", "session_id", "wanted")

    def __init__(
        self,
        wanted: Mapping[PartitionKey, Wanted],
        session: FetchSession | None,
        *,
        is_incremental: bool,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.wanted = wanted
        self.error = error
        self.is_incremental = is_incremental
        self._session = session
        self.session_id = session.id if session is not None else NO_SESSION

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
                self._session.partitions.move_to_end(key)


class FetchSessions:
    """All sessions of a broker, at most `slots_max`."""

    def __init__(self, slots_max: int, random_below: Callable[[int], int]) -> None:
        self._slots_max = slots_max
        self._random_below = random_below
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """By last use, oldest first."""
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
        now_ms: int,
    ) -> FetchPlan:
        """What to serve; `error` of the result is the answer's top-level error."""
        if session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != NO_SESSION:
                self._sessions.pop(session_id, None)
            session = None
            if session_epoch == INITIAL_EPOCH:
                session = self._create(wanted, uses_ids, now_ms)
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
        return self._continue(session, wanted, forgotten, now_ms)

    def _continue(
        self,
        session: FetchSession,
        wanted: Mapping[PartitionKey, Wanted],
        forgotten: Iterator[PartitionKey],
        now_ms: int,
    ) -> FetchPlan:
        session.update(wanted, forgotten)
        session.used_ms = now_ms
        if not session.partitions:
            del self._sessions[session.id]
            return FetchPlan({}, None, is_incremental=False)
        self._sessions.move_to_end(session.id)
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else 1
        asked = {key: cached.wanted for key, cached in session.partitions.items()}
        return FetchPlan(asked, session, is_incremental=True)

    def _create(
        self, wanted: Mapping[PartitionKey, Wanted], uses_ids: bool, now_ms: int
    ) -> FetchSession | None:
        if len(self._sessions) >= self._slots_max and not self._evict(len(wanted), now_ms):
            return None
        session_id = 0
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = 1 + self._random_below(2**31 - 1)
        session = FetchSession(session_id, uses_ids, now_ms)
        for key, value in wanted.items():
            session.partitions[key] = _Cached(value)
        self._sessions[session_id] = session
        return session

    def _evict(self, new_size: int, now_ms: int) -> bool:
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now_ms - victim.used_ms <= EVICTION_MS:
            settled = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > EVICTION_MS
            ]
            if not settled:
                return False
            victim = min(settled, key=lambda session: (len(session.partitions), session.id))
            if len(victim.partitions) >= new_size:
                return False
        del self._sessions[victim.id]
        self.evicted += 1
        return True
