"""Responses that wait for the coordination service, and then for partitions that can serve."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from odradek.broker.handlers.shared.handler import Context, Delayed
from odradek.broker.replication.leadership import topic_key
from odradek.controller.active.topic_admin import TopicResult
from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending

T = TypeVar("T")

FIRST_USE_WAIT_MS: Final = 1_000
"""How long a response waits for topics that are created on first use; then clients ask again."""


def wait_for(
    context: Context,
    pending: Pending[T],
    timeout_ms: int,
    *,
    respond: Callable[[T], object | None],
    expire: Callable[[], object],
    watch: tuple[Hashable, ...] = (),
) -> Delayed:
    """Wait for a result, and after it until `respond` returns a response.

    respond  called with the result, then again at each notification of `watch`; None: not yet
    expire   returns the response when the time is up
    """
    purgatory = context.services.purgatory

    def attempt() -> object | None:
        return respond(pending.result()) if pending.is_done else None

    delayed = Delayed((pending, *watch), max(0, timeout_ms), attempt, expire)
    if not pending.is_done:
        pending.on_done(lambda done: purgatory.notify(done))
    return delayed


def when_stored(
    context: Context, outcomes: Iterable[object], respond: Callable[[], object]
) -> Delayed | None:
    """Wait for those outcomes that are pending, or for request.timeout.ms; None: none is.

    respond  returns the response from the outcomes as they are then
    """
    pending = tuple(
        outcome for outcome in outcomes if isinstance(outcome, Pending) and not outcome.is_done
    )
    if not pending:
        return None
    for storing in pending:
        storing.on_done(context.services.purgatory.notify)
    return Delayed(
        pending,
        context.services.settings.request_timeout_ms,
        lambda: respond() if all(storing.is_done for storing in pending) else None,
        respond,
    )


class Checklist(Generic[T]):
    """Whether something has been true of each of several objects.

    What was true once is not asked again: a notification costs one check, not one for each.
    """

    def __init__(self, is_true: Callable[[T], bool]) -> None:
        self._is_true = is_true
        self._left: list[T] | None = None

    def is_complete(self, objects: Iterable[T]) -> bool:
        """objects  read by the first call only"""
        if self._left is None:
            self._left = list(objects)
        while self._left and self._is_true(self._left[-1]):
            self._left.pop()
        return not self._left


def when_created(
    context: Context, creations: Mapping[str, Pending[TopicResult]], respond: Callable[[], object]
) -> Delayed:
    """Wait until the topics that are created on first use are in the metadata, or for a second.

    creations  by topic; from `AutoTopicCreation.create`
    respond    returns the response, or a coroutine that makes it, from the metadata at that time
    """
    topics = context.services.topics

    def is_awaited(name: str, creation: Pending[TopicResult]) -> bool:
        if not creation.is_done:
            return True
        return creation_error(creation) is ErrorCode.NONE and topics.view(name) is None

    def attempt() -> object | None:
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
    """Why a topic was not created on first use; NONE also for one that exists already.

    LEADER_NOT_AVAILABLE, after which clients ask again, when it could not be stored;
    UNKNOWN_TOPIC_OR_PARTITION over the client's quota on changes of topics, as in Kafka.
    """
    assert creation.is_done, "the creation has ended"
    try:
        error = creation.result().error
    except CoordinationError:
        return ErrorCode.LEADER_NOT_AVAILABLE
    except BrokerError as refusal:
        return refusal.code
    if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if error is ErrorCode.TOPIC_ALREADY_EXISTS else error
