"""Sessions with a real ZooKeeper on an event loop that runs while the test waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from odradek.controller.coordination.session import SessionEvent, SessionState, WatchEvent
from odradek.controller.coordination.zookeeper import ZooKeeperSession, parse_connect
from odradek.controller.coordination.zookeeper_connection import ZooKeeperOptions
from odradek.runtime.clock import SystemClock
from odradek.runtime.pending import Pending
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from tests.support.coordination_script import EmbeddedActor

T = TypeVar("T")
TIMEOUT_S = 60.0


class LoopHere:
    """An event loop with a timing wheel; it runs during `until` only."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.open: list[SessionHere] = []
        self._clock = SystemClock()
        self._wheel = WheelDriver(self.loop, self._clock, TimingWheel(self._clock.monotonic_ms()))

    def connect(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 6_000,
        connection_timeout_ms: int = 30_000,
        in_flight_max: int = 10,
    ) -> SessionHere:
        """A session; `connect` is a zookeeper.connect."""
        hosts, chroot = parse_connect(connect)
        options = ZooKeeperOptions(
            hosts=hosts,
            chroot=chroot,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=connection_timeout_ms,
            in_flight_max=in_flight_max,
        )
        made = SessionHere(self, options)
        self.open.append(made)
        return made

    def call_on_loop(self, work: Callable[[], None]) -> None:
        """From any thread; nothing once the loop is closed."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(work)

    def new_session(
        self, options: ZooKeeperOptions, on_event: Callable[[SessionEvent], None]
    ) -> ZooKeeperSession:
        """A session on this loop."""
        return ZooKeeperSession(
            options,
            on_event,
            call_on_loop=self.call_on_loop,
            add_timer=lambda delay_ms, callback: self._wheel.add(
                self._clock.monotonic_ms() + delay_ms, callback
            ),
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until the condition holds."""

        async def poll() -> None:
            deadline = time.monotonic() + TIMEOUT_S
            while not condition():
                assert time.monotonic() < deadline, "the condition does not come true"
                await asyncio.sleep(0.002)

        self.loop.run_until_complete(poll())

    def wait(self, pending: Pending[T]) -> T:
        """The result of a call."""
        self.until(lambda: pending.is_done)
        return pending.result()

    def close(self) -> None:
        """End the sessions that a failed test has left, whose threads would disturb later ones, and
        close the loop."""
        for left in list(self.open):
            with suppress(Exception):
                left.close()
        self._wheel.close()
        self.loop.close()


class SessionHere:
    """A session and the events that it has reported."""

    def __init__(self, here: LoopHere, options: ZooKeeperOptions) -> None:
        self.events: list[SessionEvent] = []
        self._here = here
        self.session = here.new_session(options, lambda event: self.events.append(event))

    def wait(self, pending: Pending[T]) -> T:
        """The result of a call."""
        return self._here.wait(pending)

    def wait_for(self, event: SessionEvent) -> None:
        """Until the event was reported, now or before."""
        self._here.until(lambda: event in self.events)

    def states(self) -> list[SessionState]:
        """The changes of state so far."""
        return [event for event in self.events if isinstance(event, SessionState)]

    def close(self) -> None:
        """End the session."""
        self._here.open.remove(self)
        self._here.wait(self.session.close())


class RemoteActor(EmbeddedActor):
    """Runs scripts on sessions with a real server, in a chroot of their own."""

    def __init__(self, here: LoopHere, connect: str) -> None:
        self._here = here
        self._connect_text = connect
        self._events: list[tuple[str, str, str]] = []
        self._sessions = {}
        self._owners = {0: "none"}
        self._prefix = "/script"
        for name in "AB":
            self._connect(name)
        self._done(self._sessions["A"].create("/script", b""))

    def _done(self, pending: Pending[T]) -> T:
        return self._here.wait(pending)

    def _connect(self, name: str) -> None:
        hosts, chroot = parse_connect(self._connect_text)
        options = ZooKeeperOptions(
            hosts, chroot, session_timeout_ms=30_000, connection_timeout_ms=60_000, in_flight_max=3
        )

        def on_event(event: SessionEvent) -> None:
            assert isinstance(event, WatchEvent), "the connection holds"
            self._events.append((name, event.kind.name, event.path))

        session = self._here.new_session(options, on_event)
        self._sessions[name] = session
        self._done(session.exists("/"))
        self._owners[session.session_id] = name

    def events(self) -> list[tuple[str, str, str]]:
        """(session, kind, path) of the watches that fired before a further call returned."""
        for session in self._sessions.values():
            self._done(session.exists("/"))
        return super().events()

    def close(self) -> None:
        """End the sessions."""
        for session in self._sessions.values():
            self._here.wait(session.close())
