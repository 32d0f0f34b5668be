"""Which states of a classic group each event may lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from odradek.broker.group.classic.state import GroupState


class Event(StrEnum):
    """What can happen to a group."""

    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"
    TIME = "a deadline"
    STORED = "a record is stored"
    COMMIT = "commit"
    CLOSE = "close"


_E, _P, _C, _S, _D = tuple(GroupState)
_SAME: Final = {state: (state,) for state in GroupState}

NEXT_STATES: Final[Mapping[Event, Mapping[GroupState, Sequence[GroupState]]]] = {
    Event.JOIN: {_E: (_E, _P), _P: (_P, _C), _C: (_C, _P), _S: (_S, _P, _C), _D: (_D,)},
    Event.SYNC: _SAME,
    Event.HEARTBEAT: _SAME,
    Event.LEAVE: {_E: (_E,), _P: (_P, _C, _E), _C: (_C, _P, _E), _S: (_S, _P, _C, _E), _D: (_D,)},
    Event.TIME: {_E: (_E,), _P: (_P, _C, _E), _C: (_C, _P, _E), _S: (_S, _P, _C, _E), _D: (_D,)},
    Event.STORED: {_E: (_E,), _P: (_P,), _C: (_C, _P, _S), _S: (_S,), _D: (_D,)},
    Event.COMMIT: _SAME,
    Event.CLOSE: dict.fromkeys(GroupState, (_D,)),
}
"""Event -> state before it -> states after it.  One event can take several steps: the JoinGroup of
the only member of a stable group leads to CompletingRebalance."""
