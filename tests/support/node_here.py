"""A whole node in this process, with raw clients: the test runs and times each turn of its loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import select
import socket
import struct
from asyncio import events
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import thread_time_ns
from typing import Any, Final

from odradek.broker.node.node import Node
from odradek.broker.node.process import GC_THRESHOLDS
from odradek.broker.settings.load import make_settings
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.headers import encode_request_header, response_header_version
from odradek.protocol.schema import schema_of

TURNS_MAX: Final = 200_000
"""More turns of the loop than any test needs."""
IDLE_S: Final = 0.02


class Caller:
    """A client on one connection of a node in the same process; never blocks."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.received = bytearray()
        self.unsent = bytearray()
        self.is_closed = False
        self.takes = True
        """Whether it receives responses."""
        self.asked: list[tuple[int, int, int]] = []
        """(correlation id, API key, version) without a response yet."""

    def send(self, request: Any, version: int) -> None:
        """Send a request."""
        key = schema_of(type(request)).api_key
        assert key is not None
        number = len(self.asked) + 1
        self.asked.append((number, key, version))
        self.send_bytes(framed(request, version, number))

    def send_bytes(self, content: bytes) -> None:
        """Send bytes; what the socket does not accept is sent in `step`."""
        self.unsent += content
        self.step()

    def step(self) -> None:
        """Send and receive what is possible without blocking."""
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                try:
                    del self.unsent[: self.socket.send(self.unsent)]
                except ConnectionError:
                    self.unsent.clear()
        with contextlib.suppress(BlockingIOError):
            while self.takes and not self.is_closed:
                try:
                    content = self.socket.recv(1 << 20)
                except ConnectionError:
                    content = b""
                self.is_closed = not content
                self.received += content

    def frames(self) -> list[bytes]:
        """The complete responses that were received, which are removed from the buffer."""
        frames = []
        while len(self.received) >= 4:
            (size,) = struct.unpack_from(">i", self.received)
            if len(self.received) < 4 + size:
                break
            frames.append(bytes(self.received[4 : 4 + size]))
            del self.received[: 4 + size]
        return frames

    def close(self) -> None:
        """Close the connection."""
        self.is_closed = True
        self.unsent.clear()
        self.socket.close()


def framed(request: Any, version: int, correlation_id: int) -> bytes:
    """The bytes of a request."""
    key = schema_of(type(request)).api_key
    assert key is not None
    head = encode_request_header(key, version, correlation_id, "caller")
    body = encoder(type(request), version)(request)
    return struct.pack(">i", len(head) + len(body)) + head + body


def decoded(frame: bytes, api_key: int, version: int) -> Any:
    """Decode a response without its header; it must end with the frame."""
    position = 4 + response_header_version(api_key, version)
    response, end = decoder(messages_of(ApiKey(api_key))[1], version)(memoryview(frame), position)
    assert end == len(frame)
    return response


class NodeHere:
    """A started node on a loop of its own, which runs only inside `until` and `call`.

    longest_ns  CPU time of the longest callback since it was set to 0
    longest     that callback
    spent_ns    CPU time of all callbacks
    callbacks   how many there were
    failures    what reached the loop's exception handler
    """

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.loop = asyncio.SelectorEventLoop()
        self.longest_ns = 0
        self.longest = ""
        self.spent_ns = 0
        self.callbacks = 0
        self.failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda loop, context: self.failures.append(context))
        values = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder / "data"),
            "broker.id": "0",
            "offsets.topic.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        self.node = Node(self.loop, make_settings(values))
        self._callers: dict[int, Caller] = {}
        self._readable = select.epoll()

    def start(self) -> None:
        """Start the node."""
        self.node.start()
        self.server = self.node.server

    def caller(self, listener: int = 0) -> Caller:
        """A new client.

        listener  the position of the listener that it connects to
        """
        caller = Caller(self.node.listeners[listener].port)
        self._callers[caller.socket.fileno()] = caller
        self._readable.register(caller.socket, select.EPOLLIN)
        return caller

    def turn(self) -> None:
        """One iteration of the loop."""
        self.loop.call_later(IDLE_S, lambda: None)
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        # Of hundreds of callers, few have received something.
        for descriptor, _ in self._readable.poll(0):
            self._callers[descriptor].step()
        for caller in self._callers.values():
            if caller.unsent:
                caller.step()

    def until(self, condition: Callable[[], Any], what: str, *, turns_max: int = TURNS_MAX) -> None:
        """Run turns of the loop until the condition is true."""
        for _ in range(turns_max):
            if condition():
                return
            self.turn()
        raise AssertionError(what)

    def call(self, caller: Caller, request: Any, version: int) -> Any:
        """Send a request; its response."""
        caller.send(request, version)
        _, key, _ = caller.asked[-1]
        frames: list[bytes] = []

        def has_come() -> bool:
            frames.extend(caller.frames())
            return bool(frames) or caller.is_closed

        self.until(has_come, f"{type(request).__name__} has no response")
        assert frames, f"{type(request).__name__} closed its connection"
        caller.asked.pop()
        return decoded(frames[-1], key, version)

    def stop(self) -> None:
        """Stop the node."""
        for caller in self._callers.values():
            caller.close()
        self._readable.close()
        self.loop.run_until_complete(self.node.stop())
        self.loop.close()


@contextmanager
def node_here(folder: Path, **settings: str) -> Iterator[NodeHere]:
    """A node that serves; settings with `_` for `.`."""
    here = NodeHere(folder, {key.replace("_", "."): value for key, value in settings.items()})
    thresholds = gc.get_threshold()
    original = events.Handle._run

    def timed(self: events.Handle) -> None:
        before_ns = thread_time_ns()
        original(self)
        taken_ns = thread_time_ns() - before_ns
        here.spent_ns += taken_ns
        here.callbacks += 1
        if taken_ns > here.longest_ns:
            here.longest_ns, here.longest = taken_ns, repr(self)

    events.Handle._run = timed  # type: ignore[method-assign]
    try:
        here.start()
        gc.collect()  # What was there before the tests is frozen: tests/conftest.py.
        gc.set_threshold(*GC_THRESHOLDS)
        yield here
        here.stop()
    finally:
        gc.set_threshold(*thresholds)
        events.Handle._run = original  # type: ignore[method-assign]
