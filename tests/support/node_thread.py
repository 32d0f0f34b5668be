"""A whole node in a thread of the test, which can patch and delay its parts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import uvloop

from odradek.broker.node.node import Node, StartError
from odradek.broker.settings.load import make_settings

JOIN_TIMEOUT_S = 60.0


@contextmanager
def running_node(folder: Path, overrides: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yields the address; stops the node cleanly at the end."""
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
            node = Node(loop, settings)
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
        yield f"127.0.0.1:{node.listeners[0].port}"
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(node.request_stop)
        thread.join(JOIN_TIMEOUT_S)
        assert not thread.is_alive(), "the node has stopped"
