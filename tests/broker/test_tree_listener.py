"""A broker that serves its embedded tree: the setting, the sessions of clients over kill -9."""

from __future__ import annotations

import json
from pathlib import Path
from queue import SimpleQueue

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, WatchedEvent

from odradek.broker.node.tree_listener import tree_listener_address
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.quorum_config import TREE_LISTENER
from odradek.broker.settings.types import InvalidValueError
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port

WAIT_S = 60.0


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", None),
        ("2181", ("127.0.0.1", 2181)),
        ("localhost:0", ("localhost", 0)),
        ("0.0.0.0:2181", ("0.0.0.0", 2181)),
        ("[::1]:2181", ("::1", 2181)),
    ],
)
def test_listener_is_on_loopback_unless_the_setting_names_a_host(
    text: str, address: tuple[str, int] | None
) -> None:
    assert tree_listener_address(make_settings({TREE_LISTENER: text})) == address


@pytest.mark.parametrize("text", ["localhost", "localhost:", "a:b", "1:-1", "70000"])
def test_listener_without_a_port_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match=TREE_LISTENER):
        tree_listener_address(make_settings({TREE_LISTENER: text}))


def test_listener_beside_zookeeper_connect_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=TREE_LISTENER):
        tree_listener_address(
            make_settings({TREE_LISTENER: "2181", "zookeeper.connect": "127.0.0.1:2182"})
        )


def test_tree_is_not_served_without_the_setting(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        broker.stop()
        log = (tmp_path / "broker.log").read_text()
        assert "embedded tree is served" not in log


def test_sessions_of_clients_outlive_a_killed_broker_and_its_own_session_ends(
    tmp_path: Path,
) -> None:
    address = f"127.0.0.1:{free_port()}"
    with odradek_broker(tmp_path, overrides={TREE_LISTENER: address}) as broker:
        client = KazooClient(hosts=address, timeout=30.0)
        client.start(timeout=WAIT_S)
        states: SimpleQueue[str] = SimpleQueue()
        client.add_listener(states.put)
        client.create("/mine", b"kept", ephemeral=True)
        session = client.client_id
        owner = json.loads(client.get("/brokers/ids/0")[0])
        epoch = client.exists("/brokers/ids/0").czxid
        broker.kill()
        assert states.get(timeout=WAIT_S) == KazooState.SUSPENDED
        broker.start()
        assert states.get(timeout=WAIT_S) == KazooState.CONNECTED
        assert client.client_id == session
        data, stat = client.get("/mine")
        assert (data, stat.ephemeralOwner) == (b"kept", session[0])
        again, registered = client.get("/brokers/ids/0")
        assert json.loads(again)["endpoints"] == owner["endpoints"]
        assert registered.czxid > epoch
        client.stop()
        client.close()


def test_session_whose_client_is_gone_expires_after_the_broker_was_killed(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with odradek_broker(tmp_path, overrides={TREE_LISTENER: address}) as broker:
        lost, other = (KazooClient(hosts=address, timeout=time_s) for time_s in (4.0, 30.0))
        lost.start(timeout=WAIT_S)
        other.start(timeout=WAIT_S)
        lost.create("/lost", ephemeral=True)
        broker.kill()
        # Ends the threads, and cannot end the session: nothing listens.
        lost.stop()
        lost.close()
        broker.start()
        wait_until("the other client has reconnected", lambda: other.connected)
        gone: SimpleQueue[WatchedEvent] = SimpleQueue()
        if other.exists("/lost", watch=gone.put) is not None:
            assert gone.get(timeout=WAIT_S).type == "DELETED"
        assert other.exists("/lost") is None
        other.stop()
        other.close()


def test_acknowledged_writes_are_kept_after_repeated_kills(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    answered: list[str] = []
    with odradek_broker(tmp_path, overrides={TREE_LISTENER: address}) as broker:
        client = KazooClient(hosts=address, timeout=30.0)
        client.start(timeout=WAIT_S)
        client.create("/written")
        session = client.client_id
        for round_number in range(3):
            pending = [
                client.create_async(f"/written/{round_number}-{number}", ephemeral=number % 2 == 1)
                for number in range(200)
            ]
            pending[50].get(timeout=WAIT_S)
            broker.kill()
            for creation in pending:
                creation.wait(timeout=WAIT_S)
            answered += [creation.value for creation in pending if creation.successful()]
            broker.start()
            wait_until("the client has reconnected", lambda: client.connected)
        names = {f"/written/{name}" for name in client.get_children("/written")}
        assert client.client_id == session
        assert set(answered) <= names
        assert len(answered) >= 150
        client.stop()
        client.close()
