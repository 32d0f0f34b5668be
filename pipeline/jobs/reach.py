"""Whether brokers take connections: before a job begins, and while it runs."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, Protocol

REACH_TIMEOUT_S: Final = 10.0
"""How long a cluster may be away when a job begins: a broker that restarts."""
LOOK_INTERVAL_S: Final = 5.0
JOIN_TIMEOUT_S: Final = 5.0


class Addressed(Protocol):
    """An end that has brokers."""

    @property
    def bootstrap_servers(self) -> str: ...


class Unreachable(Exception):
    """A cluster of which no broker answers."""


def check_clusters(
    clusters: Iterable[tuple[str, Addressed]],
    *,
    table: str = "clusters.",
    timeout_s: float = REACH_TIMEOUT_S,
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """See that of each cluster one broker takes connections: Spark would ask for minutes.

    clusters  by their names in the file
    table     of the file, where they stand
    raises    Unreachable
    """
    deadline_s = time.monotonic() + timeout_s
    for name, cluster in clusters:
        while True:
            refused = [_refusal(one.strip()) for one in cluster.bootstrap_servers.split(",")]
            if None in refused:
                break
            if time.monotonic() >= deadline_s:
                said = "; ".join(one for one in refused if one is not None)
                raise Unreachable(f"{table}{name}: no broker answers: {said}")
            wait(0.2)


def _refusal(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"{address!r} is no HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2.0).close()
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    except (UnicodeError, OverflowError):
        return f"{address!r} is no HOST:PORT"
    return None


class Watch:
    """Says once that a cluster is away, and once that it is back: Spark's log, which would, is off.

    clusters  by their names in the file
    say       takes a line
    now_s     the time of day
    """

    def __init__(
        self,
        clusters: Sequence[tuple[str, Addressed]],
        say: Callable[[str], object],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._clusters = clusters
        self._say = say
        self._now_s = now_s
        self._away_since_s: dict[str, float] = {}

    def look(self) -> None:
        """Try every cluster once; a broker that is silent costs two seconds."""
        for name, cluster in self._clusters:
            refused = [_refusal(one.strip()) for one in cluster.bootstrap_servers.split(",")]
            since_s = self._away_since_s.get(name)
            if None not in refused and since_s is None:
                self._away_since_s[name] = now_s = self._now_s()
                clock = time.strftime("%H:%M:%S", time.localtime(now_s))
                why = "; ".join(one for one in refused if one is not None)
                self._say(f"WARN cluster {name} is away since {clock}: {why}")
            elif None in refused and since_s is not None:
                away_s = self._now_s() - self._away_since_s.pop(name)
                self._say(f"cluster {name} is back after {away_s:.0f} s")


@contextmanager
def watched(clusters: Sequence[tuple[str, Addressed]]) -> Iterator[None]:
    """Within, standard error tells when a cluster is away, and when it is back."""
    ended = Event()
    watch = Watch(clusters, lambda line: print(line, file=sys.stderr))

    def run() -> None:
        while not ended.wait(LOOK_INTERVAL_S):
            watch.look()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(JOIN_TIMEOUT_S)
