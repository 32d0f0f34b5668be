"""What a handler is given and what it may answer.

A handler is a plain function `(context, request) -> outcome`.  Handlers run in arrival order, never
suspend, and answer with data; what must wait says what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.services import Services


@dataclass(slots=True)
class Context:
    """One request's surroundings; made anew for each, so closures may keep it."""

    services: Services
    version: int
    correlation_id: int
    client_id: str | None
    now_ms: int
    """Wall time when the request was read, milliseconds since 1970."""
    listener_name: str
    """The listener it came in on; Metadata answers with that listener's addresses."""
    client_host: str


@dataclass(slots=True)
class Reply:
    """The answer is known."""

    response: Any


@dataclass(slots=True)
class NoReply:
    """The request has no answer (Produce with acks=0)."""


@dataclass(slots=True)
class Close:
    """Close the connection without an answer (Produce with acks=0 that failed)."""

    reason: str


@dataclass(slots=True)
class Encoded:
    """The answer is known, and its body is encoded already."""

    body: bytes


@dataclass(slots=True)
class Delayed:
    """The answer waits until a watched key is notified, or its time is up.

    `attempt` is asked once at parking and after each notification; None means: wait on.
    `expire` gives the answer when the time is up.  Neither may keep a view into the request's
    memory, which is reused as soon as the handler has returned.
    """

    watch: tuple[Hashable, ...]
    timeout_ms: int
    attempt: Callable[[], Any | None]
    expire: Callable[[], Any]


class Staged:
    """Records are staged; `finish` tells the outcome once the turn's appends are written.

    All produce requests that arrive in one read are written with one call per partition.
    """

    __slots__ = ()

    def finish(self) -> Reply | Encoded | Delayed | NoReply | Close:
        """The outcome; called once, after the appends are written."""
        raise AssertionError("each staged outcome says how it finishes")


Outcome = Reply | Encoded | Delayed | NoReply | Close | Staged


class Handler(Protocol):
    """A module in broker/handlers."""

    def run(self, context: Context, request: Any) -> Outcome:
        """Decide."""

    def failed(self, request: Any, code: ErrorCode, message: str | None) -> Any:
        """The response that carries `code` at the level where clients look for it."""
