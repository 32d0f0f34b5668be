"""Writes what storage reports to the broker's log.

Source: the lines of Kafka's LogLoader, LogSegment, UnifiedLog and LogManager.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final

from odradek.storage.events import StorageEvent

REPEAT_MS: Final = 60_000
REMEMBERED_MAX: Final = 1_000

logger = logging.getLogger("odradek.storage")


class StorageLog:
    """A `Report` for `Descriptors`; logs the same event at most once a minute.

    Each read of a damaged batch causes the same event.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        on_out_of_space: Callable[[str, int], None] = lambda folder, now_ms: None,
    ) -> None:
        """now_ms           of a monotonic clock; called from any thread
        on_out_of_space  called with the folder of a log that refused an append, and the time
        """
        self._now_ms = now_ms
        self._on_out_of_space = on_out_of_space
        self._lock = Lock()
        self._logged_ms: OrderedDict[StorageEvent, int] = OrderedDict()
        """The newest 1,000 events."""

    def __call__(self, event: StorageEvent) -> None:
        now_ms = self._now_ms()
        if event.is_out_of_space:
            self._on_out_of_space(event.place, now_ms)
        with self._lock:
            logged_ms = self._logged_ms.get(event)
            if logged_ms is not None and now_ms - logged_ms < REPEAT_MS:
                return
            self._logged_ms[event] = now_ms
            self._logged_ms.move_to_end(event)
            if len(self._logged_ms) > REMEMBERED_MAX:
                self._logged_ms.popitem(last=False)
        level = logging.WARNING if event.is_warning else logging.INFO
        logger.log(level, "%s: %s", event.place, event.text)
