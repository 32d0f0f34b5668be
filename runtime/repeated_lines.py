"""Lines that a client can cause as often as it likes: a few of each kind are logged, then counted.

A kind is the text of the line before its arguments are put in, and its first argument: who caused
it, as a rule the address of a client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

LINES_MAX: Final = 5
"""Of one kind in a period."""
PERIOD_S: Final = 10.0
KINDS_MAX: Final = 1_000
"""Beyond it all further kinds with the same text count as one."""


class _Kind:
    __slots__ = ("began_s", "logged", "suppressed")

    def __init__(self, now_s: float) -> None:
        self.began_s = now_s
        self.logged = 0
        self.suppressed = 0


class RepeatedLines(logging.Filter):
    """For a logger whose lines clients cause.

    The last line of a kind that is let through says that more are not logged; the next one, in a
    later period, how many that were.
    cost  a dict look-up a line
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged; what is known of the others is added to it."""
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
        """Kinds whose period is over and of which nothing is left to be said."""
        self._kinds = {
            key: kind
            for key, kind in self._kinds.items()
            if now_s - kind.began_s < PERIOD_S or kind.suppressed
        }
