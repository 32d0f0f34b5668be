"""Waiting on the loop for a state of the broker, with a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from time import monotonic
from typing import Final

from odradek.testing.node.control.routes import ControlError

TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.001


async def until(state: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Let the loop run until `state` is true; real time, also while the clock stands still.

    what    what is waited for, in the text of the failure
    raises  ControlError
    """
    deadline_s = monotonic() + timeout_s
    while not state():
        if monotonic() >= deadline_s:
            text = f"not reached in {timeout_s:g} s: {what}"
            raise ControlError(HTTPStatus.GATEWAY_TIMEOUT, text)
        await asyncio.sleep(PAUSE_S)
