"""Processes that do nothing but take processor time from what is tested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.processes import die_with_parent


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many of them, until the block ends."""
    loop = [sys.executable, "-I", "-c", "while True: pass"]
    processes = [subprocess.Popen(loop, preexec_fn=die_with_parent) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
