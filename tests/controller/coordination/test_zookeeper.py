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


def steal(address: str, one: SessionHere) -> None:
    """Take over a session and end it: to its owner it has expired."""
    inner = one.session._connection._client
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
    found = run_script(script, actor)
    actor.close()
    expected = run_script(script, EmbeddedActor())
    for step, (remote, embedded) in enumerate(zip(found, expected, strict=True)):
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
    one = here.connect(f"{shared}/deep/er/top")
    assert one.wait(one.session.create("/a", b"1")) == "/a"
    assert client.get("/deep/er/top/a")[0] == b"1"
    assert one.wait(one.session.children("/")) == ["a"]
    one.close()


def test_null_data_stay_null(shared: str, here: LoopHere) -> None:
    one = here.connect(f"{shared}/null")
    results = one.wait(one.session.multi([Create("/a", None, ephemeral=True), Create("/b", b"")]))
    assert results == ["/a", "/b"]
    data, stat = one.wait(one.session.get("/a"))
    assert data is None
    assert stat.ephemeral_owner == one.session.session_id != 0
    assert one.wait(one.session.get("/b"))[0] == b""
    one.close()


def test_failed_multi_names_the_first_operation_that_failed(shared: str, here: LoopHere) -> None:
    one = here.connect(f"{shared}/multi")
    one.wait(one.session.create("/a", b""))
    with pytest.raises(MultiFailed) as caught:
        one.wait(
            one.session.multi(
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
    assert one.wait(one.session.get("/a"))[0] == b""
    one.close()


def test_data_above_the_limit_are_refused_without_a_connection(here: LoopHere) -> None:
    one = here.connect(f"127.0.0.1:{free_port()}")
    pending = one.session.create("/a", bytes(DATA_BYTES_MAX + 1))
    with pytest.raises(BadArguments):
        pending.result()
    one.close()


def test_event_precedes_the_read_that_returns_the_change(
    shared: str, here: LoopHere, client: KazooClient
) -> None:
    """Another client changes a node all the time; each read that shows a new version was preceded
    by the event of the watch that the read before it had set."""
    one = here.connect(f"{shared}/order")
    one.wait(one.session.create("/a", b""))
    reads: list[Pending[None]] = []
    log: list[object] = []
    one.events = log  # type: ignore[assignment]

    def note(result: tuple[bytes | None, Stat]) -> None:
        log.append(result[1].version)

    def change() -> None:
        for _ in range(200):
            client.set("/order/a", b"")

    changing = threading.Thread(target=change)
    changing.start()
    while changing.is_alive():
        reads.append(one.session.get("/a", watch=True).then(note))
        here.until(lambda: sum(not read.is_done for read in reads[-20:]) < 10)
    changing.join()
    one.wait(settled(reads))
    one.close()
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
    one = here.connect(f"{server.address}/late")
    pending = one.session.create("/a", b"1")
    try:
        server.start()
        assert one.wait(pending) == "/a"
        assert one.states() == []
        one.close()
    finally:
        server.kill()


def test_calls_fail_when_there_is_no_connection_in_time(here: LoopHere) -> None:
    address = f"127.0.0.1:{free_port()}"
    one = here.connect(address, connection_timeout_ms=300)
    with pytest.raises(ConnectionLoss, match=address):
        one.wait(one.session.get("/"))
    with pytest.raises(ConnectionLoss):
        one.session.get("/").result()
    one.close()


def test_connection_that_hangs_is_suspended_and_goes_on(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    one = here.connect(f"{server.address}/hang", session_timeout_ms=3_000)
    one.wait(one.session.create("/a", b"", ephemeral=True))
    session_id = one.session.session_id
    server.pause()
    try:
        one.wait_for(SessionState.SUSPENDED)
        late = one.session.get("/a")
        assert not late.is_done
    finally:
        server.go_on()
    assert one.wait(late)[1].ephemeral_owner == session_id
    assert one.states() == [SessionState.SUSPENDED, SessionState.CONNECTED]
    one.close()


def test_change_while_disconnected_fires_every_watch_once(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    one = here.connect(f"{server.address}/away", session_timeout_ms=30_000)
    session = one.session
    for path in ("/changed", "/gone", "/same", "/parent", "/parent/child", "/left"):
        one.wait(session.create(path, b""))
    for path in ("/changed", "/gone", "/same"):
        one.wait(session.get(path, watch=True))
    one.wait(session.exists("/absent", watch=True))
    one.wait(session.exists("/never", watch=True))
    one.wait(session.children("/parent", watch=True))
    one.wait(session.children("/left", watch=True))
    one.wait(session.children("/gone", watch=True))

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
    here.until(lambda: SessionState.SUSPENDED in one.events)
    number = one.session._connection._number
    server.start()
    deadline = threading.Event()
    while one.session._connection._number == number:
        assert not deadline.wait(0.01)
    change()
    one.wait_for(SessionState.CONNECTED)
    one.wait(session.exists("/"))
    fired = sorted(
        (event.kind.name, event.path) for event in one.events if isinstance(event, WatchEvent)
    )
    assert fired == [
        ("CHILDREN_CHANGED", "/parent"),
        ("CREATED", "/absent"),
        ("DATA_CHANGED", "/changed"),
        ("DELETED", "/gone"),
    ]
    one.wait(session.set("/same", b"x"))
    one.wait(session.create("/never", b""))
    one.wait_for(WatchEvent(WatchKind.DATA_CHANGED, "/same"))
    one.wait_for(WatchEvent(WatchKind.CREATED, "/never"))
    one.close()


def test_write_whose_response_is_lost_fails_and_is_not_repeated(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    one = here.connect(f"{server.address}/lost", session_timeout_ms=30_000, in_flight_max=1)
    one.wait(one.session.create("/a", b""))
    server.pause()
    sent = one.session.set("/a", b"sent")
    read = one.session.get("/a")
    waiting = one.session.create("/b", b"")
    inner = one.session._connection
    here.until(lambda: inner._in_flight == 1)
    # Killed with what it has not read: the write never takes effect.
    server.kill()
    one.wait_for(SessionState.SUSPENDED)
    with pytest.raises(ConnectionLoss):
        one.wait(sent)
    assert not read.is_done
    assert not waiting.is_done
    server.start()
    assert one.wait(read)[0] == b""
    assert one.wait(waiting) == "/b"
    assert one.wait(one.session.get("/a"))[1].version == 0
    one.close()


def test_expired_session_fails_all_calls_until_it_is_opened_again(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    one = here.connect(f"{server.address}/expired")
    one.wait(one.session.create("/a", b"", ephemeral=True))
    one.wait(one.session.get("/a", watch=True))
    old = one.session.session_id
    steal(server.address, one)
    one.wait_for(SessionState.EXPIRED)
    with pytest.raises(SessionExpired):
        one.session.create("/b", b"").result()
    one.wait(one.session.reopen())
    assert one.session.session_id not in (0, old)
    with pytest.raises(NoNode):
        one.wait(one.session.get("/a"))
    assert one.wait(one.session.exists("/b")) is None
    assert SessionState.CONNECTED not in one.events
    assert not [event for event in one.events if isinstance(event, WatchEvent)]
    one.close()


def test_no_write_of_an_expired_session_is_made_in_the_next_one(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    """Writes are submitted all the time while the session expires; each that was decided before
    the owner opened the next session fails, or took effect in the old one."""
    one = here.connect(f"{server.address}/writes")
    pendings: dict[int, Pending[str]] = {}

    def write(number: int) -> None:
        pendings[number] = one.session.create(f"/{number}", None, ephemeral=True)

    for number in range(100):
        write(number)
    one.wait(settled(list(pendings.values())))
    stealing = threading.Thread(target=steal, args=(server.address, one))
    stealing.start()
    number = 100
    while SessionState.EXPIRED not in one.events:
        write(number)
        number += 1
        here.until(lambda: sum(not write.is_done for write in pendings.values()) < 50)
    stealing.join()
    one.wait(settled(list(pendings.values())))
    one.wait(one.session.reopen())
    assert one.wait(one.session.children("/")) == []
    assert any(isinstance(error_of(pending), CoordinationError) for pending in pendings.values())
    one.close()


def test_closed_session_removes_its_ephemeral_nodes_at_once(
    shared: str, here: LoopHere, client: KazooClient
) -> None:
    one = here.connect(f"{shared}/closing", session_timeout_ms=30_000)
    one.wait(one.session.create("/a", b"", ephemeral=True))
    one.close()
    assert client.exists("/closing/a") is None
    assert SessionState.EXPIRED not in one.events


def test_close_ends_in_time_when_no_server_responds(here: LoopHere) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        one = here.connect(f"127.0.0.1:{silent.getsockname()[1]}")
        pending = one.session.get("/")
        one.close()
        assert pending.is_done


def test_session_is_resumed_long_before_it_expires_when_a_request_to_do_so_has_no_response(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    """A server that is starting may take it and never respond."""
    one = here.connect(f"{server.address}/silent", session_timeout_ms=20_000)
    one.wait(one.session.create("/mine", b"", ephemeral=True))
    server.kill()
    with socket.create_server(("127.0.0.1", server.port)) as silent:
        taken, _ = silent.accept()
    with taken:
        server.start()
        started_s = time.monotonic()
        assert one.wait(one.session.exists("/mine")) is not None
        assert time.monotonic() < started_s + 10
    assert SessionState.EXPIRED not in one.events
    one.close()


def test_session_survives_the_death_of_the_ensembles_leader(
    tmp_path_factory: pytest.TempPathFactory, here: LoopHere
) -> None:
    with zookeeper_ensemble(tmp_path_factory.mktemp("ensemble")) as servers:
        one = here.connect(connect_text(servers, "/ensemble"), session_timeout_ms=30_000)
        one.wait(one.session.create("/mine", b"", ephemeral=True))
        written = 0
        for victim in servers:
            victim.kill()
            # A write may fail with ConnectionLoss; the next one waits for the connection.
            for _ in range(5):
                pending = one.session.create(f"/{victim.port}-", None, sequential=True)
                one.wait(settled([pending]))
                written += error_of(pending) is None
            assert one.wait(one.session.exists("/mine")) is not None
            victim.start()
        assert written >= 12
        assert len(one.wait(one.session.children("/"))) >= 1 + written
        assert SessionState.EXPIRED not in one.events
        one.close()


def test_many_calls_while_disconnected_do_not_block_the_loop(
    server: ZooKeeperServer, here: LoopHere
) -> None:
    """kazoo alone blocks its caller after some 270 calls."""
    one = here.connect(f"{server.address}/many", session_timeout_ms=60_000, in_flight_max=10_000)
    one.wait(one.session.create("/a", b""))
    server.kill()
    one.wait_for(SessionState.SUSPENDED)
    pendings = [one.session.get("/a") for _ in range(3_000)]
    server.start()
    for pending in pendings:
        assert one.wait(pending)[0] == b""
    one.close()
