"""Outcomes whose response is altered before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.broker.handlers.shared.handler import (
    Close,
    Delayed,
    NoReply,
    Outcome,
    Reply,
    Staged,
)
from odradek.broker.server.call import Call
from odradek.protocol.compiler import decoder
from odradek.runtime.work import CoroutineObject, Later

Alter = Callable[[Any], Any]


def altered(outcome: Outcome, alter: Alter, call: Call) -> Outcome:
    """The outcome with `alter(response)` as its response, whenever that is made."""
    if isinstance(outcome, Staged):
        return AlteredStaged(outcome, alter, call)
    return _settled(outcome, alter, call)


def _settled(
    outcome: Reply | Delayed | NoReply | Close, alter: Alter, call: Call
) -> Reply | Delayed | NoReply | Close:
    match outcome:
        case Reply(bytes() as body):
            decode = decoder(call.loaded.response, call.header.version)
            return Reply(alter(decode(memoryview(body), 0)[0]))
        case Reply():
            return Reply(alter(outcome.response))
        case Delayed():
            return Delayed(
                outcome.watch,
                outcome.timeout_ms,
                lambda: _when_made(outcome.attempt(), alter),
                lambda: _when_made(outcome.expire(), alter),
                outcome.is_tried,
            )
    return outcome


def _when_made(made: object, alter: Alter) -> object:
    """A response, a coroutine that makes one, or None: not yet."""
    if isinstance(made, CoroutineObject):
        return _at_end(made, alter)
    return None if made is None else alter(made)


async def _at_end(making: Later[object], alter: Alter) -> object:
    return alter(await making)


class AlteredStaged(Staged):
    """Staged records whose response is altered."""

    __slots__ = ("_alter", "_call", "_staged")

    def __init__(self, staged: Staged, alter: Alter, call: Call) -> None:
        self._staged = staged
        self._alter = alter
        self._call = call

    def finish(self) -> Reply | Delayed | NoReply | Close:
        """The outcome of the staged records, with its response altered."""
        outcome = self._staged.finish()
        if isinstance(outcome, NoReply):
            connection: Any = self._call.connection
            connection.end_without_response(self._call.header.correlation_id)
            return outcome
        return _settled(outcome, self._alter, self._call)
