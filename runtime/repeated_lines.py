"""A bound for log lines that clients can cause without end: a few of each kind are logged.

A kind is the format of the line and its first argument, which is the address of the client that
caused the line, or its group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

LINES_MAX: Final = 5
"""Lines of one kind that are logged in a period."""
PERIOD_S: Final = 10.0
KINDS_MAX: Final = 1_000
"""Beyond it, a kind is the format only."""


class _Kind:
    __slots__ = ("began_s", "logged", "suppressed")

    def __init__(self, now_s: float) -> None:
        self.began_s = now_s
        self.logged = 0
        self.suppressed = 0


class RepeatedLines(logging.Filter):
    """A filter for loggers whose lines clients cause.

    The last line of a kind in a period says that further ones are not logged; the first one in a
    later period says how many were not.
    cost  a dict look-up for each line
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = self._now_s()
        kind = self._kind(record, now_s)
        note = ""
        if now_s - kind.began_s >= PERIOD_S:
            if kind.suppressed:
                note = f" ({kind.suppressed} more like it were not logged)"
            kind.began_s, kind.logged, kind.suppressed = now_s, 0, 0
        if kind.logged >= LINES_MAX:
            kind.suppressed += 1
            return False
        kind.logged += 1
        if kind.logged == LINES_MAX:
            note += f" (more like it are not logged for {PERIOD_S:.0f} s)"
        if note:
            record.msg, record.args = record.getMessage() + note, ()
        return True

    def _kind(self, record: logging.LogRecord, now_s: float) -> _Kind:
        first = record.args[0] if isinstance(record.args, tuple) and record.args else ""
        key = (str(record.msg), str(first))
        kind = self._kinds.get(key)
        if kind is not None:
            return kind
        if len(self._kinds) >= KINDS_MAX:
            self._forget_old(now_s)
        if len(self._kinds) >= KINDS_MAX:
            key = (str(record.msg), "")
        return self._kinds.setdefault(key, _Kind(now_s))

    def _forget_old(self, now_s: float) -> None:
        """Forget kinds whose period is over, unless lines were suppressed in it."""
        self._kinds = {
            key: kind
            for key, kind in self._kinds.items()
            if now_s - kind.began_s < PERIOD_S or kind.suppressed
        }
