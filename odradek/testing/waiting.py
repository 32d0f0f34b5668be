"""Waiting for a state, with a deadline and a failure that says what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
PAUSE_S: Final = 0.01
TEXT_MAX: Final = 2_000
"""Characters of the last value in a failure."""


class NotReached(AssertionError):
    """A state was not reached in time."""


def wait_for(state: Callable[[], T], what: str | None = None, *, timeout_s: float = TIMEOUT_S) -> T:
    """Call `state` until it returns a true value, which is returned.

    An exception that it raises counts as not yet; other than Exceptions are passed on.

    what    what is waited for, in the text of the failure
    raises  NotReached
    """
    deadline_s = time.monotonic() + timeout_s
    calls = 0
    while True:
        cause: Exception | None = None
        last = ""
        calls += 1
        try:
            value = state()
            if value:
                return value
            last = f"the last value was {value!r}"
        except Exception as error:  # noqa: BLE001 - whatever a state of a test raises
            cause, last = error, f"it raised {type(error).__name__}: {error}"
        if time.monotonic() >= deadline_s:
            name = what or getattr(state, "__name__", repr(state))
            if len(last) > TEXT_MAX:
                last = last[:TEXT_MAX] + "..."
            times = "once" if calls == 1 else f"{calls} times"
            raise NotReached(
                f"not reached in {timeout_s:g} s: {name}; asked {times}, {last}"
            ) from cause
        time.sleep(PAUSE_S)
