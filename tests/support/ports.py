"""TCP ports for the servers of tests, each for one process of tests alone.

A port is chosen before its server listens, and a server that is killed leaves its port for a while:
another process must not take it meanwhile.  So a process of tests owns blocks of ports, by locks
which end with it.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

PORT_FIRST: Final = 10_000
PORT_END: Final = 32_000
"""Below the ports of outgoing connections, which could take a port between its choice and the start
of the process that listens on it."""
BLOCK_PORTS: Final = 200
LOCKS: Final = Path(tempfile.gettempdir()) / f"odradek-test-ports-{os.getuid()}"


def _claim_block() -> range:
    """A block that no other process has, until this one ends.

    raises  OSError when every block is taken
    """
    LOCKS.mkdir(exist_ok=True)
    firsts = list(range(PORT_FIRST, PORT_END, BLOCK_PORTS))
    random.SystemRandom().shuffle(firsts)
    for first in firsts:
        lock = os.open(LOCKS / str(first), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return range(first, first + BLOCK_PORTS)
    raise OSError("other processes of tests have all ports")


def _ports() -> Iterator[int]:
    """The ports of this process in turns: one that was given comes again as late as possible."""
    block = _claim_block()
    while True:
        yield from block


_turns: Final[dict[int, Iterator[int]]] = {}
"""Of this process, by its id: a fork has its own."""


def free_port() -> int:
    """A TCP port on loopback that no process listens on, and no other process of tests gets."""
    turns = _turns.get(os.getpid())
    if turns is None:
        _turns.clear()
        turns = _turns[os.getpid()] = _ports()
    for port in turns:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("ports come again for ever")
