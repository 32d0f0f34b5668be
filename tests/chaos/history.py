"""What clients did and saw during a run; readers are read_committed.

Times are monotonic ns of one clock.  A value is a number that is sent once in a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Outcome(Enum):
    """Of a send."""

    OK = "ok"
    FAIL = "fail"
    """No copy can have been appended."""
    INFO = "info"
    """Not known: a time-out, a lost connection, an error after an internal retry."""


@dataclass(slots=True)
class Send:
    """One record of a producer."""

    producer: int
    partition: int
    value: int
    invoked_ns: int
    ended_ns: int | None = None
    outcome: Outcome = Outcome.INFO
    """Of the append; what became of a transaction, `History.transactions` says."""
    offset: int | None = None
    transaction: int | None = None


@dataclass(slots=True)
class Transaction:
    """A transaction of a producer; `number` is that of its sends and polls."""

    number: int
    commit_invoked_ns: int | None = None
    """None: a commit was never asked for."""
    outcome: Outcome = Outcome.INFO
    """FAIL: a commit was never asked for, or the abort was confirmed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One record of a poll."""

    partition: int
    offset: int
    value: int
    leader_epoch: int | None = None


@dataclass(slots=True)
class Poll:
    """The records of one poll.

    session  counts the assignments of the consumer: nothing is said of two polls of different ones
    group    the group whose committed offsets the session goes on from; None: from elsewhere
    is_from_start  the session begins at offset 0
    """

    consumer: int
    session: int
    ended_ns: int
    records: list[Seen]
    transaction: int | None = None
    group: str | None = None
    is_from_start: bool = False


@dataclass(slots=True)
class Commit:
    """Offsets that a group committed, or found committed."""

    group: str
    offsets: dict[int, int]
    ended_ns: int
    is_ok: bool
    """Of a commit: it succeeded."""
    is_fetch: bool = False
    is_aborted: bool = False
    """Of a commit: it belonged to a transaction whose outcome is FAIL."""


@dataclass(slots=True)
class History:
    """A run: sends, polls, commits, each in the order of their ends; and the last full read."""

    sends: list[Send] = field(default_factory=list)
    transactions: dict[int, Transaction] = field(default_factory=dict)
    """By number."""
    polls: list[Poll] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    final: list[Seen] = field(default_factory=list)
    """Everything from offset 0 to the end, read after the cluster has healed."""
