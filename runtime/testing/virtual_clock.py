"""A clock that moves only when a test moves it."""

from __future__ import annotations


class VirtualClock:
    """A `Clock` whose two times are the same figure."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Move forward; `by_ms` is not negative."""
        assert by_ms >= 0, "monotonic time never falls"
        self._now_ms += by_ms
