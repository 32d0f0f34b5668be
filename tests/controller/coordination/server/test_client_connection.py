"""Connections without sockets: sessions, order, durability, bounds, damaged frames."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol import serialization
from kazoo.security import OPEN_ACL_UNSAFE

from odradek.controller.coordination import embedded, watches
from odradek.controller.coordination.server.client_connection import (
    OUTSTANDING_MAX,
    PATHS_OF_A_STEP,
    RESPONSE_BYTES_MAX,
)
from odradek.controller.coordination.server.jute import MalformedFrame
from odradek.controller.coordination.server.requests import MULTI_OPERATIONS_MAX
from odradek.controller.coordination.server.response_memory import ResponseMemory
from odradek.controller.coordination.session import Create, WatchEvent
from odradek.controller.coordination.tree import Tree
from tests.support.zookeeper_frames import (
    Scene,
    ScriptedClient,
    connect_frame,
    create,
    framed,
    raw_frame,
    request_frame,
    text,
    texts,
)

NO_NODE, NODE_EXISTS, INVALID_ACL, UNIMPLEMENTED = -101, -110, -114, -6
CREATED, DELETED, DATA_CHANGED, CHILDREN_CHANGED = 1, 2, 3, 4
EVENT = -1
CLOSE, PING, SET_WATCHES, SET_WATCHES_2 = -11, 11, 101, 105


def events(client: ScriptedClient) -> list[tuple[int, str]]:
    """(type, path) of the events that were sent; other frames are dropped."""
    events_read = []
    for xid, _, _, body in client.replies():
        if xid == EVENT:
            event, _ = serialization.Watch.deserialize(body, 0)
            events_read.append((event.type, event.path))
    return events_read


# Sessions.


@pytest.mark.parametrize(
    ("asked_ms", "granted_ms"), [(-5, 1_000), (1_000, 1_000), (18_000, 18_000), (900_000, 60_000)]
)
def test_timeout_is_granted_within_its_bounds(asked_ms: int, granted_ms: int) -> None:
    timeout_ms, session_id, password = Scene().client().open(connect_frame(asked_ms))
    assert timeout_ms == granted_ms
    assert session_id > 0
    assert len(password) == 16


def test_session_is_resumed_with_its_id_and_password_and_the_former_connection_closed() -> None:
    scene = Scene()
    first, second = scene.client(), scene.client()
    granted = first.open(connect_frame())
    first.call(create("/mine", flags=1))
    assert second.open(connect_frame(6_000, *granted[1:])) == granted
    assert first.sent.is_closed
    second.give(raw_frame(1, CLOSE))
    scene.settle()
    assert "/mine" not in scene.embedded.tree.nodes
    assert second.sent.is_ending


@pytest.mark.parametrize("password", [b"", b"\0" * 16, b"x" * 16])
def test_resuming_with_another_password_returns_session_zero(password: bytes) -> None:
    scene = Scene()
    first, second = scene.client(), scene.client()
    _, session_id, _ = first.open(connect_frame())
    assert second.open(connect_frame(6_000, session_id, password)) == (0, 0, b"\0" * 16)
    assert second.sent.is_ending
    assert not first.sent.is_closed


def test_resuming_an_unknown_session_returns_session_zero() -> None:
    assert Scene().client().open(connect_frame(6_000, 77, b"p" * 16)) == (0, 0, b"\0" * 16)


def test_client_that_has_seen_a_later_transaction_is_disconnected() -> None:
    client = Scene().client()
    with pytest.raises(MalformedFrame):
        client.give(connect_frame(zxid=1_000))


def test_session_without_frames_expires_after_its_timeout_and_its_ephemerals_go() -> None:
    scene = Scene()
    silent, other = scene.opened(6_000), scene.opened(60_000)
    silent.call(create("/mine", flags=1))
    other.call(serialization.Exists("/mine", True))
    scene.pass_ms(5_990)
    assert "/mine" in scene.embedded.tree.nodes
    scene.pass_ms(20)
    assert "/mine" not in scene.embedded.tree.nodes
    assert silent.sent.is_closed
    assert events(other) == [(DELETED, "/mine")]


def test_ping_keeps_a_session() -> None:
    scene = Scene()
    client = scene.opened(6_000)
    for _ in range(10):
        scene.pass_ms(4_000)
        client.give(raw_frame(-2, 11))
    assert not client.sent.is_closed
    assert len(scene.sessions) == 1


def test_closed_connection_leaves_the_session_until_its_time_is_up() -> None:
    scene = Scene()
    client = scene.opened(6_000)
    client.call(create("/mine", flags=1))
    client.connection.close()
    scene.pass_ms(5_900)
    assert "/mine" in scene.embedded.tree.nodes
    scene.pass_ms(200)
    assert "/mine" not in scene.embedded.tree.nodes


def test_loop_that_did_not_run_for_longer_than_the_timeout_expires_no_session_with_a_ping() -> None:
    scene = Scene()
    client = scene.opened(6_000)
    scene.clock.advance(20_000)
    scene.turn()
    client.give(raw_frame(-2, 11))
    scene.pass_ms(1_000)
    assert not client.sent.is_closed
    scene.pass_ms(6_000)
    assert client.sent.is_closed


def test_watches_end_with_the_connection() -> None:
    scene = Scene()
    client, writer = scene.client(), scene.opened()
    granted = client.open(connect_frame())
    client.call(serialization.GetChildren("/", True))
    client.connection.close()
    again = scene.client()
    again.open(connect_frame(6_000, *granted[1:]))
    writer.call(create("/a"))
    assert events(again) == []


# Order and durability.


def test_response_of_a_write_waits_for_the_sync() -> None:
    scene = Scene()
    client = scene.opened()
    client.give(request_frame(1, create("/a")))
    assert client.replies() == []
    scene.settle()
    assert [reply[:3] for reply in client.replies()] == [(1, 2, 0)]


def test_read_of_another_session_waits_for_the_write_that_it_shows() -> None:
    scene = Scene()
    writer, reader = scene.opened(), scene.opened()
    writer.give(request_frame(1, create("/a", b"new")))
    reader.give(request_frame(1, serialization.GetData("/a", False)))
    assert reader.replies() == []
    scene.settle()
    ((_, _, error, body),) = reader.replies()
    assert error == 0
    assert b"new" in body


def test_ping_gets_its_response_while_a_write_waits_for_the_disk() -> None:
    scene = Scene()
    client = scene.opened()
    client.give(request_frame(1, create("/a")) + raw_frame(-2, 11))
    assert [reply[:3] for reply in client.replies()] == [(-2, 0, 0)]


def test_event_is_sent_before_the_response_of_a_read_that_shows_the_change() -> None:
    scene = Scene()
    reader, writer = scene.opened(), scene.opened()
    reader.call(serialization.Exists("/a", True))
    writer.give(request_frame(1, create("/a")))
    reader.give(request_frame(2, serialization.Exists("/a", None)))
    scene.settle()
    assert [reply[0] for reply in reader.replies()] == [EVENT, 2]


def test_responses_are_sent_in_the_order_of_the_requests() -> None:
    scene = Scene()
    client = scene.opened()
    client.give(
        request_frame(1, serialization.GetData("/", None))
        + request_frame(2, create("/a"))
        + request_frame(3, serialization.GetData("/a", None))
        + request_frame(4, serialization.Delete("/none", -1))
    )
    scene.settle()
    assert [(reply[0], reply[2]) for reply in client.replies()] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, NO_NODE),
    ]


def test_write_on_a_failed_disk_returns_system_error() -> None:
    scene = Scene()
    client = scene.opened()
    client.give(request_frame(1, create("/a")))
    scene.files.fail_operation(1, OSError(5, "input/output error"))
    scene.settle()
    assert [reply[2] for reply in client.replies()] == [-1]


# Requests.


def test_set_watches_sends_the_events_since_the_last_seen_transaction_and_sets_the_others() -> None:
    scene = Scene()
    client, writer = scene.opened(), scene.opened()
    for path in ("/kept", "/changed", "/removed", "/parent"):
        writer.call(create(path))
    since = scene.embedded.tree.zxid
    writer.call(serialization.SetData("/changed", b"2", -1))
    writer.call(serialization.Delete("/removed", -1))
    writer.call(create("/parent/child"))
    writer.call(create("/created"))
    body = struct.pack(">q", since)
    body += texts("/kept", "/changed", "/removed") + texts("/created", "/absent")
    body += texts("/parent", "/kept")
    client.give(raw_frame(-8, SET_WATCHES, body))
    scene.settle()
    assert events(client) == [
        (DATA_CHANGED, "/changed"),
        (DELETED, "/removed"),
        (CREATED, "/created"),
        (CHILDREN_CHANGED, "/parent"),
    ]
    writer.call(create("/absent"))
    writer.call(create("/kept/child"))
    writer.call(serialization.SetData("/kept", b"2", -1))
    assert events(client) == [
        (CREATED, "/absent"),
        (CHILDREN_CHANGED, "/kept"),
        (DATA_CHANGED, "/kept"),
    ]


@pytest.mark.parametrize("count", [0, PATHS_OF_A_STEP, PATHS_OF_A_STEP + 1, 4_000])
def test_set_watches_of_many_paths_takes_many_steps(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene()
    client, writer = scene.opened(), scene.opened()
    since = scene.embedded.tree.zxid
    paths = [f"/{number}" for number in range(count)]
    sizes: list[int] = []
    set_watches = Tree.set_watches

    def note(tree: Tree, session_id: int, zxid: int, *vectors: Sequence[str]) -> list[WatchEvent]:
        sizes.append(sum(map(len, vectors)))
        return set_watches(tree, session_id, zxid, *vectors)

    monkeypatch.setattr(Tree, "set_watches", note)
    body = struct.pack(">q", since) + texts() + texts(*paths) + texts()
    client.connection.receive(raw_frame(-8, SET_WATCHES, body) + raw_frame(9, PING))
    steps = 0
    while client.connection.step(0):
        steps += 1
        if steps == 1 + count // PATHS_OF_A_STEP:
            # Some are watched, others are not yet: both get the event.
            assert (len(sizes) > 0) == (count > 0)
            for path in paths[:: PATHS_OF_A_STEP // 2]:
                writer.call(create(path))
    scene.settle()
    assert max(sizes, default=0) <= PATHS_OF_A_STEP
    assert steps >= 1 + 2 * (count // PATHS_OF_A_STEP)
    replies = client.replies()
    assert [(reply[0], reply[2]) for reply in replies if reply[0] != EVENT] == [(-8, 0), (9, 0)]
    events_read = [
        serialization.Watch.deserialize(reply[3], 0)[0] for reply in replies if reply[0] == EVENT
    ]
    created = [] if steps == 1 else paths[:: PATHS_OF_A_STEP // 2]
    assert sorted((event.type, event.path) for event in events_read) == sorted(
        (CREATED, path) for path in created
    )


@pytest.mark.parametrize(("persistent", "error"), [((), 0), (("/p",), UNIMPLEMENTED)])
def test_set_watches_2_is_served_without_persistent_watches(
    persistent: tuple[str, ...], error: int
) -> None:
    scene = Scene()
    client = scene.opened()
    body = struct.pack(">q", 0) + texts() * 3 + texts(*persistent) + texts()
    client.give(raw_frame(-8, SET_WATCHES_2, body))
    scene.settle()
    assert [reply[2] for reply in client.replies()] == [error]


@pytest.mark.parametrize("kind", [16, 17, 18, 22, 102, 106, 107, 999, -10])
def test_request_that_is_not_served_returns_unimplemented(kind: int) -> None:
    scene = Scene()
    client = scene.opened()
    client.give(raw_frame(5, kind, b"anything"))
    assert [(reply[0], reply[2]) for reply in client.replies()] == [(5, UNIMPLEMENTED)]


@pytest.mark.parametrize("flags", [4, 5, 6, 7])
def test_container_and_ttl_nodes_are_refused(flags: int) -> None:
    scene = Scene()
    assert scene.opened().call(create("/a", flags=flags))[2] == UNIMPLEMENTED
    assert "/a" not in scene.embedded.tree.nodes


def test_acl_that_would_protect_a_node_is_refused() -> None:
    scene = Scene()
    client = scene.opened()
    entry = struct.pack(">i", 1) + struct.pack(">i", 31) + text("digest") + text("me:secret")
    client.give(raw_frame(1, 1, text("/a") + text("") + entry + struct.pack(">i", 0)))
    client.give(raw_frame(2, 7, text("/") + entry + struct.pack(">i", -1)))
    assert [reply[2] for reply in client.replies()] == [INVALID_ACL, INVALID_ACL]
    assert "/a" not in scene.embedded.tree.nodes


@pytest.mark.parametrize(("scheme", "error"), [("digest", 0), ("world", 0), ("sasl", -115)])
def test_authentication_is_accepted_for_known_schemes(scheme: str, error: int) -> None:
    client = Scene().opened()
    client.give(request_frame(-4, serialization.Auth(0, scheme, "me:secret")))
    assert [(reply[0], reply[2]) for reply in client.replies()] == [(-4, error)]
    assert client.sent.is_ending == (error != 0)


def test_counts_of_children_and_ephemerals_are_returned() -> None:
    scene = Scene()
    client = scene.opened()
    for path, flags in (("/a", 0), ("/a/b", 0), ("/a/b/c", 1), ("/ab", 0)):
        client.call(create(path, flags=flags))
    client.give(raw_frame(1, 104, text("/a")) + raw_frame(2, 103, text("/a")))
    count, ephemerals = client.replies()
    assert count[3] == struct.pack(">i", 2)
    assert ephemerals[3] == texts("/a/b/c")


def test_multi_with_create_2_returns_the_stat_directly_after_the_creation() -> None:
    scene = Scene()
    client = scene.opened()

    def operation(kind: int, body: bytes) -> bytes:
        return struct.pack(">i?i", kind, False, -1) + body

    acl = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    body = operation(15, text("/a") + text("12") + acl + struct.pack(">i", 0))
    body += operation(5, text("/a") + text("345") + struct.pack(">i", 0))
    body += struct.pack(">i?i", -1, True, -1)
    client.give(raw_frame(1, 14, body))
    scene.settle()
    ((_, zxid, error, response),) = client.replies()
    assert error == 0
    assert response[:9] == struct.pack(">i?i", 15, False, 0)
    path, stat = serialization.Create2.deserialize(response, 9)
    assert (path, stat.czxid, stat.mzxid, stat.version, stat.dataLength) == ("/a", zxid, zxid, 0, 2)


# Bounds.


def test_requests_beyond_the_outstanding_ones_wait() -> None:
    scene = Scene()
    client = scene.opened()
    client.give(
        b"".join(
            request_frame(number, create(f"/n{number}")) for number in range(OUTSTANDING_MAX + 5)
        )
    )
    assert len(scene.embedded.tree.nodes) == 1 + OUTSTANDING_MAX
    scene.settle()
    client.step()
    scene.settle()
    assert len(client.replies()) == OUTSTANDING_MAX + 5


def test_client_that_takes_no_responses_is_not_read() -> None:
    scene = Scene()
    client = scene.opened()
    client.sent.stuck_bytes = RESPONSE_BYTES_MAX + 1
    client.give(request_frame(1, serialization.GetData("/", None)))
    assert client.replies() == []
    client.sent.stuck_bytes = 0
    client.step()
    assert len(client.replies()) == 1


def many_reads(path: str, count: int) -> bytes:
    return b"".join(
        request_frame(number, serialization.GetData(path, None)) for number in range(count)
    )


@pytest.mark.parametrize(("size_bytes", "count"), [(1_000, 900), (100_000, 900), (1_000_000, 200)])
def test_responses_that_wait_for_the_disk_are_bounded_in_bytes(size_bytes: int, count: int) -> None:
    scene = Scene()
    client, other = scene.opened(), scene.opened()
    client.call(serialization.Create("/large", b"x" * size_bytes, OPEN_ACL_UNSAFE, 0))
    other.give(request_frame(1, create("/pending")))
    client.give(many_reads("/large", count))
    assert scene.service.memory.used_bytes <= RESPONSE_BYTES_MAX + size_bytes + 200
    for _ in range(count):
        scene.settle()
        client.step()
    assert len(client.replies()) == count
    scene.settle()
    assert scene.service.memory.used_bytes == 0


def test_connection_with_most_waiting_bytes_is_closed_when_all_have_too_many() -> None:
    scene = Scene()
    scene.service.memory = ResponseMemory(2_500_000)
    honest, writer = scene.opened(), scene.opened()
    greedy = [scene.opened() for _ in range(4)]
    honest.call(serialization.Create("/large", b"x" * 1_000_000, OPEN_ACL_UNSAFE, 0))
    writer.give(request_frame(1, create("/pending")))
    honest.give(request_frame(7, serialization.GetData("/", None)))
    for client in greedy:
        client.give(many_reads("/large", 900))
        assert scene.service.memory.used_bytes <= 2_500_000
    assert all(client.sent.is_closed for client in greedy[:-1])
    scene.settle()
    assert [xid for xid, *_ in honest.replies()] == [7]
    assert [xid for xid, *_ in writer.replies()] == [1]


def multi_frame(count: int) -> bytes:
    header = struct.Struct(">i?i")
    check = header.pack(13, False, -1) + text("/") + struct.pack(">i", -1)
    return raw_frame(1, 14, check * count + header.pack(-1, True, -1))


def test_multi_has_a_bound_of_operations() -> None:
    scene = Scene()
    client = scene.opened()
    client.give(multi_frame(MULTI_OPERATIONS_MAX))
    client.give(multi_frame(MULTI_OPERATIONS_MAX + 1))
    client.give(multi_frame(150_000))
    scene.settle()
    assert [error for _, _, error, _ in client.replies()] == [0, -8, -8]
    assert client.call(create("/after"))[2] == 0


def test_watches_of_all_clients_are_bounded_and_those_of_the_process_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watches, "CLIENT_WATCHES_BYTES_MAX", 2_000)
    scene = Scene()
    own = scene.embedded.connect(lambda _: None)
    clients = [scene.opened() for _ in range(5)]
    for number, client in enumerate(clients):
        for path in range(4):
            client.call(serialization.Exists(f"/{number}-{path}", True))
    assert clients[-1].call(serialization.Exists("/another", True))[2] == -1
    for number in range(50):
        assert own.exists(f"/own-{number}", watch=True).result() is None
    for client in clients[:-1]:
        client.connection.close()
    scene.embedded.tree.check()
    assert clients[-1].call(serialization.Exists("/another", True))[2] == NO_NODE


def test_clients_cannot_add_to_a_full_tree_and_the_process_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "CLIENT_TREE_BYTES_MAX", 20_000)
    scene = Scene()
    own = scene.embedded.connect(lambda _: None)
    client = scene.opened()
    errors = [client.call(create(f"/{number}"))[2] for number in range(100)]
    assert errors.count(0) > 10
    assert set(errors) == {0, -125}
    scene.embedded.tree.check()
    large = serialization.SetData("/0", b"x" * 20_000, -1)
    assert client.call(large)[2] == -125
    added = own.create("/own", b"x" * 20_000)
    scene.settle()
    assert added.result() == "/own"
    assert client.call(serialization.SetData("/0", b"", -1))[2] == 0
    assert client.call(serialization.Delete("/0", -1))[2] == 0
    own.delete("/own")
    scene.settle()
    assert client.call(create("/0"))[2] == 0
    scene.embedded.tree.check()


def test_watches_beyond_their_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "WATCH_BYTES_MAX", 1_000)
    scene = Scene()
    client = scene.opened()
    errors = [client.call(serialization.Exists(f"/{number}", True))[2] for number in range(10)]
    assert errors.count(-1) > 2
    assert errors[0] == NO_NODE
    client.call(create("/0"))
    assert client.call(serialization.Exists("/another", True))[2] == NO_NODE


def test_path_that_the_files_cannot_contain_is_refused() -> None:
    client = Scene().opened()
    assert client.call(create("/" + "a" * 70_000))[2] == -8
    assert client.call(create("/" + "ä" * 40_000))[2] == -8
    assert client.call(create("/" + "a" * 50_000))[2] == 0


# Bytes.


@pytest.mark.parametrize(
    "frame",
    [
        framed(b""),
        framed(b"\0\0\0\1"),
        raw_frame(1, 1, text("/a")),
        raw_frame(1, 4, text("/a")),
        raw_frame(1, 4, b"\xff\xff\xff\xff\0"),
        raw_frame(1, 4, struct.pack(">i", 2) + b"\xff\xfe\0"),
        raw_frame(1, 4, text("/") + b"\0\0"),
        raw_frame(1, 14, struct.pack(">i?i", 9, False, -1)),
        raw_frame(1, 101, struct.pack(">q", 0) + struct.pack(">i", 1 << 30)),
        struct.pack(">i", -1),
        struct.pack(">i", (4 << 20) + 1),
    ],
)
def test_malformed_frame_is_refused_and_the_session_stays(frame: bytes) -> None:
    scene = Scene()
    client = scene.opened()
    with pytest.raises(MalformedFrame):
        client.give(frame)
    client.connection.close()
    assert len(scene.sessions) == 1


def test_frame_before_a_session_is_at_most_a_kilobyte() -> None:
    with pytest.raises(MalformedFrame):
        Scene().client().give(struct.pack(">i", 1_025))


@pytest.mark.parametrize(
    ("word", "expected"), [(b"ruok", b"imok"), (b"srvr", b"Mode: standalone"), (b"conf", b"")]
)
def test_four_letter_word_gets_its_response_and_closes_the_connection(
    word: bytes, expected: bytes
) -> None:
    client = Scene().client()
    client.give(word)
    assert expected in bytes(client.sent.content)
    assert client.sent.is_ending


REQUESTS: list[Any] = [
    create("/a/b", b"data", 3),
    serialization.Delete("/a", 1),
    serialization.SetData("/", b"data", -1),
    serialization.GetChildren2("/", True),
    serialization.SetACL("/", [], -1),
    serialization.Transaction([create("/t"), serialization.CheckVersion("/", 0)]),
]
FRAMES = [request_frame(1, request) for request in REQUESTS] + [
    raw_frame(-8, SET_WATCHES, struct.pack(">q", 0) + texts("/a") * 3),
    raw_frame(1, 103, text("/")),
]


@given(data=st.data())
def test_damaged_frames_raise_malformed_frame_and_nothing_else(data: st.DataObject) -> None:
    scene = Scene()
    client = scene.opened()
    for _ in range(data.draw(st.integers(1, 6))):
        frame = bytearray(data.draw(st.sampled_from(FRAMES))[4:])
        for _ in range(data.draw(st.integers(0, 4))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
        del frame[data.draw(st.integers(0, len(frame))) :]
        frame += data.draw(st.binary(max_size=8))
        try:
            client.give(framed(bytes(frame)))
        except MalformedFrame:
            client.connection.close()
            client = scene.opened()
        scene.settle()
        if client.sent.is_ending or client.sent.is_closed:
            client = scene.opened()
    scene.embedded.tree.check()
    assert not scene.problems


@given(content=st.binary(max_size=200))
def test_any_bytes_before_a_session_are_refused_or_wait(content: bytes) -> None:
    scene = Scene()
    client = scene.client()
    try:
        client.give(content)
    except MalformedFrame:
        client.connection.close()
    scene.settle()
    assert scene.embedded.tree.zxid <= 1


def test_frame_that_arrives_byte_by_byte_is_one_request() -> None:
    scene = Scene()
    client = scene.opened()
    for byte in request_frame(1, create("/slow")):
        client.give(bytes([byte]))
    scene.settle()
    assert [reply[2] for reply in client.replies()] == [0]


def test_sessions_of_the_process_itself_see_the_writes_of_clients() -> None:
    scene = Scene()
    seen: list[object] = []
    own = scene.embedded.connect(seen.append)
    own.children("/", watch=True)
    scene.settle()
    scene.opened().call(create("/a"))
    assert len(seen) == 1
    own.multi([Create("/b")])
    scene.settle()
    assert "/b" in scene.embedded.tree.nodes
