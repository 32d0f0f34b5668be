"""The coordination service of a simulated cluster, and a broker's sessions with it.

The service is one that never fails: the product's tree of znodes, with sessions that expire.  The
broker's side is the product's `ZooKeeperSession`; in place of kazoo's thread it has a connection
over the simulated network, which sends heartbeats, gives up a silent connection after two thirds
of the session's time-out and connects again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from odradek.controller.coordination.errors import (
    ConnectionLoss,
    CoordinationError,
    MultiFailed,
    SessionExpired,
)
from odradek.controller.coordination.session import (
    ANY_VERSION,
    Create,
    Delete,
    EventCallback,
    WatchEvent,
    ZkOperation,
)
from odradek.controller.coordination.tree import Tree, TreeChange
from odradek.controller.coordination.zookeeper import WATCH_KINDS, ZooKeeperSession
from odradek.controller.coordination.zookeeper_connection import (
    Call,
    Closed,
    Connected,
    Disconnected,
    Fired,
    Posted,
    ZooKeeperConnection,
    ZooKeeperOptions,
)
from odradek.controller.coordination.zookeeper_requests import (
    Children,
    Exists,
    Get,
    Multi,
    ZkRequest,
)
from odradek.controller.znodes import zk_data
from tests.sim.loop import SimulatedLoop
from tests.sim.network import END, Connection, Host, Network
from tests.sim.state_history import StateHistory
from tests.sim.world import World

HOST: Final = "zookeeper"
CHECK_US: Final = 250_000
RECONNECT_US: Final = 100_000
HEARD_US: Final = 600_000
KINDS: Final = {kind: name for name, kind in WATCH_KINDS.items()}


class ServedSession:
    """A session at the service."""

    def __init__(self, session_id: int, timeout_us: int, now_us: int) -> None:
        self.session_id = session_id
        self.timeout_us = timeout_us
        self.heard_us = now_us
        self.connection: Connection | None = None


class Ensemble:
    """The service."""

    def __init__(self, world: World, network: Network) -> None:
        self.world = world
        self.tree = Tree()
        self.sessions: dict[int, ServedSession] = {}
        self.states = StateHistory(world, self.tree)
        network.host(HOST).accept = self._accept
        self._expire_silent()
        self.tree.open_session(1)
        self._administrator_id = self.tree.last_session_id

    def write(self, *operations: ZkOperation) -> None:
        """As an administrator's tool does.

        raises  CoordinationError
        """
        self._write(self._administrator_id, operations)

    def create_roots(self) -> None:
        """As in a cluster whose brokers have been started before."""
        paths: dict[str, None] = {}
        for root in zk_data.PERSISTENT_ROOTS:
            names = root.split("/")[1:]
            paths |= dict.fromkeys("/" + "/".join(names[: end + 1]) for end in range(len(names)))
        self.write(*(Create(path, None) for path in paths))

    def controller_id(self) -> int | None:
        """The broker that is the controller."""
        node = self.tree.nodes.get(zk_data.CONTROLLER)
        return None if node is None else int(json.loads(node.data or b"")["brokerid"])

    def depose(self) -> None:
        """Delete the controller's node: the brokers elect another one."""
        self.write(Delete(zk_data.CONTROLLER, ANY_VERSION))

    def _now_ms(self) -> int:
        return self.world.now_us // 1_000

    def _expire_silent(self) -> None:
        now_us = self.world.now_us
        for session in list(self.sessions.values()):
            if now_us - session.heard_us > session.timeout_us:
                self.world.counts["session expiry"] += 1
                self.expire(session.session_id)
        self.world.after(CHECK_US, self._expire_silent)

    def is_heard(self, session_id: int) -> bool:
        """Whether a session exists and sends heartbeats."""
        session = self.sessions.get(session_id)
        return session is not None and self.world.now_us - session.heard_us < HEARD_US

    def expire(self, session_id: int) -> None:
        """End a session."""
        session = self.sessions.pop(session_id)
        self.world.note(f"session {session_id} ends")
        self._fire(self.tree.close_session(session_id))
        if session.connection is not None:
            session.connection.close()

    def _fire(self, change: TreeChange) -> None:
        for owner, event in self.tree.fire(change):
            session = self.sessions.get(owner)
            if session is not None and session.connection is not None:
                session.connection.send(event)

    def _accept(self, connection: Connection) -> Callable[[Any], None]:
        session: ServedSession | None = None

        def receive(item: Any) -> None:
            nonlocal session
            if item is END:
                if session is not None and session.connection is connection:
                    session.connection = None
                    if session.session_id in self.sessions:
                        self.tree.drop_watches(session.session_id)
                return
            kind, *arguments = item
            if kind == "open":
                session = self._open(connection, *arguments)
                return
            if session is None or session.session_id not in self.sessions:
                return
            session.heard_us = self.world.now_us
            if kind == "call":
                number, request = arguments
                result, error = self._perform(session.session_id, request)
                connection.send((number, result, error))
            elif kind == "ping":
                connection.send("pong")
            else:
                self.expire(session.session_id)

        return receive

    def _open(
        self, connection: Connection, session_id: int, timeout_ms: int
    ) -> ServedSession | None:
        if session_id:
            session = self.sessions.get(session_id)
            if session is None:
                connection.send(SessionExpired())
                return None
            if session.connection is not None:
                self.tree.drop_watches(session_id)
                session.connection.close()
        else:
            self.tree.open_session(timeout_ms)
            session_id = self.tree.last_session_id
            session = ServedSession(session_id, timeout_ms * 1_000, self.world.now_us)
            self.sessions[session_id] = session
        session.connection = connection
        session.heard_us = self.world.now_us
        connection.send(("opened", session_id))
        return session

    def _perform(self, session_id: int, request: ZkRequest) -> tuple[Any, CoordinationError | None]:
        tree = self.tree
        try:
            match request:
                case Get(path, watch):
                    return tree.get(session_id, path, watch=watch), None
                case Exists(path, watch):
                    return tree.exists(session_id, path, watch=watch), None
                case Children(path, watch):
                    names = tree.children(session_id, path, watch=watch)
                    return (names, tree.nodes[path].stat()), None
                case Multi(operations):
                    return self._write(session_id, operations), None
                case _:
                    return self._write(session_id, (request,))[0], None
        except MultiFailed as failed:
            return None, failed if isinstance(request, Multi) else failed.error
        except CoordinationError as error:
            return None, error

    def _write(self, session_id: int, operations: tuple[Any, ...]) -> list[Any]:
        change = self.tree.transact(session_id, operations, self._now_ms())
        if change.steps:
            for operation in operations:
                self.states.on_written(operation)
            self._fire(change)
        else:
            self.tree.undo(change)
        return change.results


