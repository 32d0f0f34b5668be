"""Classic groups of one shard: performs the effects of their events.

Appends the records of groups and completes the requests that wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from odradek.broker.group.classic import offsets, protocol
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
    Ticket,
)
from odradek.broker.group.classic.rebalance import begin_rebalance, remove_member
from odradek.broker.group.classic.records import group_record
from odradek.broker.group.classic.state import ClassicGroup
from odradek.broker.group.context import GroupContext
from odradek.broker.group.offsets_log import OffsetsLog
from odradek.protocol.errors import ErrorCode
from odradek.runtime.pending import Pending

logger = logging.getLogger("odradek.groups")


class ClassicGroups:
    """Performs the effects of classic groups in one shard.

    on_changed  called with the id of a group that has changed outside of a call for it: its
                deadline may have moved, or it may be blank
    """

    def __init__(
        self, context: GroupContext, log: OffsetsLog, on_changed: Callable[[str], None]
    ) -> None:
        self._context = context
        self._log = log
        self._on_changed = on_changed
        self._joins: dict[Ticket, Pending[JoinResult]] = {}
        self._syncs: dict[Ticket, Pending[SyncResult]] = {}

    def waiting_count(self) -> int:
        """Requests that wait for their responses."""
        return len(self._joins) + len(self._syncs)

    # Requests.

    def join(self, group: ClassicGroup, event: Join) -> Pending[JoinResult]:
        """A JoinGroup request."""
        pending = self._joins[event.ticket] = Pending()
        effects = protocol.join(group, event, self._context.now())
        self._perform(group, effects)
        protocol.note_join(group, event, lambda member_id: self._remove(group, member_id))
        return pending

    def _remove(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a pending member, or one that has not completed its join: memory is short."""
        effects: list[Effect] = []
        remove_member(group, member_id, self._context.now(), effects)
        self._perform(group, effects)
        self._on_changed(group.group_id)

    def sync(self, group: ClassicGroup, event: Sync) -> Pending[SyncResult]:
        """A SyncGroup request."""
        pending = self._syncs[event.ticket] = Pending()
        self._perform(group, protocol.sync(group, event, self._context.now()))
        return pending

    def leave(self, group: ClassicGroup, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        """A LeaveGroup request; the errors are in the order of the members."""
        errors, effects = protocol.leave(group, leaving, self._context.now())
        self._perform(group, effects)
        return errors

    def check_commit(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Whether an OffsetCommit may be stored; a member's commit starts its session again."""
        return offsets.check_commit(
            group,
            member_id=member_id,
            instance_id=instance_id,
            generation=generation,
            now=self._context.now(),
        )

    # Other events.

    def rebalance(self, group: ClassicGroup) -> None:
        """Wait for all members to join again."""
        effects: list[Effect] = []
        begin_rebalance(group, self._context.now(), effects)
        self._perform(group, effects)

    def fence_waiting_members(self, group: ClassicGroup) -> None:
        """The group becomes a consumer group: waiting requests get REBALANCE_IN_PROGRESS, so that
        the members join again."""
        error = ErrorCode.REBALANCE_IN_PROGRESS
        self._perform(group, protocol.close(group, error, self._context.now()))

    def close(self, group: ClassicGroup) -> None:
        """Another broker coordinates the group: waiting requests get NOT_COORDINATOR."""
        error = ErrorCode.NOT_COORDINATOR
        self._perform(group, protocol.close(group, error, self._context.now()))

    def on_time(self, group: ClassicGroup) -> None:
        """A deadline may have passed."""
        self._perform(group, protocol.on_time(group, self._context.now()))

    # Effects.

    def _perform(self, group: ClassicGroup, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case RespondToJoin(ticket, join_result):
                    self._joins.pop(ticket).resolve(join_result)
                case RespondToSync(ticket, sync_result):
                    self._syncs.pop(ticket).resolve(sync_result)
                case StoreGroup():
                    self._store(group, effect)

    def _store(self, group: ClassicGroup, effect: StoreGroup) -> None:
        context = self._context

        def stored(error: ErrorCode, _: int) -> None:
            if error:
                logger.warning(
                    "%s: the record of group %s is not stored: %s",
                    self._log,
                    group.group_id,
                    error.name,
                )
            effects = protocol.stored(group, effect, error, context.now())
            self._perform(group, effects)
            self._on_changed(group.group_id)

        wall_ms = context.clock.now_ms()
        self._log.append([group_record(group.group_id, effect.value, wall_ms)], stored)
