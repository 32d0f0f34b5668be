"""Outcomes whose response is altered before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any

from odradek.broker.handlers.handler import (
    Close,
    Delayed,
    Encoded,
    NoReply,
    Outcome,
    Reply,
    Staged,
    Steps,
    WhenDone,
)
from odradek.broker.server.call import Call
from odradek.protocol.compiler import decoder

Alter = Callable[[Any], Any]


def altered(outcome: Outcome, alter: Alter, call: Call) -> Outcome:
    """The outcome with `alter(response)` as its response, whenever that is made."""
    if isinstance(outcome, Staged):
        return AlteredStaged(outcome, alter, call)
    return _settled(outcome, alter, call)


def _settled(
    outcome: Reply | Encoded | Delayed | WhenDone[Any] | NoReply | Close, alter: Alter, call: Call
) -> Reply | Encoded | Delayed | WhenDone[Any] | NoReply | Close:
    match outcome:
        case Reply():
            return Reply(alter(outcome.response))
        case Encoded():
            decode = decoder(call.loaded.response, call.header.version)
            return Reply(alter(decode(memoryview(outcome.body), 0)[0]))
        case Delayed():
            return Delayed(
                outcome.watch,
                outcome.timeout_ms,
                lambda: _when_made(outcome.attempt(), alter),
                lambda: _when_made(outcome.expire(), alter),
                outcome.is_tried,
            )
        case WhenDone():
            return WhenDone(
                outcome.pending, lambda value: _when_made(outcome.respond(value), alter)
            )
    return outcome


def _when_made(made: Any, alter: Alter) -> Any:
    """A response, steps that make one, or None: not yet."""
    if isinstance(made, GeneratorType):
        return _at_end(made, alter)
    return None if made is None else alter(made)


def _at_end(steps: Steps[Any], alter: Alter) -> Steps[Any]:
    response = yield from steps
    return alter(response)


class AlteredStaged(Staged):
    """Staged records whose response is altered."""

    __slots__ = ("_alter", "_call", "_staged")

    def __init__(self, staged: Staged, alter: Alter, call: Call) -> None:
        self._staged = staged
        self._alter = alter
        self._call = call

    def finish(self) -> Reply | Encoded | Delayed | NoReply | Close:
        """The outcome of the staged records, with its response altered."""
        outcome = self._staged.finish()
        if isinstance(outcome, NoReply):
            connection: Any = self._call.connection
            connection.end_without_response(self._call.header.correlation_id)
            return outcome
        settled = _settled(outcome, self._alter, self._call)
        assert not isinstance(settled, WhenDone), "staged records wait in the purgatory"
        return settled
