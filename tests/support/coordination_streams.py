"""Many random scripts at once on a ZooKeeper server, pipelined, through kazoo's codec.

The scripts of a batch share three sessions and advance together, a burst of calls at a time, so one
wait for a server serves all scripts.  What a session receives for a script is its stream: responses
and events, in order.  Session ids become names and zxids become ranks, so that the streams of two
servers can be compared.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

from kazoo.exceptions import KazooException
from kazoo.protocol import serialization
from kazoo.protocol.states import ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from odradek.controller.coordination.session import Check, Create, Delete, SetData, ZkOperation
from tests.support.coordination_script import build_script
from tests.support.zookeeper_frames import connect_frame, raw_frame, request_frame

BURST: Final = 10
SESSIONS: Final = "ABC"
WAIT_S: Final = 60.0
EVENT: Final = -1
CLOSE: Final = -11

Request = Any
Call = tuple[int, Request]
"""(script, request)"""
Streams = dict[int, list[Any]]
"""Script -> what the sessions received for it."""


class Session:
    """A connection with a session; requests are pipelined."""

    def __init__(self, address: str) -> None:
        self._address = address
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._socket.sendall(connect_frame(30_000))
        _, _, self.session_id = struct.unpack_from(">iiq", self._frame())

    def _frame(self) -> bytes:
        while True:
            if len(self._received) >= 4:
                (size,) = struct.unpack_from(">i", self._received)
                if len(self._received) >= 4 + size:
                    frame = bytes(self._received[4 : 4 + size])
                    del self._received[: 4 + size]
                    return frame
            content = self._socket.recv(1 << 20)
            assert content, f"the server at {self._address} has closed the connection"
            self._received += content

    def perform(self, calls: Sequence[Call]) -> list[tuple[int, int, bytes]]:
        """Send all; (xid or -1 for an event, error, body) of what is received up to the last
        response; the xid is the place in `calls`."""
        self._socket.sendall(
            b"".join(request_frame(number, request) for number, (_, request) in enumerate(calls))
        )
        return self._receive_until(len(calls) - 1)

    def flush(self) -> list[tuple[int, int, bytes]]:
        """The events that have fired."""
        self._socket.sendall(request_frame(0, serialization.Exists("/", None)))
        return self._receive_until(0)[:-1]

    def close(self) -> None:
        """End the session."""
        self._socket.sendall(raw_frame(0, CLOSE))
        self._receive_until(0)
        self._socket.close()

    def _receive_until(self, last_xid: int) -> list[tuple[int, int, bytes]]:
        frames = []
        while True:
            frame = self._frame()
            xid, _, error = struct.unpack_from(">iqi", frame)
            frames.append((xid, error, frame[16:]))
            if xid == last_xid:
                return frames


class Batch:
    """Scripts that run together on one server."""

    def __init__(self, address: str, seeds: Sequence[int], length: int) -> None:
        """length  calls in each script"""
        self._address = address
        self._seeds = seeds
        self._scripts = [_requests(seed, length) for seed in seeds]
        self._length = length
        self._owners: dict[int, str] = {0: "none"}
        self._generation = 0
        self._sessions: dict[str, Session] = {}
        self._streams: Streams = {seed: [] for seed in seeds}

    def run(self) -> Streams:
        """Run all scripts to their end."""
        # The same for every server, since the seed is that of the batch.
        rng = random.Random(self._seeds[0])
        for name in SESSIONS:
            self._open(name)
        self._sessions["A"].perform(
            [
                (seed, serialization.Create(_folder(seed), b"", OPEN_ACL_UNSAFE, 0))
                for seed in self._seeds
            ]
        )
        for begin in range(0, self._length, BURST):
            if rng.random() < 0.2:
                name = rng.choice(SESSIONS)
                self._sessions[name].close()
                self._open(name)
                self._flush_all(is_ordered=False)
            name = rng.choice("AAABBC")
            calls = [
                (seed, request)
                for seed, script in zip(self._seeds, self._scripts, strict=True)
                for request in script[begin : begin + BURST]
            ]
            self._note(name, calls, self._sessions[name].perform(calls), is_ordered=True)
            self._flush_all(is_ordered=True)
        for session in self._sessions.values():
            session.close()
        return {seed: _ranked(stream) for seed, stream in self._streams.items()}

    def _open(self, name: str) -> None:
        session = self._sessions[name] = Session(self._address)
        self._generation += 1
        self._owners[session.session_id] = f"{name}{self._generation}"

    def _flush_all(self, *, is_ordered: bool) -> None:
        for name, session in self._sessions.items():
            self._note(name, (), session.flush(), is_ordered=is_ordered)

    def _note(
        self,
        name: str,
        calls: Sequence[Call],
        received: Sequence[tuple[int, int, bytes]],
        *,
        is_ordered: bool,
    ) -> None:
        """Append to the streams.

        is_ordered  False: the end of a session removes its nodes in any order
        """
        items = [self._item(name, calls, *response) for response in received]
        for seed, item in items if is_ordered else sorted(items):
            self._streams[seed].append(item)

    def _item(
        self, name: str, calls: Sequence[Call], xid: int, error: int, body: bytes
    ) -> tuple[int, Any]:
        if xid == EVENT:
            event, _ = serialization.Watch.deserialize(body, 0)
            seed = int(event.path.split("/")[1].removeprefix("script-"))
            return seed, (name, "event", event.type, event.state, event.path)
        seed, request = calls[xid]
        if error:
            assert not body
            return seed, (name, str(request), "error", error)
        return seed, (name, str(request), self._outcome(request, body))

    def _outcome(self, request: Request, body: bytes) -> Any:
        kind = type(request)
        if kind in (serialization.Delete, serialization.CheckVersion):
            assert not body
            return None
        if kind is serialization.Sync:
            return serialization.Sync.deserialize(body, 0)
        return self._comparable(kind.deserialize(body, 0))

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, ZnodeStat):
            return (
                ("zxid", value.czxid),
                ("zxid", value.mzxid),
                ("zxid", value.pzxid),
                value.version,
                value.cversion,
                value.aversion,
                self._owners[value.ephemeralOwner],
                value.dataLength,
                value.numChildren,
            )
        if isinstance(value, KazooException):
            return ("error", value.code)
        if isinstance(value, list) and all(isinstance(element, str) for element in value):
            return sorted(value)
        if isinstance(value, list | tuple):
            return [self._comparable(element) for element in value]
        return value


def _folder(seed: int) -> str:
    return f"/script-{seed}"


def _requests(seed: int, length: int) -> list[Request]:
    """The calls of a script; which session makes them is decided by the batch."""
    rng = random.Random(-seed)
    steps = [step[1:] for step in build_script(seed, length * 2) if step[1] != "close"]
    return [_request(step, _folder(seed), rng) for step in steps[:length]]


def _request(step: tuple[Any, ...], folder: str, rng: random.Random) -> Request:
    match step:
        case ("create", path, data, ephemeral, sequential):
            kind = rng.choice((serialization.Create, serialization.Create2))
            flags = (1 if ephemeral else 0) | (2 if sequential else 0)
            return kind(folder + path, data, OPEN_ACL_UNSAFE, flags)
        case ("delete", path, version):
            return serialization.Delete(folder + path, version)
        case ("set", path, data, version):
            return serialization.SetData(folder + path, data, version)
        case ("get", path, watch):
            if rng.random() < 0.1:
                return serialization.GetACL(folder + path)
            return serialization.GetData(folder + path, watch)
        case ("exists", path, watch):
            if rng.random() < 0.1:
                return serialization.Sync(folder + path)
            return serialization.Exists(folder + path, watch)
        case ("children", path, watch):
            kind = rng.choice((serialization.GetChildren, serialization.GetChildren2))
            return kind(folder + path, watch)
        case ("multi", operations):
            return serialization.Transaction(
                [_operation(operation, folder) for operation in operations]
            )
    raise AssertionError(step)


def _operation(operation: ZkOperation, folder: str) -> Request:
    match operation:
        case Create(path, data, ephemeral, sequential):
            flags = (1 if ephemeral else 0) | (2 if sequential else 0)
            return serialization.Create(folder + path, data, OPEN_ACL_UNSAFE, flags)
        case Delete(path, version):
            return serialization.Delete(folder + path, version)
        case SetData(path, data, version):
            return serialization.SetData(folder + path, data, version)
        case Check(path, version):
            return serialization.CheckVersion(folder + path, version)


def _ranked(stream: list[Any]) -> list[Any]:
    seen: dict[int, None] = {}
    _collect(stream, seen)
    ranks = {zxid: rank for rank, zxid in enumerate(sorted(seen))}
    ranked: list[Any] = _replaced(stream, ranks)
    return ranked


def _collect(value: Any, seen: dict[int, None]) -> None:
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "zxid":
        seen[value[1]] = None
    elif isinstance(value, list | tuple):
        for element in value:
            _collect(element, seen)


def _replaced(value: Any, ranks: dict[int, int]) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "zxid":
        return ranks[value[1]]
    if isinstance(value, list | tuple):
        return [_replaced(element, ranks) for element in value]
    return value
