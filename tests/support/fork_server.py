"""Processes of `python -I -m odradek`, forked by one that has imported the modules of a broker.

An interpreter takes 0.15 s of processor time to import them, and the tests start many brokers.  A
forked process differs from an executed one in its parent, its command line in /proc and its seed of
hashes.  It is killed when the server ends, and the server ends with the tests.

`fork` is for the tests; the file is the program of the server as well: one thread and no loop.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

COMMAND: Final = (sys.executable, "-I", "-m", "odradek")
"""The words with which a command begins that a server can fork."""
MODULES: Final = ("odradek.command", "odradek.start.command", "odradek.broker.node.process")
"""They import what a broker needs until it is ready."""
MESSAGE_MAX: Final = 128 << 10
RESPONSE_TIMEOUT_S: Final = 60.0
PR_SET_PDEATHSIG: Final = 1

Limits = Mapping[int, int | tuple[int, int]]
"""resource.RLIMIT_* -> soft limit, or soft and hard one."""


class ForkServerFailed(AssertionError):
    """The server does not respond; its processes have ended if it has."""


class ForkedProcess:
    """A process of a fork server, with that part of `subprocess.Popen` that tests use."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server
        # The server reaps it when it is asked to: until then no other process gets its number.
        self._descriptor = os.pidfd_open(pid)
        weakref.finalize(self, os.close, self._descriptor)

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._code(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; returns the exit code.

        timeout  in seconds; None: as long as it takes
        raises   subprocess.TimeoutExpired
        """
        code = self._code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(COMMAND, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _code(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            if poll.poll(None if timeout_s is None else timeout_s * 1000):
                self._server.reap(self)
        return self.returncode


class ForkServer:
    """A server that this process has started."""

    def __init__(self) -> None:
        self._tests = os.getpid()
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(RESPONSE_TIMEOUT_S)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", os.path.abspath(__file__), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def fork(self, request: Mapping[str, Any], files: Sequence[int]) -> ForkedProcess:
        """raises  ForkServerFailed"""
        with self._lock:
            return ForkedProcess(self, self._call(request, files))

    def reap(self, process: ForkedProcess) -> None:
        """Take the exit code of a process that has ended.

        raises  ForkServerFailed
        """
        with self._lock:
            if process.returncode is None:
                process.returncode = self._call({"reap": process.pid}, ())

    def _call(self, request: Mapping[str, Any], files: Sequence[int]) -> int:
        try:
            socket.send_fds(self._requests, [json.dumps(request).encode()], list(files))
            response = self._requests.recv(MESSAGE_MAX)
        except OSError as error:
            raise ForkServerFailed(repr(error)) from error
        if not response:
            raise ForkServerFailed(f"the fork server ended with {self.process.wait()}")
        return int(response)

    def close(self) -> None:
        """End the server, and with it the processes that run still."""
        if self._tests != os.getpid():
            return
        # Not only closed: a fork of this process may have the socket, too.
        self._requests.shutdown(socket.SHUT_RDWR)
        self._requests.close()
        self.process.wait(RESPONSE_TIMEOUT_S)


servers: Final[dict[int, ForkServer]] = {}
"""By the process of tests: a fork of one has its own."""
_start: Final = threading.Lock()


def fork(
    arguments: Sequence[str],
    *,
    files: tuple[int | None, int, int],
    folder: str,
    environment: Mapping[str, str],
    limits: Limits,
) -> ForkedProcess:
    """Start `python -I -m odradek` with arguments, in a session of its own.

    files   its standard input (None: empty), output and error
    raises  ForkServerFailed
    """
    with _start:
        server = servers.get(os.getpid())
        if server is None or server.process.poll() is not None:
            server = servers[os.getpid()] = ForkServer()
            atexit.register(server.close)
    request = {
        "arguments": list(arguments),
        "folder": folder,
        "environment": dict(environment),
        "limits": list(limits.items()),
        "has_input": files[0] is not None,
    }
    return server.fork(request, [file for file in files if file is not None])


def _serve(requests: socket.socket) -> list[str] | None:
    """Respond to requests until the tests end.

    Returns in each forked process, too, with its arguments.
    """
    for module in MODULES:
        import_module(module)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has one thread only"
    # No collection of the server or of a fork walks, and so copies, the objects of the modules.
    gc.freeze()
    server = os.getpid()
    while True:
        message, files, _, _ = socket.recv_fds(requests, MESSAGE_MAX, 3)
        if not message:
            return None
        request = json.loads(message)
        if "reap" in request:
            response = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        else:
            response = os.fork()
            if not response:
                requests.close()
                _become(request, files, server)
                return ["odradek", *request["arguments"]]
            for file in files:
                os.close(file)
        requests.send(str(response).encode())


def _become(request: Mapping[str, Any], files: Sequence[int], server: int) -> None:
    """Take the place of the process that a test asks for."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)
    os.setsid()
    for number, file in enumerate(files, 0 if request["has_input"] else 1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    set_limits(request["limits"])


def set_limits(limits: Iterable[tuple[int, int | tuple[int, int]]]) -> None:
    """Set limits of this process; a list can take the place of a pair."""
    for kind, limit in limits:
        both = (limit, resource.getrlimit(kind)[1]) if isinstance(limit, int) else limit
        resource.setrlimit(kind, (both[0], both[1]))


if __name__ == "__main__":
    words = _serve(socket.socket(fileno=int(sys.argv[1])))
    if words is not None:
        sys.argv[:] = words
        runpy.run_module("odradek", run_name="__main__", alter_sys=True)
