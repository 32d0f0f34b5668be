"""A whole node in a thread of the test, which can patch and delay its parts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import uvloop

from odradek.broker.node.node import Node
from odradek.broker.node.start_error import StartError
from odradek.broker.settings.load import make_settings

JOIN_TIMEOUT_S = 60.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node, and the loop that it runs on."""

    node: Node
    loop: asyncio.AbstractEventLoop

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.node.listeners[0].port}"

    def call(self, function: Callable[[Node], T]) -> T:
        """Call on the thread of the node; the result."""
        done: SimpleQueue[T | BaseException] = SimpleQueue()

        def run() -> None:
            try:
                done.put(function(self.node))
            except BaseException as error:
                done.put(error)
                raise

        self.loop.call_soon_threadsafe(run)
        result = done.get(timeout=JOIN_TIMEOUT_S)
        if isinstance(result, BaseException):
            raise result
        return result


@contextmanager
def running_node(folder: Path, overrides: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yields the address; stops the node cleanly at the end."""
    with node_in_thread(folder, overrides) as running:
        yield running.address


@contextmanager
def node_in_thread(
    folder: Path, overrides: Mapping[str, str] | None = None, make_node: Callable[..., Node] = Node
) -> Iterator[RunningNode]:
    """Yields the node itself; stops it cleanly at the end.

    make_node  called with a loop and settings
    """
    settings = make_settings(
        {
            "broker.id": "0",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder / "data"),
            **(overrides or {}),
        }
    )
    loop = uvloop.new_event_loop()
    started: SimpleQueue[Node | BaseException] = SimpleQueue()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        try:
            node = make_node(loop, settings)
            node.start()
        except BaseException as error:
            started.put(error)
            raise
        started.put(node)
        try:
            loop.run_until_complete(node.run_until_stopped())
        except StartError:
            return
        finally:
            loop.close()

    thread = threading.Thread(target=serve, name="node", daemon=True)
    thread.start()
    node = started.get(timeout=JOIN_TIMEOUT_S)
    if isinstance(node, BaseException):
        raise node
    try:
        yield RunningNode(node, loop)
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(node.request_stop)
        thread.join(JOIN_TIMEOUT_S)
        assert not thread.is_alive(), "the node has stopped"
