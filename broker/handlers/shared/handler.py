"""What a handler gets and what it may return.

A handler is a plain function `(context, request) -> outcome`, or an `async def` if it waits, or if
its work grows with what the request names: `await pause()` after each unit, `await pending` for a
result from elsewhere, `await in_thread(f)` (`runtime/work.py`).  Handlers run in arrival order.
Most end within their first few units, at the cost of a plain function, and the others go on in
slices between which other connections are served.  The next requests of their own connection wait
meanwhile, as in Kafka.  State may change at each `await`, as it may between two requests: what was
checked before one must be checked again after it.

What an API needs besides `Services` is named in its row of the table, and `run` gets it as keyword
arguments.

A request that others need not wait for has an outcome that says what it waits for: `Staged`,
`Delayed`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from odradek.broker.purgatory import Delayed as Delayed
from odradek.broker.security.kafka_principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import ArrayOf, Required, schema_of
from odradek.runtime.work import Later

T = TypeVar("T")

CLIENT_ID_SHOWN_MAX = 100
"""Characters of a client id in a log line."""


@dataclass(slots=True)
class Context:
    """What a handler may use besides the request; closures may keep it: each request has one."""

    services: Services
    version: int
    client_id: str | None
    now_ms: int
    """Wall time when the request was read, milliseconds since 1970."""
    listener_name: str
    """The listener of the connection; Metadata returns that listener's addresses."""
    client_host: str
    connection_number: int
    """Rises with each connection that the server accepts."""
    principal: KafkaPrincipal = ANONYMOUS
    """Who sent the request."""
    api_key: int = -1

    @property
    def requester(self) -> str:
        """The client, for log lines."""
        return f"client {(self.client_id or '')[:CLIENT_ID_SHOWN_MAX]!r} at {self.client_host}"


@dataclass(slots=True)
class Reply:
    """The response is known."""

    response: object


class NoReply(NamedTuple):
    """The request has no response (Produce with acks=0)."""


class Close(NamedTuple):
    """Close the connection without a response (Produce with acks=0 that failed)."""

    reason: str


class Staged:
    """Records are staged; `finish` returns the outcome once the turn's appends are written.

    All produce requests that arrive in one read are written with one call per partition.
    """

    __slots__ = ()

    def finish(self) -> Finished:
        """The outcome; called once, after the appends are written."""
        raise AssertionError("each staged outcome says how it finishes")


Finished = bytes | Reply | Delayed | NoReply | Close
"""Bytes are the body of a response that is encoded already."""
Outcome = Finished | Staged


class Handler(Protocol):
    """A module in broker/handlers."""

    def run(self, context: Context, request: Any) -> Outcome | Later[Outcome]:
        """Decide; a coroutine function if it waits."""

    def failed(self, request: Any, code: ErrorCode, message: str | None) -> object:
        """The response that carries `code` at the level where clients look for it."""


def top_level(response: type[T], **fields: object) -> Callable[[object, ErrorCode, str | None], T]:
    """`failed` of an API whose responses have the error in fields of their own.

    fields  what else has no default; arrays are empty
    """
    make: Callable[..., T] = response
    declared = schema_of(response).fields
    has_message = any(field.name == "error_message" for field in declared)
    arrays = [
        field.name
        for field in declared
        if field.default is Required and isinstance(field.type, ArrayOf)
    ]

    def failed(request: object, code: ErrorCode, message: str | None) -> T:
        others = {name: [] for name in arrays} | fields
        if has_message:
            others["error_message"] = message
        return make(error_code=code, **others)

    return failed
