"""Checks that brokers accept connections: before a job starts, and while it runs."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, Protocol

REACH_TIMEOUT_S: Final = 10.0
"""How long a cluster may be unavailable at the start of a job, as while a broker restarts."""
CHECK_INTERVAL_S: Final = 5.0
JOIN_TIMEOUT_S: Final = 5.0


class Addressed(Protocol):
    """A cluster in a pipeline or mirror file."""

    @property
    def bootstrap_servers(self) -> str: ...


class Unreachable(Exception):
    """No broker of a cluster accepts a connection."""


def check_clusters(
    clusters: Iterable[tuple[str, Addressed]],
    *,
    table: str = "clusters.",
    timeout_s: float = REACH_TIMEOUT_S,
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """Check that one broker of each cluster accepts connections; Spark would retry for minutes.

    clusters  by their names in the file
    table     the prefix of these names in the file
    raises    Unreachable
    """
    deadline_s = time.monotonic() + timeout_s
    for name, cluster in clusters:
        while True:
            reasons = _refusals(cluster)
            if reasons is None:
                break
            if time.monotonic() >= deadline_s:
                raise Unreachable(f"{table}{name}: no broker responds: {reasons}")
            wait(0.2)


def _refusals(cluster: Addressed) -> str | None:
    """Why no broker of a cluster accepts a connection; None when one does."""
    refused = [_refusal(server.strip()) for server in cluster.bootstrap_servers.split(",")]
    return None if None in refused else "; ".join(reason for reason in refused if reason)


def _refusal(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"{address!r} is not HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2.0).close()
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    except (UnicodeError, OverflowError):
        return f"{address!r} is not HOST:PORT"
    return None


class AvailabilityReporter:
    """Reports once when a cluster becomes unavailable, and once when it is available again.

    Spark's log, which would report that, is off.
    clusters  by their names in the file
    report    is called with one line
    note      is called with each cluster that was checked, and whether it is available
    now_s     the time of day
    """

    def __init__(
        self,
        clusters: Sequence[tuple[str, Addressed]],
        report: Callable[[str], object],
        note: Callable[[str, bool], object] = lambda name, is_available: None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._clusters = clusters
        self._report = report
        self._note = note
        self._now_s = now_s
        self._away_since_s: dict[str, float] = {}

    def check(self) -> None:
        """Connect to every cluster once; costs two seconds for a broker that does not respond."""
        for name, cluster in self._clusters:
            why = _refusals(cluster)
            self._note(name, why is None)
            since_s = self._away_since_s.get(name)
            if why is not None and since_s is None:
                self._away_since_s[name] = now_s = self._now_s()
                clock = time.strftime("%H:%M:%S", time.localtime(now_s))
                self._report(f"WARN cluster {name} is unavailable since {clock}: {why}")
            elif why is None and since_s is not None:
                away_s = self._now_s() - self._away_since_s.pop(name)
                self._report(f"cluster {name} is available again after {away_s:.0f} s")


@contextmanager
def report_availability(
    clusters: Sequence[tuple[str, Addressed]], available: dict[str, bool]
) -> Iterator[None]:
    """Within, a thread checks the clusters and prints changes of their availability on stderr.

    available  what it found last, by cluster; all of them were available before
    """
    ended = Event()
    available.update((name, True) for name, _ in clusters)
    reporter = AvailabilityReporter(
        clusters, lambda line: print(line, file=sys.stderr), available.__setitem__
    )

    def run() -> None:
        while not ended.wait(CHECK_INTERVAL_S):
            reporter.check()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(JOIN_TIMEOUT_S)
