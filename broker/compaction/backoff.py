"""Logs whose cleaning has failed for a reason that may pass: tried again, ever more rarely.

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


class SetBack(Generic[Key]):
    """What waits, and until when; as many entries as logs have failed and not succeeded since."""

    def __init__(self) -> None:
        self._waits: dict[Key, _Wait] = {}

    def note_failure(self, key: Key, now_ms: int, *, first_wait_ms: int) -> int:
        """Wait twice as long as after the failure before; how long, in ms.

        first_wait_ms  after the first failure
        """
        former = self._waits.get(key)
        wait_ms = first_wait_ms if former is None else min(2 * former.wait_ms, LONGEST_WAIT_MS)
        self._waits[key] = _Wait(now_ms + wait_ms, wait_ms)
        return wait_ms

    def note_success(self, key: Key) -> None:
        """The next failure counts as the first one."""
        self._waits.pop(key, None)

    def must_wait(self, key: Key, now_ms: int) -> bool:
        """Whether its time has not come yet."""
        wait = self._waits.get(key)
        return wait is not None and now_ms < wait.until_ms

    def keep_only(self, keys: set[Key]) -> None:
        """Forget those that are gone."""
        for key in [key for key in self._waits if key not in keys]:
            del self._waits[key]
