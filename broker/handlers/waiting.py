"""Responses that wait for the coordination service, and then for partitions that can serve."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, TypeVar

from odradek.broker.handlers.handler import Context, Delayed
from odradek.broker.replication.leadership import topic_key
from odradek.controller.active.topic_admin import TopicResult
from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending

T = TypeVar("T")

FIRST_USE_WAIT_MS: Final = 1_000
"""How long a response waits for topics that are created on first use; clients ask again then."""


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


def when_created(
    context: Context, creations: Mapping[str, Pending[TopicResult]], respond: Callable[[], Any]
) -> Delayed:
    """Wait until the topics that are created on first use are there, or for a second.

    creations  by topic; from `AutoTopicCreation.create`
    respond    makes the response, or returns steps that make it, from what is there then
    """
    topics = context.services.topics

    def is_awaited(name: str, creation: Pending[TopicResult]) -> bool:
        if not creation.is_done:
            return True
        return creation_error(creation) is ErrorCode.NONE and topics.view(name) is None

    def attempt() -> Any | None:
        if any(is_awaited(name, creation) for name, creation in creations.items()):
            return None
        return respond()

    notify = context.services.purgatory.notify
    for creation in creations.values():
        if not creation.is_done:
            creation.on_done(notify)
    watch = (*creations.values(), *map(topic_key, creations))
    return Delayed(watch, FIRST_USE_WAIT_MS, attempt, respond)


def creation_error(creation: Pending[TopicResult]) -> ErrorCode:
    """Why a topic was not created on first use; NONE also for one that is there already.

    LEADER_NOT_AVAILABLE, for which clients ask again, when the disk refused it.
    """
    assert creation.is_done, "it is known how it ended"
    try:
        error = creation.result().error
    except CoordinationError:
        return ErrorCode.LEADER_NOT_AVAILABLE
    except BrokerError as refusal:
        return refusal.code
    return ErrorCode.NONE if error is ErrorCode.TOPIC_ALREADY_EXISTS else error
