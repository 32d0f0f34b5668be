"""Spark's Java process: started with its complaints kept, ended with nothing left of it."""

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
"""Of what Java writes while it starts; the beginning."""
READ_BYTES: Final = 8_192


class LaunchFailed(Exception):
    """The Java process ended before Spark began; the text is what it wrote."""


class StartLog:
    """What the Java process writes: kept while Spark starts, passed on afterwards.

    Ivy and the logging write some thirty lines before anything of a pipeline is said.

    out, err  the ends of pipes that the process writes to
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
                    # Its reader may be gone.
                    with suppress(OSError, ValueError):
                        target.write(data.decode(errors="replace"))
                        target.flush()

    def close(self) -> None:
        """The Java process has ends of its own: the pipes end with that."""
        os.close(self.out)
        os.close(self.err)

    def text(self) -> str:
        """What was kept."""
        with self._lock:
            return self._kept.decode(errors="replace")

    def pass_on(self) -> None:
        """What is written from now on goes to our own outputs."""
        with self._lock:
            self._is_kept = False

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Until the process has closed its ends, and all that it wrote was read."""
        for thread in self._threads:
            thread.join(timeout_s)


def launch(settings: Mapping[str, str]) -> StartLog:
    """Start the Java process for the sessions to come.

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
    """End the Java process, and wait until it is gone; it does not matter if it is already."""
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
