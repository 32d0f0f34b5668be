"""What random scripts do not do, on the served tree and on a real ZooKeeper: sessions that are
resumed, watches that are set again, requests of which kazoo knows nothing, damaged frames."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.protocol import serialization

from tests.support.tree_server import tree_server
from tests.support.zookeeper import zookeeper
from tests.support.zookeeper_frames import (
    connect_frame,
    create,
    framed,
    raw_frame,
    request_frame,
    text,
    texts,
)

WAIT_S: Final = 60.0
PING, CLOSE, SET_WATCHES, AUTH = 11, -11, 101, 100
CLOSED: Final = ("closed",)
Seen = list[Any]


class Raw:
    """A connection that sends and receives frames as they are."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self._reader = self._socket.makefile("rb")

    def open(self, frame: bytes) -> tuple[int, int, bytes]:
        """Send a connect frame: (time-out, session id, password)."""
        self._socket.sendall(frame)
        granted = self._frame()
        assert granted is not None
        _, timeout_ms, session_id, size = struct.unpack_from(">iiqi", granted)
        return timeout_ms, session_id, granted[20 : 20 + size]

    def _frame(self) -> bytes | None:
        try:
            head = self._reader.read(4)
        except ConnectionResetError:
            return None
        return self._reader.read(int.from_bytes(head, "big")) if head else None

    def send(self, content: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(content)

    def receive(self) -> tuple[Any, ...]:
        """(xid, error, body) of the next frame, or `CLOSED`."""
        frame = self._frame()
        if frame is None:
            return CLOSED
        xid, _, error = struct.unpack_from(">iqi", frame)
        return xid, error, frame[16:]

    def until(self, xid: int) -> Seen:
        """All frames up to the response of a request, or to the end of the connection."""
        seen: Seen = []
        while not seen or seen[-1][0] != xid:
            seen.append(self.receive())
            if seen[-1] == CLOSED:
                break
        return seen

    def call(self, request: Any) -> Seen:
        """Send a request; what is received up to its response."""
        self.send(request_frame(77, request))
        return self.until(77)

    def close(self) -> None:
        """Close the connection, not the session."""
        self._reader.close()
        self._socket.close()


def statuses(seen: Seen) -> Seen:
    """Without bodies, but for those of events."""
    return [
        response if len(response) < 3 or response[0] == -1 else response[:2] for response in seen
    ]


def resumed_watches(address: str) -> Seen:
    """A session moves to another connection and sets its watches again."""
    seen: Seen = []
    first, writer = Raw(address), Raw(address)
    granted = first.open(connect_frame(30_000))
    writer.open(connect_frame(30_000))
    for path in ("/kept", "/changed", "/removed", "/parent"):
        first.call(create(path))
    first.call(create("/mine", flags=1))
    first.send(request_frame(5, serialization.GetData("/kept", True)))
    first.until(5)
    head = first.call(serialization.Exists("/kept", None))
    assert head[-1][1] == 0
    stat = serialization.Exists.deserialize(
        first.call(serialization.Exists("/mine", None))[-1][2], 0
    )
    for request in (
        serialization.SetData("/changed", b"2", -1),
        serialization.Delete("/removed", -1),
        create("/parent/child"),
        create("/created"),
    ):
        writer.call(request)
    second = Raw(address)
    again = second.open(connect_frame(30_000, *granted[1:]))
    seen.append(again == granted)
    seen.append(first.until(9)[-1])
    body = struct.pack(">q", stat.czxid) + texts("/kept", "/changed", "/removed", "/mine")
    body += texts("/created", "/absent") + texts("/parent", "/kept", "/removed")
    second.send(raw_frame(-8, SET_WATCHES, body))
    seen.append(statuses(second.until(-8)))
    for request in (
        create("/absent"),
        create("/kept/child"),
        serialization.SetData("/kept", b"2", -1),
        create("/parent/other"),
    ):
        writer.call(request)
    seen.append(statuses(second.call(serialization.Exists("/", None))))
    second.send(raw_frame(3, CLOSE))
    seen.append(statuses(second.until(3)))
    seen.append(second.receive())
    seen.append(statuses(writer.call(serialization.Exists("/mine", None))))
    third = Raw(address)
    seen.append(third.open(connect_frame(30_000, *granted[1:])))
    seen.append(third.receive())
    fourth = Raw(address)
    seen.append(fourth.open(connect_frame(30_000, granted[1], b"x" * 16)))
    for connection in (first, second, third, fourth, writer):
        connection.close()
    return seen


def rare_requests(address: str) -> Seen:
    """Requests and orders that kazoo does not send."""
    seen: Seen = []
    raw = Raw(address)
    raw.open(connect_frame(30_000))
    acl = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    for path, flags in (("/r", 0), ("/r/b", 0), ("/r/b/e", 1), ("/r/f", 1), ("/rest", 1)):
        raw.call(create(path, flags=flags))
    for xid, kind, body in (
        (1, 103, text("/r/")),
        (2, 104, text("/r")),
        (3, 104, text("/none")),
        (4, 9, text("/r")),
        (5, 6, text("/none")),
        (8, 1, text("/noacl") + text("") + struct.pack(">ii", 0, 0)),
        (9, 1, text("no-slash") + text("") + acl + struct.pack(">i", 0)),
        (10, 1, text("/r/../x") + text("") + acl + struct.pack(">i", 0)),
        (18, 1, text("/r/..") + text("") + acl + struct.pack(">i", 0)),
        (19, 1, text("/r/") + text("") + acl + struct.pack(">i", 0)),
        (20, 1, text("/r/") + text("") + acl + struct.pack(">i", 2)),
        (21, 1, text("/none/") + text("") + acl + struct.pack(">i", 2)),
        (22, 1, text("/") + text("") + acl + struct.pack(">i", 0)),
        (23, 1, text("/r/\x00") + text("") + acl + struct.pack(">i", 0)),
        (24, 1, text("/none/\x00") + text("") + acl + struct.pack(">i", 0)),
        (25, 1, text("/none/\x01") + text("") + acl + struct.pack(">i", 0)),
        (26, 1, text("/r/\U0001f600") + text("") + acl + struct.pack(">i", 0)),
        (11, 1, text("/r/b/e/below") + text("") + acl + struct.pack(">i", 0)),
        (12, 2, text("/") + struct.pack(">i", -1)),
        (13, 8, text("/r") + b"\0"),
        (14, 1, text("/null") + struct.pack(">i", -1) + acl + struct.pack(">i", 0)),
        (16, 3, text("no-slash") + b"\0"),
        (7, 21, text("/ttl") + text("") + acl + struct.pack(">iq", 5, 1_000)),
        (17, 14, struct.pack(">i?i", -1, True, -1)),
    ):
        raw.send(raw_frame(xid, kind, body))
        responses = raw.until(xid)
        seen.append(responses if xid in (1, 2, 4, 17) else statuses(responses))
        if responses[-1] == CLOSED:
            raw.close()
            raw = Raw(address)
            raw.open(connect_frame(30_000))
    raw.send(raw_frame(6, 999))
    seen.append(statuses(raw.until(6)))
    # ZooKeeper closes such a connection.
    raw.close()
    raw = Raw(address)
    raw.open(connect_frame(30_000))
    raw.send(raw_frame(-2, PING))
    seen.append(statuses(raw.until(-2)))
    raw.send(request_frame(-4, serialization.Auth(0, "digest", "me:secret")))
    seen.append(statuses(raw.until(-4)))
    raw.close()
    return seen


def damaged_frames(address: str) -> Seen:
    """What ends a connection."""
    seen: Seen = []
    for damaged in (
        framed(b""),
        framed(b"\0\0"),
        struct.pack(">i", -5),
        struct.pack(">i", 1 << 30),
        raw_frame(1, 14, struct.pack(">i?i", 99, False, -1)),
        request_frame(-4, serialization.Auth(0, "unknown-scheme", "x")),
    ):
        raw = Raw(address)
        raw.open(connect_frame(30_000))
        raw.send(damaged)
        seen.append(statuses(raw.until(99))[-1])
        raw.close()
    return seen


def wait_until_it_serves(address: str) -> None:
    """ZooKeeper takes connections shortly before it takes sessions; kazoo tries again."""
    client = KazooClient(hosts=address)
    client.start(timeout=WAIT_S)
    client.stop()
    client.close()


@pytest.mark.judge
def test_served_tree_and_zookeeper_return_equal_responses_to_session_and_rare_requests(
    tmp_path: Path,
) -> None:
    with tree_server() as server, zookeeper(tmp_path) as judge:
        wait_until_it_serves(judge)
        for talk in (resumed_watches, rare_requests, damaged_frames):
            ours, theirs = talk(server.address), talk(judge)
            for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
                assert mine == other, f"{talk.__name__}, item {place}"
