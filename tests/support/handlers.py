"""Handlers, called as the dispatcher calls them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from odradek.broker.handlers.handler import Awaited, InThread


def outcome_of(made: Any) -> Any:
    """What a handler decides, after all of its steps."""
    if not isinstance(made, Generator):
        return made
    step = None
    try:
        while True:
            step = made.send(None if step is None else _value(step))
    except StopIteration as stop:
        return stop.value


def _value(step: InThread | Awaited) -> Any:
    return step.pending.result() if isinstance(step, Awaited) else step.work()
