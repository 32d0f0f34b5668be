"""Answers that wait for the coordination service, and then for partitions that can serve."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from broker.handlers.handler import Context, Delayed
from controller.coordination.pending import Pending

T = TypeVar("T")


def when_done(
    context: Context,
    pending: Pending[T],
    timeout_ms: int,
    *,
    answer: Callable[[T], Any | None],
    late: Callable[[], Any],
    watch: tuple[Hashable, ...] = (),
) -> Delayed:
    """Wait for a pending result, and on until `answer` makes a response of it.

    answer  asked once the result is there, then at each notification of `watch`; None: wait on
    late    the response when the time is up
    """
    purgatory = context.services.purgatory

    def attempt() -> Any | None:
        return answer(pending.result()) if pending.is_done else None

    delayed = Delayed((pending, *watch), max(0, timeout_ms), attempt, late)
    if not pending.is_done:
        pending.on_done(lambda done: purgatory.notify(done))
    return delayed
