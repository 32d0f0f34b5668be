"""Handlers, called as the dispatcher calls them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from odradek.runtime.work import ThreadCall


def outcome_of(made: Any) -> Any:
    """What a handler decides, after all that it waits for: results must be done by then."""
    if not isinstance(made, Coroutine):
        return made
    try:
        while True:
            step = made.send(None)
            if isinstance(step, ThreadCall):
                try:
                    step.resolve(step.function())
                except Exception as error:  # noqa: BLE001 - it is the result
                    step.fail(error)
            assert isinstance(step, int) or step.is_done, "it waits for what is not there yet"
    except StopIteration as stop:
        return stop.value
