"""Sessions with a real ZooKeeper: results, order, lost connections, expiry."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from odradek.controller.coordination.errors import (
    BadArguments,
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    MultiFailed,
    NoNode,
    SessionExpired,
)
from odradek.controller.coordination.session import (
    DATA_BYTES_MAX,
    Check,
    Create,
    SessionState,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
)
from odradek.controller.coordination.zookeeper import parse_connect
from odradek.runtime.pending import Pending, settled
from tests.support.coordination_script import EmbeddedActor, build_script, run_script
from tests.support.ports import free_port
from tests.support.zookeeper import (
    ZooKeeperServer,
    connect_text,
    zookeeper_ensemble,
    zookeeper_server,
)
from tests.support.zookeeper_session import LoopHere, RemoteActor, SessionHere

pytestmark = pytest.mark.judge


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for the tests that leave it running."""
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server.address


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server that the test may kill."""
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def here() -> Iterator[LoopHere]:
    """The loop of the test."""
    loop = LoopHere()
    yield loop
    loop.close()


@pytest.fixture
def client(shared: str) -> Iterator[KazooClient]:
    """Another client of the shared server."""
    other = KazooClient(shared, timeout=30.0)
    other.start(timeout=60)
    yield other
    other.stop()
    other.close()


def steal(address: str, connection: SessionHere) -> None:
    """Take over a session and end it: to its owner it has expired."""
    inner = connection.session._connection._client
    assert inner is not None, "it was connected"
    thief = KazooClient(address, client_id=inner.client_id)
    thief.start(timeout=60)
    thief.stop()
    thief.close()


def error_of(pending: Pending[str]) -> Exception | None:
    """What it failed with."""
    try:
        pending.result()
    except CoordinationError as error:
        return error
    return None


@pytest.mark.parametrize("seed", range(6))
def test_session_and_tree_return_the_same_results_and_events(
    shared: str, here: LoopHere, seed: int
) -> None:
    script = build_script(500 + seed, 200)
    actor = RemoteActor(here, f"{shared}/scripts/{seed}")
    results = run_script(script, actor)
    actor.close()
    expected = run_script(script, EmbeddedActor())
    for step, (remote, embedded) in enumerate(zip(results, expected, strict=True)):
        assert remote == embedded, f"step {step}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", ("a:1", "")),
        ("a:1,b:2/", ("a:1,b:2", "")),
        ("a:1,b/x/y", ("a:1,b", "/x/y")),
        ("a:1//x//y/", ("a:1", "/x/y")),
        (" a:1 , [::1]:2 ,, b , /x ", ("a:1,[::1]:2,b", "/x")),
    ],
)
def test_zookeeper_connect_is_split_at_the_first_slash(
    text: str, expected: tuple[str, str]
) -> None:
    assert parse_connect(text) == expected


def test_missing_chroot_is_created_with_its_parents(
    shared: str, here: LoopHere, client: KazooClient
) -> None:
    connection = here.connect(f"{shared}/deep/er/top")
    assert connection.wait(connection.session.create("/a", b"1")) == "/a"
    assert client.get("/deep/er/top/a")[0] == b"1"
    assert connection.wait(connection.session.children("/")) == ["a"]
    connection.close()


def test_null_data_stay_null(shared: str, here: LoopHere) -> None:
    connection = here.connect(f"{shared}/null")
    results = connection.wait(
        connection.session.multi([Create("/a", None, ephemeral=True), Create("/b", b"")])
    )
    assert results == ["/a", "/b"]
    data, stat = connection.wait(connection.session.get("/a"))
    assert data is None
    assert stat.ephemeral_owner == connection.session.session_id != 0
    assert connection.wait(connection.session.get("/b"))[0] == b""
    connection.close()


def test_failed_multi_names_the_first_operation_that_failed(shared: str, here: LoopHere) -> None:
    connection = here.connect(f"{shared}/multi")
    connection.wait(connection.session.create("/a", b""))
    with pytest.raises(MultiFailed) as caught:
        connection.wait(
            connection.session.multi(
                [Check("/a", 0), SetData("/a", b"x", 0), Check("/a", 7), Create("/b", b"")]
            )
        )
    assert caught.value.index == 2
    assert isinstance(caught.value.error, BadVersion)
    assert [type(error).__name__ for error in caught.value.errors] == [
        "NoneType",
        "NoneType",
        "BadVersion",
        "RuntimeInconsistency",
    ]
    assert connection.wait(connection.session.get("/a"))[0] == b""
    connection.close()


def test_data_above_the_limit_are_refused_without_a_connection(here: LoopHere) -> None:
    connection = here.connect(f"127.0.0.1:{free_port()}")
    pending = connection.session.create("/a", bytes(DATA_BYTES_MAX + 1))
    with pytest.raises(BadArguments):
        pending.result()
    connection.close()


def test_event_precedes_the_read_that_returns_the_change(
    shared: str, here: LoopHere, client: KazooClient
) -> None:
    """Another client changes a node all the time; each read that shows a new version was preceded
    by the event of the watch that the read before it had set."""
    connection = here.connect(f"{shared}/order")
    connection.wait(connection.session.create("/a", b""))
    reads: list[Pending[None]] = []
    log: list[object] = []
    connection.events = log  # type: ignore[assignment]

    def note(result: tuple[bytes | None, Stat]) -> None:
        log.append(result[1].version)

    def change() -> None:
        for _ in range(200):
            client.set("/order/a", b"")

    changing = threading.Thread(target=change)
    changing.start()
    while changing.is_alive():
        reads.append(connection.session.get("/a", watch=True).then(note))
        here.until(lambda: sum(not read.is_done for read in reads[-20:]) < 10)
    changing.join()
    connection.wait(settled(reads))
    connection.close()
    seen = -1
    was_fired = False
    for entry in log:
        if isinstance(entry, WatchEvent):
            was_fired = True
        elif isinstance(entry, int):
            assert entry == seen or was_fired or seen == -1
            was_fired = was_fired and entry == seen
            seen = entry
    assert seen > 0


def test_calls_before_the_first_connection_wait_for_it(
    tmp_path_factory: pytest.TempPathFactory, here: LoopHere
) -> None:
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    connection = here.connect(f"{server.address}/late")
    pending = connection.session.create("/a", b"1")
    try:
        server.start()
        assert connection.wait(pending) == "/a"
        assert connection.states() == []
        connection.close()
    finally:
        server.kill()


def test_calls_fail_when_there_is_no_connection_in_time(here: LoopHere) -> None:
    address = f"127.0.0.1:{free_port()}"
    connection = here.connect(address, connection_timeout_ms=300)
    with pytest.raises(ConnectionLoss, match=address):
        connection.wait(connection.session.get("/"))
    with pytest.raises(ConnectionLoss):
        connection.session.get("/").result()
    connection.close()


def test_connection_that_hangs_is_suspended_and_goes_on(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    connection = here.connect(f"{server.address}/hang", session_timeout_ms=3_000)
    connection.wait(connection.session.create("/a", b"", ephemeral=True))
    session_id = connection.session.session_id
    server.pause()
    try:
        connection.wait_for(SessionState.SUSPENDED)
        late = connection.session.get("/a")
        assert not late.is_done
    finally:
        server.go_on()
    assert connection.wait(late)[1].ephemeral_owner == session_id
    assert connection.states() == [SessionState.SUSPENDED, SessionState.CONNECTED]
    connection.close()


def test_change_while_disconnected_fires_every_watch_once(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    connection = here.connect(f"{server.address}/away", session_timeout_ms=30_000)
    session = connection.session
    for path in ("/changed", "/gone", "/same", "/parent", "/parent/child", "/left"):
        connection.wait(session.create(path, b""))
    for path in ("/changed", "/gone", "/same"):
        connection.wait(session.get(path, watch=True))
    connection.wait(session.exists("/absent", watch=True))
    connection.wait(session.exists("/never", watch=True))
    connection.wait(session.children("/parent", watch=True))
    connection.wait(session.children("/left", watch=True))
    connection.wait(session.children("/gone", watch=True))

    def change() -> None:
        other = KazooClient(server.address + "/away", timeout=30.0)
        other.start(timeout=60)
        other.set("/changed", b"x")
        other.delete("/gone")
        other.create("/absent")
        other.delete("/parent/child")
        other.stop()
        other.close()

    # The loop does not run while the nodes change: kazoo's thread is the one that connects.
    server.kill()
    here.until(lambda: SessionState.SUSPENDED in connection.events)
    number = connection.session._connection._number
    server.start()
    deadline = threading.Event()
    while connection.session._connection._number == number:
        assert not deadline.wait(0.01)
    change()
    connection.wait_for(SessionState.CONNECTED)
    connection.wait(session.exists("/"))
    fired = sorted(
        (event.kind.name, event.path)
        for event in connection.events
        if isinstance(event, WatchEvent)
    )
    assert fired == [
        ("CHILDREN_CHANGED", "/parent"),
        ("CREATED", "/absent"),
        ("DATA_CHANGED", "/changed"),
        ("DELETED", "/gone"),
    ]
    connection.wait(session.set("/same", b"x"))
    connection.wait(session.create("/never", b""))
    connection.wait_for(WatchEvent(WatchKind.DATA_CHANGED, "/same"))
    connection.wait_for(WatchEvent(WatchKind.CREATED, "/never"))
    connection.close()


def test_write_whose_response_is_lost_fails_and_is_not_repeated(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    connection = here.connect(f"{server.address}/lost", session_timeout_ms=30_000, in_flight_max=1)
    connection.wait(connection.session.create("/a", b""))
    server.pause()
    sent = connection.session.set("/a", b"sent")
    read = connection.session.get("/a")
    waiting = connection.session.create("/b", b"")
    inner = connection.session._connection
    here.until(lambda: inner._in_flight == 1)
    # Killed with what it has not read: the write never takes effect.
    server.kill()
    connection.wait_for(SessionState.SUSPENDED)
    with pytest.raises(ConnectionLoss):
        connection.wait(sent)
    assert not read.is_done
    assert not waiting.is_done
    server.start()
    assert connection.wait(read)[0] == b""
    assert connection.wait(waiting) == "/b"
    assert connection.wait(connection.session.get("/a"))[1].version == 0
    connection.close()


def test_expired_session_fails_all_calls_until_it_is_opened_again(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    connection = here.connect(f"{server.address}/expired")
    connection.wait(connection.session.create("/a", b"", ephemeral=True))
    connection.wait(connection.session.get("/a", watch=True))
    old = connection.session.session_id
    steal(server.address, connection)
    connection.wait_for(SessionState.EXPIRED)
    with pytest.raises(SessionExpired):
        connection.session.create("/b", b"").result()
    connection.wait(connection.session.reopen())
    assert connection.session.session_id not in (0, old)
    with pytest.raises(NoNode):
        connection.wait(connection.session.get("/a"))
    assert connection.wait(connection.session.exists("/b")) is None
    assert SessionState.CONNECTED not in connection.events
    assert not [event for event in connection.events if isinstance(event, WatchEvent)]
    connection.close()


def test_no_write_of_an_expired_session_is_made_in_the_next_one(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    """Writes are submitted all the time while the session expires; each that was decided before
    the owner opened the next session fails, or took effect in the old one."""
    connection = here.connect(f"{server.address}/writes")
    pendings: dict[int, Pending[str]] = {}

    def write(number: int) -> None:
        pendings[number] = connection.session.create(f"/{number}", None, ephemeral=True)

    for number in range(100):
        write(number)
    connection.wait(settled(list(pendings.values())))
    stealing = threading.Thread(target=steal, args=(server.address, connection))
    stealing.start()
    number = 100
    while SessionState.EXPIRED not in connection.events:
        write(number)
        number += 1
        here.until(lambda: sum(not write.is_done for write in pendings.values()) < 50)
    stealing.join()
    connection.wait(settled(list(pendings.values())))
    connection.wait(connection.session.reopen())
    assert connection.wait(connection.session.children("/")) == []
    assert any(isinstance(error_of(pending), CoordinationError) for pending in pendings.values())
    connection.close()


def test_closed_session_removes_its_ephemeral_nodes_at_once(
    shared: str, here: LoopHere, client: KazooClient
) -> None:
    connection = here.connect(f"{shared}/closing", session_timeout_ms=30_000)
    connection.wait(connection.session.create("/a", b"", ephemeral=True))
    connection.close()
    assert client.exists("/closing/a") is None
    assert SessionState.EXPIRED not in connection.events


def test_close_ends_in_time_when_no_server_responds(here: LoopHere) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        connection = here.connect(f"127.0.0.1:{silent.getsockname()[1]}")
        pending = connection.session.get("/")
        connection.close()
        assert pending.is_done


def test_session_is_resumed_long_before_it_expires_when_a_request_to_do_so_has_no_response(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    """A server that is starting may take it and never respond."""
    connection = here.connect(f"{server.address}/silent", session_timeout_ms=20_000)
    connection.wait(connection.session.create("/mine", b"", ephemeral=True))
    server.kill()
    with socket.create_server(("127.0.0.1", server.port)) as silent:
        taken, _ = silent.accept()
    with taken:
        server.start()
        started_s = time.monotonic()
        assert connection.wait(connection.session.exists("/mine")) is not None
        assert time.monotonic() < started_s + 10
    assert SessionState.EXPIRED not in connection.events
    connection.close()


def test_session_survives_the_death_of_the_ensembles_leader(
    tmp_path_factory: pytest.TempPathFactory, here: LoopHere
) -> None:
    with zookeeper_ensemble(tmp_path_factory.mktemp("ensemble")) as servers:
        connection = here.connect(connect_text(servers, "/ensemble"), session_timeout_ms=30_000)
        connection.wait(connection.session.create("/mine", b"", ephemeral=True))
        written = 0
        for victim in servers:
            victim.kill()
            # A write may fail with ConnectionLoss; the next one waits for the connection.
            for _ in range(5):
                pending = connection.session.create(f"/{victim.port}-", None, sequential=True)
                connection.wait(settled([pending]))
                written += error_of(pending) is None
            assert connection.wait(connection.session.exists("/mine")) is not None
            victim.start()
        assert written >= 12
        assert len(connection.wait(connection.session.children("/"))) >= 1 + written
        assert SessionState.EXPIRED not in connection.events
        connection.close()


def test_many_calls_while_disconnected_do_not_block_the_loop(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    """kazoo alone blocks its caller after some 270 calls."""
    connection = here.connect(
        f"{server.address}/many", session_timeout_ms=60_000, in_flight_max=10_000
    )
    connection.wait(connection.session.create("/a", b""))
    server.kill()
    connection.wait_for(SessionState.SUSPENDED)
    pendings = [connection.session.get("/a") for _ in range(1_000)]
    server.start()
    for pending in pendings:
        assert connection.wait(pending)[0] == b""
    connection.close()
