"""Starts Spark's Java process with its output captured, and ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final, TextIO

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

END_TIMEOUT_S: Final = 15.0
KEPT_BYTES_MAX: Final = 256 * 1024
"""Bound on the captured output; what follows is dropped."""
READ_BYTES: Final = 8_192


class LaunchFailed(Exception):
    """The Java process ended before Spark started; the message is its output."""


class StartLog:
    """The output of the Java process: captured while Spark starts, passed on afterwards.

    Ivy and the logging print some thirty lines, which are shown only when the start fails.
    out, err  the write ends of the pipes for stdout and stderr of the process
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._is_kept = True
        self._lock = Lock()
        self._threads: list[Thread] = []
        self.out = self._pipe(sys.stdout)
        self.err = self._pipe(sys.stderr)

    def _pipe(self, target: TextIO) -> int:
        read_end, write_end = os.pipe()
        thread = Thread(target=self._read, args=(read_end, target), daemon=True)
        thread.start()
        self._threads.append(thread)
        return write_end

    def _read(self, read_end: int, target: TextIO) -> None:
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while data := pipe.read(READ_BYTES):
                with self._lock:
                    is_kept = self._is_kept
                    if is_kept and len(self._kept) < KEPT_BYTES_MAX:
                        self._kept += data
                if not is_kept:
                    # The reader of our output may have closed it.
                    with suppress(OSError, ValueError):
                        target.write(data.decode(errors="replace"))
                        target.flush()

    def close(self) -> None:
        """Close our write ends; the pipes end when the Java process closes its own."""
        os.close(self.out)
        os.close(self.err)

    def text(self) -> str:
        """The captured output."""
        with self._lock:
            return self._kept.decode(errors="replace")

    def pass_on(self) -> None:
        """Stop capturing: copy further output to our own stdout and stderr."""
        with self._lock:
            self._is_kept = False

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Wait until the process has closed the pipes and all its output was read."""
        for thread in self._threads:
            thread.join(timeout_s)


def launch(settings: Mapping[str, str]) -> StartLog:
    """Start the Java process that later sessions use.

    raises  LaunchFailed
    """
    log = StartLog()
    try:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        launcher: Any = launch_gateway
        gateway = launcher(conf, {"stdout": log.out, "stderr": log.err})
    except Exception as error:
        log.close()
        log.wait()
        raise LaunchFailed(log.text()) from error
    log.close()
    SparkContext._gateway = gateway
    SparkContext._jvm = gateway.jvm
    return log


def end() -> None:
    """End the Java process and wait until it has exited; nothing happens when it has already."""
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
