"""What a handler gets and what it may return.

A handler is a plain function `(context, request) -> outcome`.  Handlers run in arrival order and
never suspend; a request that must wait has an outcome that says what it waits for.

A handler whose work grows with what the request names is a generator function: it yields after each
unit of work and returns the outcome.  Most end within their first few units, at the cost of a plain
function; the others go on in slices between which other connections are served, while the next
requests of their own connection wait.  State may change at each `yield`, as it may between two
requests: what was checked before one must be checked again after it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from odradek.broker.purgatory import Delayed as Delayed
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.runtime.pending import Pending

T = TypeVar("T")

CLIENT_ID_SHOWN_MAX = 100
"""Characters of a client id in a log line."""


@dataclass(slots=True)
class Context:
    """What a handler may use besides the request; closures may keep it: each request has one."""

    services: Services
    version: int
    correlation_id: int
    client_id: str | None
    now_ms: int
    """Wall time when the request was read, milliseconds since 1970."""
    listener_name: str
    """The listener of the connection; Metadata returns that listener's addresses."""
    client_host: str
    connection_number: int
    """Rises with each connection that the server accepts."""

    @property
    def requester(self) -> str:
        """The client, for log lines."""
        return f"client {(self.client_id or '')[:CLIENT_ID_SHOWN_MAX]!r} at {self.client_host}"


@dataclass(slots=True)
class Reply:
    """The response is known."""

    response: Any


class NoReply(NamedTuple):
    """The request has no response (Produce with acks=0)."""


class Close(NamedTuple):
    """Close the connection without a response (Produce with acks=0 that failed)."""

    reason: str


class Encoded(NamedTuple):
    """The response is known, and its body is encoded already."""

    body: bytes


class WhenDone(NamedTuple, Generic[T]):
    """The response is made when a result is done.

    There is no deadline: the owner of the result completes it in time.
    pending  the result; when it is done already, the response is made at once
    respond  called once, with the value; returns the response, or steps that make it.  It may not
             keep a view into the request's memory, which is reused when the handler has returned.
             When the pending has failed, or `respond` fails, `Handler.failed` makes the response
    """

    pending: Pending[T]
    respond: Callable[[T], Any]


class Staged:
    """Records are staged; `finish` returns the outcome once the turn's appends are written.

    All produce requests that arrive in one read are written with one call per partition.
    """

    __slots__ = ()

    def finish(self) -> Reply | Encoded | Delayed | NoReply | Close:
        """The outcome; called once, after the appends are written."""
        raise AssertionError("each staged outcome says how it finishes")


Outcome = Reply | Encoded | Delayed | WhenDone[Any] | NoReply | Close | Staged


class InThread(NamedTuple):
    """A step that runs `work` in a thread; its value is what `work` returns, or it raises that.

    For work of a library that releases the interpreter's lock, or that no `yield` can divide.
    """

    work: Callable[[], Any]


class Awaited(NamedTuple):
    """A step that ends when a result is done; its value is that of the result, or it raises.

    For what must be known before the next requests of the connection are served.  There is no
    deadline: the owner of the result completes it in time.
    """

    pending: Pending[Any]


Steps = Generator[InThread | Awaited | None, Any, T]
"""Work in units: yields None after each, InThread for one that must not run on the loop, and
Awaited for a result from elsewhere."""


class Handler(Protocol):
    """A module in broker/handlers."""

    def run(self, context: Context, request: Any) -> Outcome | Steps[Outcome]:
        """Decide, without waiting."""

    # A module may have two more:
    #   run_large(context, request) -> Steps[Outcome], in place of `run` for requests above 16 KiB
    #   release(response), which releases the file slices of a response that will not be sent

    def failed(self, request: Any, code: ErrorCode, message: str | None) -> Any:
        """The response that carries `code` at the level where clients look for it."""
