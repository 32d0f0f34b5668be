"""kazoo and zkCli.sh on the embedded tree: over sockets, with the server on a loop of its own."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    QuotaExceededError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.recipe.lock import Lock
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.security import make_digest_acl

from odradek.controller.coordination import embedded
from odradek.controller.coordination.server import client_listener
from tests.support.compacted import wait_until
from tests.support.tree_server import TreeServer, tree_server
from tests.support.zookeeper_frames import connect_frame, create, raw_frame, request_frame

WAIT_S = 60.0
ZK_CLI = Path("/usr/share/zookeeper/bin/zkCli.sh")


@contextmanager
def kazoo(address: str, *, chroot: str = "", timeout_s: float = 30.0) -> Iterator[KazooClient]:
    """A started client."""
    client = KazooClient(hosts=address + chroot, timeout=timeout_s)
    client.start(timeout=WAIT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.fixture(scope="module")
def server() -> Iterator[TreeServer]:
    """One server for all tests of this file that do not stop it."""
    with tree_server() as running:
        yield running


def test_nodes_are_created_read_changed_and_deleted(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        assert client.create("/nodes", b"1") == "/nodes"
        path, stat = client.create("/nodes/b", b"22", include_data=True)
        assert (path, stat.dataLength) == ("/nodes/b", 2)
        assert client.create("/nodes/n-", sequence=True) == "/nodes/n-0000000001"
        with pytest.raises(NodeExistsError):
            client.create("/nodes")
        assert client.set("/nodes", b"2", version=0).version == 1
        with pytest.raises(BadVersionError):
            client.set("/nodes", b"3", version=0)
        data, stat = client.get("/nodes")
        assert (data, stat.version, stat.numChildren, stat.cversion) == (b"2", 1, 2, 2)
        names, stat = client.get_children("/nodes", include_data=True)
        assert (sorted(names), stat.numChildren) == (["b", "n-0000000001"], 2)
        with pytest.raises(NotEmptyError):
            client.delete("/nodes")
        client.delete("/nodes", recursive=True)
        assert client.exists("/nodes") is None
        assert client.sync("/") == "/"


def test_chroot_is_a_prefix_that_the_client_does_not_see(server: TreeServer) -> None:
    with kazoo(server.address) as outside:
        outside.ensure_path("/kafka")
        with kazoo(server.address, chroot="/kafka") as inside:
            events: SimpleQueue[WatchedEvent] = SimpleQueue()
            assert inside.exists("/brokers", watch=events.put) is None
            outside.create("/kafka/brokers", b"x")
            assert events.get(timeout=WAIT_S).path == "/brokers"
            assert inside.get("/brokers")[0] == b"x"


def test_multi_is_all_or_nothing(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        transaction = client.transaction()
        transaction.create("/multi", b"1")
        transaction.check("/multi", 5)
        transaction.delete("/multi")
        results = transaction.commit()
        assert [type(result) for result in results] == [
            RolledBackError,
            BadVersionError,
            RuntimeInconsistency,
        ]
        assert client.exists("/multi") is None
        transaction = client.transaction()
        transaction.create("/multi", b"1")
        transaction.check("/multi", 0)
        transaction.set_data("/multi", b"22")
        transaction.create("/multi/e", ephemeral=True)
        path, checked, stat, child = transaction.commit()
        assert (path, checked, stat.version, child) == ("/multi", True, 1, "/multi/e")


def test_watches_of_recipes_follow_changes(server: TreeServer) -> None:
    with kazoo(server.address) as client, kazoo(server.address) as writer:
        writer.ensure_path("/watched")
        seen: SimpleQueue[list[str]] = SimpleQueue()
        values: SimpleQueue[bytes | None] = SimpleQueue()
        ChildrenWatch(client, "/watched", lambda names: seen.put(sorted(names)))
        DataWatch(client, "/watched/a", lambda data, stat: values.put(data))
        assert seen.get(timeout=WAIT_S) == []
        assert values.get(timeout=WAIT_S) is None
        for number, name in enumerate("abc"):
            writer.create(f"/watched/{name}", str(number).encode())
            assert seen.get(timeout=WAIT_S) == list("abc")[: number + 1]
        assert values.get(timeout=WAIT_S) == b"0"
        writer.set("/watched/a", b"new")
        assert values.get(timeout=WAIT_S) == b"new"
        writer.delete("/watched/a")
        assert values.get(timeout=WAIT_S) is None


def test_lock_passes_to_the_next_client_when_its_owner_closes(server: TreeServer) -> None:
    with kazoo(server.address) as first, kazoo(server.address) as second:
        Lock(first, "/lock").acquire(timeout=WAIT_S)
        waiting = Lock(second, "/lock")
        assert not waiting.acquire(blocking=False)
        first.stop()
        assert waiting.acquire(timeout=WAIT_S)


def test_ephemerals_go_when_the_session_expires_without_its_client(server: TreeServer) -> None:
    with kazoo(server.address) as other:
        opened = socket.create_connection(("127.0.0.1", server.port))
        opened.sendall(connect_frame(1_000))
        session_id = struct.unpack(">iiiq", opened.recv(4_096)[:20])[3]
        opened.sendall(request_frame(1, create("/mine", flags=1)))
        wait_until("the node is created", lambda: other.exists("/mine"))
        assert other.exists("/mine").ephemeralOwner == session_id
        opened.close()
        gone: SimpleQueue[WatchedEvent] = SimpleQueue()
        if other.exists("/mine", watch=gone.put) is not None:
            assert gone.get(timeout=WAIT_S).type == "DELETED"
        assert other.exists("/mine") is None


def test_client_whose_session_was_closed_elsewhere_gets_lost_and_then_a_new_session(
    server: TreeServer,
) -> None:
    with kazoo(server.address) as client:
        states: SimpleQueue[str] = SimpleQueue()
        client.add_listener(states.put)
        old_id, password = client.client_id
        other = socket.create_connection(("127.0.0.1", server.port))
        other.sendall(connect_frame(30_000, old_id, password) + raw_frame(1, -11))
        changes = []
        while KazooState.LOST not in changes:
            changes.append(states.get(timeout=WAIT_S))
        while changes[-1] != KazooState.CONNECTED:
            changes.append(states.get(timeout=WAIT_S))
        assert client.client_id[0] != old_id
        other.close()


def test_client_reconnects_to_its_session_when_its_connection_breaks(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        states: SimpleQueue[str] = SimpleQueue()
        client.add_listener(states.put)
        client.create("/reconnected", ephemeral=True)
        session = client.client_id
        server.call(server.close_connections)
        assert states.get(timeout=WAIT_S) == KazooState.SUSPENDED
        assert states.get(timeout=WAIT_S) == KazooState.CONNECTED
        assert client.client_id == session
        assert client.exists("/reconnected").ephemeralOwner == session[0]


def test_acl_that_is_not_enforced_is_refused(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        client.add_auth("digest", "me:secret")
        with pytest.raises(InvalidACLError):
            client.create("/secret", acl=[make_digest_acl("me", "secret", all=True)])
        (acl,), _ = client.get_acls("/")
        assert (acl.perms, acl.id.scheme, acl.id.id) == (31, "world", "anyone")


def test_large_data_and_many_pipelined_requests_pass(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        client.create("/large", bytes(3 << 20))
        assert len(client.get("/large")[0]) == 3 << 20
        results = [client.create_async(f"/large/{number}") for number in range(1_000)]
        assert results[-1].get(timeout=WAIT_S) == "/large/999"
        reads = [client.get_async("/large") for _ in range(8)]
        assert all(len(read.get(timeout=WAIT_S)[0]) == 3 << 20 for read in reads)
        client.delete("/large", recursive=True)


def test_four_letter_words_get_their_responses(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        assert client.command(b"ruok") == "imok"
        assert "Mode: standalone" in client.command(b"srvr")
        assert "Clients:" in client.command(b"stat")


def test_malformed_frame_closes_only_its_connection(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        bad = socket.create_connection(("127.0.0.1", server.port))
        bad.sendall(b"\xff" * 100)
        bad.settimeout(WAIT_S)
        assert bad.recv(1) == b""
        bad.close()
        assert client.exists("/") is not None


def test_connections_beyond_the_bound_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_listener, "CONNECTIONS_MAX", 2)
    with tree_server() as server, kazoo(server.address) as client:
        second = socket.create_connection(("127.0.0.1", server.port))
        wait_until("both are open", lambda: server.service.statistics.connections == 2)
        third = socket.create_connection(("127.0.0.1", server.port))
        third.settimeout(WAIT_S)
        assert third.recv(1) == b""
        second.close()
        third.close()
        wait_until("one is open", lambda: server.service.statistics.connections == 1)
        assert client.exists("/") is not None


def test_silent_sockets_refuse_no_client() -> None:
    with tree_server() as server:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(400)]
        with kazoo(server.address) as client, kazoo(server.address) as other:
            client.create("/a", b"1")
            assert other.get("/a")[0] == b"1"
            bound = client_listener.HOST_CONNECTIONS_MAX
            assert server.service.statistics.connections == bound
        for connection in silent:
            connection.close()


def test_host_with_many_sessions_leaves_places_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_listener, "CONNECTIONS_MAX", 8)
    monkeypatch.setattr(client_listener, "HOST_CONNECTIONS_MAX", 4)
    with tree_server() as server:
        held = []
        for _ in range(4):
            connection = socket.create_connection(("127.0.0.1", server.port))
            connection.sendall(connect_frame(30_000))
            connection.settimeout(WAIT_S)
            assert connection.recv(4)
            held.append(connection)
        refused = socket.create_connection(("127.0.0.1", server.port))
        refused.settimeout(WAIT_S)
        assert refused.recv(1) == b""
        other = socket.create_connection(
            ("127.0.0.1", server.port), source_address=("127.0.0.2", 0)
        )
        other.sendall(connect_frame(30_000))
        other.settimeout(WAIT_S)
        assert other.recv(4)
        for connection in (*held, refused, other):
            connection.close()


def test_large_multi_is_refused_and_the_session_goes_on(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        transaction = client.transaction()
        for number in range(5_000):
            transaction.create(f"/multi-{number}")
        with pytest.raises(BadArgumentsError):
            transaction.commit()
        assert client.exists("/multi-0") is None
        assert client.create("/after-multi") == "/after-multi"


def test_full_tree_is_reported_as_an_exceeded_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "CLIENT_TREE_BYTES_MAX", 100_000)
    with tree_server() as server, kazoo(server.address) as client:
        client.create("/full", b"x" * 90_000)
        with pytest.raises(QuotaExceededError):
            client.create("/full/more", b"x" * 90_000)
        client.delete("/full")
        assert client.create("/small", b"x" * 90_000) == "/small"


def test_connection_without_a_session_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_listener, "HANDSHAKE_MS", 50)
    with tree_server() as server:
        silent = socket.create_connection(("127.0.0.1", server.port))
        silent.settimeout(WAIT_S)
        assert silent.recv(1) == b""
        silent.close()


def test_session_survives_a_loop_that_stands_still_for_longer_than_its_timeout() -> None:
    with tree_server() as server, kazoo(server.address, timeout_s=2.0) as client:
        client.create("/mine", ephemeral=True)
        session = client.client_id
        server.call(lambda: threading.Event().wait(3.0))
        wait_until("the client has reconnected", lambda: client.connected)
        assert client.exists("/mine").ephemeralOwner == session[0]


def test_sessions_and_ephemerals_survive_a_stop_of_the_server(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with tree_server(folder) as server:
        port = server.port
        client = KazooClient(hosts=server.address, timeout=30.0)
        client.start(timeout=WAIT_S)
        client.create("/mine", ephemeral=True)
        session = client.client_id
    with tree_server(folder, port=port):
        wait_until("the client has reconnected", lambda: client.connected)
        assert client.client_id == session
        assert client.exists("/mine").ephemeralOwner == session[0]
        client.stop()
        client.close()


@pytest.mark.judge
def test_zk_cli_uses_the_tree(server: TreeServer) -> None:
    with kazoo(server.address) as client:
        client.ensure_path("/kafka/cli")
        commands = [
            "ls /",
            "create /one first",
            "create -s /one/n- x",
            "create -e /one/e mine",
            "ls -s /one",
            "get -s /one",
            "set -v 0 /one second",
            "get /one",
            "getAllChildrenNumber /one",
            "getAcl /one",
            "stat /one/e",
            "sync /one",
            "delete /one/none",
            "deleteall /one",
            "ls /",
            "quit",
        ]
        done = subprocess.run(
            [str(ZK_CLI), "-server", server.address + "/kafka/cli"],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        printed = done.stdout + done.stderr
        for expected in (
            "Created /one/n-0000000000",
            "[e, n-0000000000]",
            "dataVersion = 0",
            "second",
            "'world,'anyone",
            ": cdrwa",
            "Sync is OK",
            "Node does not exist: /one/none",
        ):
            assert expected in printed, printed
        assert client.get_children("/kafka/cli") == []
        with pytest.raises(NoNodeError):
            client.get("/kafka/cli/one")
