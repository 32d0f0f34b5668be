"""Members of consumer groups in processes, and the events that they report.

The processes use the protocol in README.md.  A process whose member has left is used again, since a
JVM takes a second to start.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.libraries import GROUP_LIBRARIES, member_command
from tests.support.processes import die_with_parent, pause_process

WAIT_S = 90.0
LEAVE_TIMEOUT_S = 60.0
SESSION_MS = 5_000
"""Long enough for a member that is not scheduled for a while; short, since tests wait for it."""

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a member; the kind of the last one is `done` or `failed`."""

    kind: str
    fields: dict[str, Any]

    @property
    def generation(self) -> int:
        """The generation; -1 when the library does not report it."""
        generation: int = self.fields.get("generation", -1)
        return generation


@dataclass(slots=True)
class Membership:
    """The events of a member since the command `group`."""

    group: str
    topic: str
    events: list[Event] = field(default_factory=list)
    was_asked_to_leave: bool = False

    def of_kind(self, *kinds: str) -> list[Event]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event.kind in kinds]

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that the member reports as its own."""
        events = self.of_kind("assigned", "revoked", "lost")
        return frozenset(events[-1].fields["owned"]) if events else frozenset()

    @property
    def generation(self) -> int:
        """The generation of the last assignment; -1 before it, or when it is not reported."""
        events = self.of_kind("assigned")
        return events[-1].generation if events else -1

    @property
    def member_id(self) -> str:
        """The member id at the last assignment."""
        member_id: str = self.of_kind("assigned")[-1].fields["member"]
        return member_id

    @property
    def reads(self) -> list[Place]:
        """The records that were read, in order."""
        return places(self.events)

    @property
    def committed(self) -> dict[int, int]:
        """The last successful commit of each partition."""
        offsets: dict[int, int] = {}
        for event in self.of_kind("committed"):
            offsets.update({int(number): at for number, at in event.fields["committed"].items()})
        return offsets

    @property
    def failure(self) -> str | None:
        """The error that ended the membership, or None."""
        events = self.of_kind("failed")
        return events[-1].fields["error"] if events else None

    @property
    def is_over(self) -> bool:
        """Whether the member has left or failed."""
        return bool(self.of_kind("failed", "done"))

    @property
    def has_left(self) -> bool:
        """Whether it is over, and the process has read everything that was said to it.

        A member that fails while it is asked to leave finds that line before its next `group`.
        """
        return bool(self.of_kind("done")) or (self.is_over and not self.was_asked_to_leave)


class Member:
    """A process; a member of a group after `join`."""

    def __init__(self, library: str, bootstrap: str, log: Path, news: threading.Condition) -> None:
        self.library = library
        self.log = log
        self._news = news
        self._now: Membership | None = None
        with open(log, "wb") as errors:
            self._child = subprocess.Popen(
                [*member_command(library), "--bootstrap", bootstrap],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                preexec_fn=die_with_parent,
            )
        self._pump = threading.Thread(target=self._read, name=f"lines of {log.stem}", daemon=True)
        self._pump.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        with self._child.stdout as source:
            for line in source:
                fields = json.loads(line)
                kind = "done" if "done" in fields else fields.get("event", "failed")
                with self._news:
                    assert self._now is not None, line
                    self._now.events.append(Event(kind, fields))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    @property
    def now(self) -> Membership:
        """The current or last membership."""
        assert self._now is not None, "it has not joined"
        return self._now

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._child.poll() is None

    def join(
        self,
        topic: str,
        group: str,
        assignor: str = "range",
        instance: str | None = None,
        *,
        session_ms: int = SESSION_MS,
    ) -> Membership:
        """Become a member; returns at once."""
        with self._news:
            self._now = Membership(group, topic)
        self.say(f"group {topic} {group} {assignor} {instance or '-'} {session_ms}")
        return self._now

    def say(self, line: str) -> None:
        """`commit` while it is a member."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n".encode())
        self._child.stdin.flush()

    def leave(self) -> None:
        """Have the member leave its group; returns at once."""
        self.now.was_asked_to_leave = True
        self.say("leave")

    def pause(self) -> None:
        """Its connections stay, its heartbeats do not."""
        pause_process(self._child.pid)

    def resume(self) -> None:
        """SIGCONT."""
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        if self.is_running:
            self._child.kill()
        self._child.wait(30)
        self._pump.join(60)
        if self._child.stdin is not None:
            self._child.stdin.close()

    def last_lines(self) -> str:
        """The last lines of the member, for the report of a failing test."""
        events = [] if self._now is None else [each.fields for each in self._now.events]
        shown = "\n".join(json.dumps(each)[:300] for each in events[-25:])
        return f"--- {self.log.stem}\n{shown}\n{self.log.read_text(errors='replace')[-1500:]}"


