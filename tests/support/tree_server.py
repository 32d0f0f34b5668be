"""The embedded tree with ZooKeeper's protocol, on an event loop in a thread of the test."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final, TypeVar

import uvloop

from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.server.client_connection import ClientService
from odradek.controller.coordination.server.client_listener import ClientListener
from odradek.controller.coordination.server.client_sessions import ClientSessions
from odradek.controller.coordination.server.passwords import load_passwords
from odradek.runtime.clock import SystemClock
from odradek.runtime.files import FileSystem
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.randomness import SystemRandomness
from odradek.runtime.system_files import SystemFileSystem
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.thread_work import ThreadWork
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver

T = TypeVar("T")
WAIT_S: Final = 60.0


class TreeServer:
    """Serves a tree; `call` runs a function on its loop."""

    def __init__(self, files: FileSystem, folder: str, port: int) -> None:
        self.loop = uvloop.new_event_loop()
        self.problems: list[str] = []
        clock = SystemClock()
        executor = ThreadPoolExecutor(2)
        self.work = ThreadWork(
            self.loop, executor, after=lambda: None, on_broken=lambda e: self.on_problem(repr(e))
        )
        self.tree = EmbeddedTree(files, folder, clock, serves_clients=True)
        wheel = WheelDriver(self.loop, clock, TimingWheel(clock.monotonic_ms()))
        sessions = ClientSessions(
            self.tree,
            load_passwords(files, folder, SystemRandomness()),
            monotonic_ms=clock.monotonic_ms,
            add_timer=wheel.add,
        )
        self.service = ClientService(self.tree, sessions, {})
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        bound.setblocking(False)
        self.port: int = bound.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.listener = ClientListener(
            self.loop,
            bound,
            self.service,
            clock=clock,
            add_timer=wheel.add,
            loop_watch=LoopWatch(BrokerMetrics()),
            on_problem=self.on_problem,
        )
        self.is_listening = threading.Event()
        self._wheel = wheel
        self._executor = executor

    def on_problem(self, line: str) -> None:
        """Note it; the test asserts that there is none."""
        self.problems.append(line)

    def close_connections(self) -> None:
        """Close the connections of all clients; called on the loop."""
        for transport in list(self.listener._transports):
            transport.connection.close()

    def run(self) -> None:
        """Serve until `stop`."""
        asyncio.set_event_loop(self.loop)
        self.tree.serve(self.work, on_failure=self.on_problem, on_warning=self.on_problem)
        self.listener.listen()
        self.is_listening.set()
        self.loop.run_forever()
        self.listener.close()
        self._wheel.close()
        self.loop.run_until_complete(self.work.finish())
        self.tree.close()
        self._executor.shutdown()
        self.loop.close()

    def call(self, act: Callable[[], T]) -> T:
        """The result of a function that runs on the loop."""
        results: SimpleQueue[Any] = SimpleQueue()
        self.loop.call_soon_threadsafe(lambda: results.put(act()))
        result: T = results.get(timeout=WAIT_S)
        return result


@contextmanager
def tree_server(folder: str | None = None, *, port: int = 0) -> Iterator[TreeServer]:
    """A server on the files in `folder`, or on files in memory."""
    files: FileSystem = SystemFileSystem()
    if folder is None:
        folder, files = "/data", MemoryFileSystem(folders=["/data"])
    server = TreeServer(files, folder, port)
    thread = threading.Thread(target=server.run, name="tree", daemon=True)
    thread.start()
    assert server.is_listening.wait(WAIT_S)
    try:
        yield server
    finally:
        server.loop.call_soon_threadsafe(server.loop.stop)
        thread.join(WAIT_S)
        assert not thread.is_alive(), "the server has stopped"
    assert not server.problems
