"""Who may run on which core: by default everybody everywhere, as on a user's machine.

Pinned, the client has the last core and the broker all others.  That takes the luck out of the
times of single requests (client and broker on one core wake each other five times faster than on
two), and takes cores away from brokers with many threads, so it is no fair race of throughput.
"""

from __future__ import annotations

import os

_pinned = False


def pin() -> None:
    """From now on brokers and clients are kept apart."""
    global _pinned
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("pinning needs two cores")
    _pinned = True


def is_pinned() -> bool:
    """Whether `pin` was called."""
    return _pinned


def pin_broker(pid: int) -> None:
    """To be called right after the start, before there are threads."""
    if _pinned:
        os.sched_setaffinity(pid, range((os.cpu_count() or 1) - 1))


def client_prefix() -> list[str]:
    """What stands before a client's command line."""
    return ["taskset", "-c", str((os.cpu_count() or 1) - 1)] if _pinned else []