class Crew:
    """The members of a test, in processes that a run of tests shares."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._news = threading.Condition()
        self._idle: list[Member] = []
        self._busy: list[Member] = []
        self._count = 0

    def take(self, library: str) -> Member:
        """Return a process without a membership; started if none is free."""
        for member in self._idle:
            if member.library == library and member.is_running:
                self._idle.remove(member)
                break
        else:
            self._count += 1
            log = self._folder / f"{self._count}-{library}.log"
            member = Member(library, self._bootstrap, log, self._news)
        self._busy.append(member)
        return member

    def wait_until(self, condition: Callable[[], bool], what: str, wait_s: float = WAIT_S) -> None:
        """Wait until the events of the members make the condition true."""
        deadline = time.monotonic() + wait_s
        with self._news:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0:
                    lines = "\n".join(member.last_lines() for member in self._busy)
                    raise AssertionError(f"not in {wait_s} s: {what}\n{lines}")
                self._news.wait(left)

    def listen(self, wait_s: float) -> None:
        """Collect events for a while."""
        deadline = time.monotonic() + wait_s
        with self._news:
            while (left := deadline - time.monotonic()) > 0:
                self._news.wait(left)

    def dismiss(self, member: Member) -> None:
        """Make a member leave, and wait until it has."""
        now = member.now
        member.leave()
        self.wait_until(lambda: now.is_over, f"{member.log.stem} leaves", LEAVE_TIMEOUT_S)

    def end_test(self) -> None:
        """Make all members leave; kill those that do not."""
        busy, self._busy = self._busy, []
        for member in busy:
            if member.is_running and not member.now.is_over:
                member.resume()
                member.leave()
        deadline = time.monotonic() + LEAVE_TIMEOUT_S
        for member in busy:
            with self._news:
                while member.is_running and not member.now.is_over:
                    if not self._news.wait(max(0.0, deadline - time.monotonic())):
                        break
            has_left = member.is_running and member.now.has_left
            if has_left and GROUP_LIBRARIES[member.library].leaves_while_joining:
                self._idle.append(member)
            else:
                member.kill()

    def close(self) -> None:
        """End all processes."""
        for member in [*self._idle, *self._busy]:
            member.kill()


# Checks of groups.


def owners(members: Iterable[Member], partitions: int) -> list[int]:
    """The number of owners of each partition, by the members' reports."""
    counts = Counter(number for member in members for number in member.now.owned)
    return [counts[number] for number in range(partitions)]


def is_shared(members: Sequence[Member], partitions: int) -> bool:
    """Whether each partition has one owner, and the counts of members differ by at most one."""
    sizes = [len(member.now.owned) for member in members]
    return (
        owners(members, partitions) == [1] * partitions
        and max(sizes) - min(sizes) <= 1
        and all(member.now.of_kind("assigned") for member in members)
    )


def check_generations(memberships: Iterable[Membership]) -> int:
    """Check that no partition has two owners in a generation; returns the number of generations."""
    owner: dict[tuple[int, int], str] = {}
    generations = set()
    for number, membership in enumerate(memberships):
        last: dict[int, Event] = {}
        for event in membership.of_kind("assigned"):
            if event.generation >= 0:
                last[event.generation] = event
        for generation, event in last.items():
            generations.add(generation)
            for partition in event.fields["owned"]:
                other = owner.setdefault((generation, partition), f"member {number}")
                assert other == f"member {number}", (
                    f"partition {partition} has two owners in generation {generation}: "
                    f"{other} and member {number} ({event.fields})"
                )
    return len(generations)


def places(events: Iterable[Event]) -> list[Place]:
    """The records in these events, in order."""
    return [
        (event.fields["partition"], offset)
        for event in events
        if event.kind == "read"
        for offset in event.fields["offsets"]
    ]


def reads(members: Iterable[Member]) -> list[Place]:
    """All records that any member has read, sorted."""
    return sorted(place for member in members for place in member.now.reads)
