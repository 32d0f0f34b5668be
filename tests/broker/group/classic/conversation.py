"""A group spoken to event by event: clocks by hand, stores answered at once or when asked."""

from __future__ import annotations

from itertools import count
from typing import Any

from odradek.broker.group.classic import offsets
from odradek.broker.group.classic import protocol as classic
from odradek.broker.group.classic.events import (
    Effect,
    Join,
    JoinResult,
    LeavingMember,
    RespondToJoin,
    RespondToSync,
    StoreGroup,
    Sync,
    SyncResult,
)
from odradek.broker.group.classic.state import FIRST_JOIN_WAIT_MS, ClassicGroup, GroupState
from odradek.broker.group.limits import GroupLimits, Now
from odradek.broker.group.member_memory import MemberMemory
from odradek.protocol.errors import ErrorCode
from tests.broker.group.classic.transitions import NEXT_STATES, Event

WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Conversation:
    """One group, the responses that it gave, and the records that it wants stored."""

    def __init__(
        self,
        limits: GroupLimits | None = None,
        *,
        stores_at_once: bool = True,
        skips_first_wait: bool = True,
    ) -> None:
        """skips_first_wait  the first JoinGroup has its response at once if the delay is 0"""
        self.limits = limits or GroupLimits(initial_delay_ms=0)
        self.group = ClassicGroup("g", MemberMemory(self.limits))
        self.now = Now(WALL_MS, 0)
        self.joined: dict[int, JoinResult] = {}
        self.synced: dict[int, SyncResult] = {}
        self.open: dict[int, None] = {}
        self.stores: list[StoreGroup] = []
        self.stores_at_once = stores_at_once
        self.skips_first_wait = skips_first_wait
        self.seen: dict[tuple[Event, GroupState, GroupState], None] = {}
        self._tickets = count(1)
        self._ids = count(1)

    # Events.

    def _done(self, event: Event, before: GroupState, effects: list[Effect]) -> None:
        after = self.group.state
        assert after in NEXT_STATES[event][before], f"{before} --{event}--> {after}"
        self.seen[event, before, after] = None
        for effect in effects:
            if isinstance(effect, StoreGroup):
                self.stores.append(effect)
            else:
                assert self.open.pop(effect.ticket, 0) is None, "a request is answered once"
                if isinstance(effect, RespondToJoin):
                    self.joined[effect.ticket] = effect.result
                elif isinstance(effect, RespondToSync):
                    self.synced[effect.ticket] = effect.result
        self.group.check()
        while self.stores_at_once and self.stores:
            self.store()

    def store(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest wanted record is replicated, or fails."""
        effect = self.stores.pop(0)
        before = self.group.state
        effects = classic.stored(self.group, effect, error, self.now)
        self._done(Event.STORED, before, effects)

    def join(self, member_id: str = "", **changes: Any) -> int:
        """A JoinGroup; its ticket."""
        ticket = next(self._tickets)
        fields: dict[str, Any] = {
            "ticket": ticket,
            "member_id": member_id,
            "new_member_id": f"m{next(self._ids)}",
            "instance_id": None,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "rebalance_timeout_ms": REBALANCE_MS,
            "session_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": (("range", b"r"),),
            "is_member_id_required": False,
        }
        fields.update(changes)
        self.open[ticket] = None
        before = self.group.state
        effects = classic.join(self.group, Join(**fields), self.now)
        self._done(Event.JOIN, before, effects)
        is_first = self.group.initial_left_ms is not None
        if is_first and self.skips_first_wait and not self.limits.initial_delay_ms:
            self.wait(FIRST_JOIN_WAIT_MS)
        return ticket

    def sync(self, member_id: str, generation: int | None = None, **changes: Any) -> int:
        """A SyncGroup; its ticket."""
        ticket = next(self._tickets)
        fields: dict[str, Any] = {
            "ticket": ticket,
            "member_id": member_id,
            "instance_id": None,
            "generation": self.group.generation if generation is None else generation,
        }
        fields.update(changes)
        self.open[ticket] = None
        before = self.group.state
        self._done(Event.SYNC, before, classic.sync(self.group, Sync(**fields), self.now))
        return ticket

    def heartbeat(
        self, member_id: str, generation: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        """A Heartbeat."""
        before = self.group.state
        sent = self.group.generation if generation is None else generation
        error = classic.heartbeat(self.group, member_id, instance_id, sent, self.now)
        self._done(Event.HEARTBEAT, before, [])
        return error

    def leave(self, *leaving: LeavingMember) -> list[ErrorCode]:
        """A LeaveGroup."""
        before = self.group.state
        errors, effects = classic.leave(self.group, leaving, self.now)
        self._done(Event.LEAVE, before, effects)
        return errors

    def commit(
        self, member_id: str = "", generation: int = -1, instance_id: str | None = None
    ) -> ErrorCode:
        """Whether an OffsetCommit would be stored."""
        before = self.group.state
        error = offsets.check_commit(
            self.group,
            member_id=member_id,
            instance_id=instance_id,
            generation=generation,
            now=self.now,
        )
        self._done(Event.COMMIT, before, [])
        return error

    def close(self) -> None:
        """Another broker coordinates the group."""
        before = self.group.state
        self._done(
            Event.CLOSE, before, classic.close(self.group, ErrorCode.NOT_COORDINATOR, self.now)
        )

    def wait(self, wait_ms: int) -> None:
        """Time passes; every deadline in it is kept."""
        end_ms = self.now.monotonic_ms + wait_ms
        while self.group.wake_ms <= end_ms:
            self._move_to(max(self.group.wake_ms, self.now.monotonic_ms))
            before = self.group.state
            effects = classic.on_time(self.group, self.now)
            assert self.group.wake_ms > self.now.monotonic_ms or self.group.state != before
            self._done(Event.TIME, before, effects)
        self._move_to(end_ms)

    def _move_to(self, monotonic_ms: int) -> None:
        self.now = Now(WALL_MS + monotonic_ms, monotonic_ms)

    # Shortcuts.

    def settle(self, *tickets: int) -> list[str]:
        """Bring the generation of these joins to Stable; the member ids, the leader's first."""
        responses = [self.joined[ticket] for ticket in tickets]
        assert not any(response.error for response in responses), responses
        leader = responses[0].leader
        ids = sorted(
            (response.member_id for response in responses), key=lambda name: name != leader
        )
        for name in ids[1:]:
            self.sync(name)
        shares = tuple((name, f"share of {name}".encode()) for name in ids)
        self.sync(ids[0], assignments=shares)
        assert self.group.state is GroupState.STABLE
        return ids

    def stable(self, size: int = 1, **changes: Any) -> list[str]:
        """A stable group of so many members, the leader first."""
        tickets = [self.join(**changes) for _ in range(size)]
        if size > 1:
            first = self.joined[tickets[0]].member_id
            tickets[0] = self.join(first, **changes)
        return self.settle(*tickets)