class SimulatedZooKeeperConnection(ZooKeeperConnection):
    """One session over as many connections as it takes, on the loop of its process."""

    def __init__(
        self,
        options: ZooKeeperOptions,
        post: Callable[[Posted], None],
        network: Network,
        host: Host,
    ) -> None:
        assert host.loop is not None
        self._network = network
        self._host = host
        self._loop: SimulatedLoop = host.loop
        self._link: Connection | None = None
        self._calls: dict[int, Call] = {}
        self._call_number = 0
        self._session_number = 0
        self._heard_us = 0
        self._attempt = 0
        """The number of the newest attempt to connect."""
        self._is_connecting = False
        self._is_connected = False
        super().__init__(options, post)

    def _start(self) -> None:
        self._timeout_us = self._options.session_timeout_ms * 1_000
        self._connect()
        self._send_heartbeat()

    def close(self) -> None:
        """End the session."""
        self._end(SessionExpired("the session is closed"))
        if self._link is not None:
            self._link.send(("close",))
            self._link = None
        self._loop.post(1_000, lambda: self._post(Closed()))

    def _connect(self) -> None:
        if self._is_ended or self._is_connecting or self._loop.is_ended:
            return
        self._is_connecting = True
        self._attempt += 1
        attempt = self._attempt

        def done(connection: Connection | None) -> None:
            if connection is None or self._is_ended or attempt != self._attempt:
                if connection is not None:
                    connection.close()
                return
            self._is_connecting = False
            self._link = connection
            self._heard_us = self._network.world.now_us
            connection.receive = lambda item: self._receive(connection, item)
            connection.send(("open", self._session_number, self._options.session_timeout_ms))

        self._network.connect(self._host, self._network.host(HOST), done, 1)
        self._loop.post(self._timeout_us // 3, lambda: self._give_up_connecting(attempt))

    def _give_up_connecting(self, attempt: int) -> None:
        if self._is_connecting and attempt == self._attempt:
            self._is_connecting = False
            self._connect()

    def _receive(self, connection: Connection, item: Any) -> None:
        if connection is not self._link or self._is_ended:
            return
        self._heard_us = self._network.world.now_us
        if item is END:
            self._lose()
        elif isinstance(item, WatchEvent):
            self._post(Fired(KINDS[item.kind], item.path))
        elif isinstance(item, SessionExpired):
            self._end(item)
        elif item != "pong":
            self._take(item)

    def _take(self, item: tuple[Any, ...]) -> None:
        if item[0] == "opened":
            self._session_number = item[1]
            self._is_connected = True
            self._number += 1
            self._post(Connected(self._number, item[1]))
            return
        number, result, error = item
        call = self._calls.pop(number)
        call.result, call.error = result, error
        self.on_done(call)

    def _lose(self) -> None:
        """The connection is lost: calls under way fail, and the next one is made."""
        connection, self._link = self._link, None
        if connection is not None:
            connection.close()
        self._is_resumed = False
        self._number += 1
        if self._is_connected:
            self._is_connected = False
            self._network.world.counts["session suspended"] += 1
            self._post(Disconnected())
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.set_exception(ConnectionLoss("the connection is lost"))
        self._loop.post(RECONNECT_US, self._connect)

    def _send_heartbeat(self) -> None:
        if self._is_ended:
            return
        silent_us = self._network.world.now_us - self._heard_us
        if self._link is not None:
            if silent_us > self._timeout_us * 2 // 3:
                self._lose()
            elif self._is_connected:
                self._link.send(("ping",))
        elif not self._is_connecting:
            self._connect()
        self._loop.post(self._timeout_us // 4, self._send_heartbeat)

    def _send(self) -> None:
        while self._is_resumed and self._waiting and self._in_flight < self._in_flight_max:
            call = self._waiting.popleft()
            self._in_flight += 1
            self._call_number += 1
            self._calls[self._call_number] = call
            assert self._link is not None, "it was connected"
            self._link.send(("call", self._call_number, call.request))


class SimulatedSession(ZooKeeperSession):
    """A session of a broker on `host`."""

    def __init__(
        self,
        network: Network,
        host: Host,
        options: ZooKeeperOptions,
        on_event: EventCallback,
        *,
        after: Callable[[], None],
    ) -> None:
        self._network = network
        self._host = host
        loop = host.loop
        assert loop is not None

        def call_on_loop(work: Callable[[], None]) -> None:
            def run() -> None:
                work()
                after()

            loop.call_soon(run)

        def add_timer(delay_ms: int, callback: Callable[[], None]) -> Any:
            return loop.call_later(delay_ms / 1_000, callback)

        super().__init__(options, on_event, call_on_loop=call_on_loop, add_timer=add_timer)

    def _open_connection(self, post: Callable[[Posted], None]) -> ZooKeeperConnection:
        return SimulatedZooKeeperConnection(self._options, post, self._network, self._host)
