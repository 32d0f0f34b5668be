"""Frames of ZooKeeper's protocol, made and read by kazoo's codec; and a connection without socket.

kazoo's codec is not ours, so a test that uses it does not share the belief of the code.
"""

from __future__ import annotations

import struct
from typing import Any

from kazoo.protocol import serialization
from kazoo.security import OPEN_ACL_UNSAFE

from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.server.client_connection import ClientConnection, ClientService
from odradek.controller.coordination.server.client_sessions import ClientSessions
from odradek.controller.coordination.server.passwords import SessionPasswords
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel
from tests.support.threads import HeldThreads

Open = tuple[int, int, bytes]
"""(time-out, session id, password)"""
Reply = tuple[int, int, int, bytes]
"""(xid, zxid, error, body)"""


def framed(content: bytes) -> bytes:
    """With its length."""
    return struct.pack(">i", len(content)) + content


def connect_frame(
    timeout_ms: int = 6_000, session_id: int = 0, password: bytes = b"\0" * 16, zxid: int = 0
) -> bytes:
    """The first frame of a connection."""
    request = serialization.Connect(0, zxid, timeout_ms, session_id, password, None)
    return framed(bytes(request.serialize()))


def request_frame(xid: int, request: Any) -> bytes:
    """A request of kazoo's serialization."""
    head = struct.pack(">ii", xid, request.type)
    return framed(head + bytes(request.serialize()))


def raw_frame(xid: int, kind: int, body: bytes = b"") -> bytes:
    """A request that kazoo has no class for."""
    return framed(struct.pack(">ii", xid, kind) + body)


def text(content: str) -> bytes:
    """A string."""
    return struct.pack(">i", len(content.encode())) + content.encode()


def texts(*contents: str) -> bytes:
    """A vector of strings."""
    return struct.pack(">i", len(contents)) + b"".join(map(text, contents))


def create(path: str, data: bytes = b"", flags: int = 0) -> Any:
    """Create a node that is open to everybody."""
    return serialization.Create(path, data, OPEN_ACL_UNSAFE, flags)


class Sent:
    """A `ClientTransport` that keeps what is sent."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.is_closed = False
        self.is_ending = False
        self.stuck_bytes = 0

    def send(self, content: bytes) -> None:
        """Keep it."""
        self.content += content

    def unsent_bytes(self) -> int:
        """As the test says."""
        return self.stuck_bytes

    def close(self) -> None:
        """Note it."""
        self.is_closed = True

    def close_when_sent(self) -> None:
        """Note it."""
        self.is_ending = True

    def read_again(self) -> None:
        """The test calls `Scene.settle`."""

    def take(self) -> list[bytes]:
        """The complete frames, which are removed."""
        frames = []
        while len(self.content) >= 4:
            (size,) = struct.unpack_from(">i", self.content)
            frames.append(bytes(self.content[4 : 4 + size]))
            del self.content[: 4 + size]
        return frames


class ScriptedClient:
    """A connection of a `Scene`."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.sent = Sent()
        self.connection = ClientConnection(scene.service, self.sent)

    def give(self, content: bytes) -> None:
        """Bytes arrive and are handled; nothing is synced."""
        self.connection.receive(content)
        self.step()

    def step(self) -> None:
        """Handle what has arrived."""
        while self.connection.step(self.scene.clock.monotonic_ms()):
            pass

    def open(self, content: bytes) -> Open:
        """Send a connect frame; what the server grants."""
        self.give(content)
        self.scene.settle()
        (frame,) = self.sent.take()
        _, timeout_ms, session_id = struct.unpack_from(">iiq", frame)
        (size,) = struct.unpack_from(">i", frame, 16)
        return timeout_ms, session_id, frame[20 : 20 + size]

    def replies(self) -> list[Reply]:
        """What was sent since the last call."""
        frames = []
        for frame in self.sent.take():
            xid, zxid, error = struct.unpack_from(">iqi", frame)
            frames.append((xid, zxid, error, frame[16:]))
        return frames

    def call(self, request: Any, xid: int = 1) -> Reply:
        """Send a request; its response, when everything is synced."""
        self.give(request_frame(xid, request))
        self.scene.settle()
        return self.replies()[-1]


class Scene:
    """A tree in memory that serves; a test runs its threads and its clock."""

    def __init__(self, files: MemoryFileSystem | None = None) -> None:
        self.clock = VirtualClock()
        self.files = MemoryFileSystem(folders=["/data"]) if files is None else files
        self.threads = HeldThreads()
        self.problems: list[str] = []
        self.embedded = EmbeddedTree(self.files, "/data", self.clock, serves_clients=True)
        self.embedded.serve(
            self.threads, on_failure=self.problems.append, on_warning=self.problems.append
        )
        self.wheel = TimingWheel(self.clock.monotonic_ms())
        self.sessions = ClientSessions(
            self.embedded,
            SessionPasswords(b"secret"),
            monotonic_ms=self.clock.monotonic_ms,
            add_timer=self.wheel.add,
        )
        self.service = ClientService(self.embedded, self.sessions, {})

    def client(self) -> ScriptedClient:
        """A connection that has sent nothing."""
        return ScriptedClient(self)

    def opened(self, timeout_ms: int = 6_000) -> ScriptedClient:
        """A connection with a new session."""
        client = self.client()
        client.open(connect_frame(timeout_ms))
        return client

    def settle(self) -> None:
        """Everything is synced and reported."""
        self.threads.settle()

    def pass_ms(self, milliseconds: int, *, step_ms: int = 10) -> None:
        """Time passes while the loop runs."""
        for _ in range(milliseconds // step_ms):
            self.clock.advance(step_ms)
            self.turn()

    def turn(self) -> None:
        """Timers that are due fire."""
        for callback in self.wheel.advance(self.clock.monotonic_ms()):
            callback()
        self.settle()
