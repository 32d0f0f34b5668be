"""Notifications of changes: sequential znodes in a folder, each of which names what has changed.

A broker handles each notification once, in the order of their numbers, and removes those older than
15 minutes: every broker has read them by then.
Source: Kafka's ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, Protocol

from odradek.controller.coordination.errors import NoNode
from odradek.controller.coordination.session import CoordinationSession
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.fenced_writes import read_all
from odradek.runtime.pending import settled

NOTIFICATION_AGE_MAX_MS: Final = 15 * 60 * 1000
PURGED_MAX: Final = 1_000
"""Notifications that are removed at a time."""
PURGE_INTERVAL_MS: Final = 60 * 1000
"""How often the age of the oldest notification is read."""


class Notification(NamedTuple):
    """A znode in the folder."""

    path: str
    data: bytes | None


HandleNotifications = Callable[[Sequence[Notification]], Coroutine[Any, Any, None]]


class ChangeFollower(Protocol):
    """What is kept in znodes, and followed by notifications; see `Controller.follow`."""

    @property
    def folder(self) -> str:
        """The folder of its notifications, which it watches."""

    async def load(self) -> None:
        """Watch the folder, then read everything."""

    async def on_changes(self, now_ms: int) -> None:
        """The folder has changed."""


class ChangeNotifications:
    """The notifications of one folder, and which of them are handled."""

    def __init__(self, session: CoordinationSession, prefix: str) -> None:
        """prefix  of the paths of the notifications, before their numbers"""
        self._session = session
        self.folder, _, self._name = prefix.rpartition("/")
        self._last_number = -1
        self._purge_due_ms = 0

    async def begin(self) -> None:
        """Watch the folder; its notifications count as handled.

        The caller reads all state after it: changes of which there are notifications already are
        read with the rest.
        """
        for name in await self._session.children(self.folder, watch=True):
            self._last_number = max(self._last_number, _number(name))

    async def on_changes(self, now_ms: int, handle: HandleNotifications) -> None:
        """Pass new notifications to `handle`, all at once, and remove old ones.

        When `handle` fails, it gets the same notifications again the next time.
        cost  a read for each new notification, and the names of all
        """
        names = await self._session.children(self.folder, watch=True)
        # Numbers have ten digits each: sorted names are sorted numbers.
        last = f"{self._name}{self._last_number:010d}" if self._last_number >= 0 else ""
        new = [
            name for name in names[bisect_right(names, last) :] if _number(name) > self._last_number
        ]
        paths = [f"{self.folder}/{name}" for name in new]
        if new:
            znodes = await read_all(self._session, paths)
            await handle(
                [
                    Notification(path, znode[0])
                    for path, znode in zip(paths, znodes, strict=True)
                    if znode is not None
                ]
            )
            self._last_number = max(map(_number, new))
        if now_ms >= self._purge_due_ms:
            self._purge_due_ms = now_ms + PURGE_INTERVAL_MS
            await self._purge(names, now_ms)

    async def _purge(self, names: list[str], now_ms: int) -> None:
        """Remove notifications older than 15 minutes, oldest first, up to the first younger one."""
        aged: list[str] = []
        for name in names:
            path = f"{self.folder}/{name}"
            stat = await self._session.exists(path)
            if stat is not None and now_ms - stat.ctime_ms <= NOTIFICATION_AGE_MAX_MS:
                break
            aged.append(path)
            if len(aged) == PURGED_MAX:
                self._purge_due_ms = now_ms
                break
        for removal in await settled([self._session.delete(path) for path in aged]):
            with contextlib.suppress(NoNode):
                removal.result()


def _number(name: str) -> int:
    try:
        return zk_data.sequence_number(name)
    except zk_data.BadZnode:
        return -1
