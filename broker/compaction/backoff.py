"""The pause before a log whose cleaning has failed is cleaned again: twice as long each time.

Pure; time arrives as `now_ms`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

LONGEST_WAIT_MS: Final = 600_000

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Wait:
    until_ms: int
    wait_ms: int


class Backoff(Generic[Key]):
    """One entry for each log that has failed and has not succeeded since."""

    def __init__(self) -> None:
        self._waits: dict[Key, _Wait] = {}

    def note_failure(self, key: Key, now_ms: int, *, first_wait_ms: int) -> int:
        """Double the pause, up to ten minutes, and begin it now.

        first_wait_ms  the pause after the first failure
        returns        the pause in ms
        """
        former = self._waits.get(key)
        wait_ms = first_wait_ms if former is None else min(2 * former.wait_ms, LONGEST_WAIT_MS)
        self._waits[key] = _Wait(now_ms + wait_ms, wait_ms)
        return wait_ms

    def note_success(self, key: Key) -> None:
        """Count the next failure as the first one."""
        self._waits.pop(key, None)

    def must_wait(self, key: Key, now_ms: int) -> bool:
        """Whether the pause is not over."""
        wait = self._waits.get(key)
        return wait is not None and now_ms < wait.until_ms

    def keep_only(self, keys: set[Key]) -> None:
        """Drop the entries of all other keys."""
        for key in [key for key in self._waits if key not in keys]:
            del self._waits[key]
