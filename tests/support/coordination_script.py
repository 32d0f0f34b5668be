"""Random scripts of coordination calls, and two services that run them: the tree and ZooKeeper.

A script is a list of steps for two sessions, "A" and "B"; what a step gives is written down in a
form in which the two can be compared: session ids become names, zxids become ranks.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState, WatchedEvent, ZnodeStat

from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.errors import CoordinationError, MultiFailed
from odradek.controller.coordination.session import (
    Check,
    CoordinationSession,
    Create,
    Delete,
    SessionEvent,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    ZkOperation,
    ZkResult,
)
from odradek.runtime.pending import Pending
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.virtual_clock import VirtualClock
from tests.support.threads import HeldThreads

T = TypeVar("T")
ROLLED_BACK = 0
NAMES = ("a", "b", "c", "d")
Step = tuple[Any, ...]


def build_script(seed: int, length: int) -> list[Step]:
    """Steps: (session, call, arguments...); paths are below the folder of the script."""
    rng = random.Random(seed)

    def path() -> str:
        return "".join("/" + rng.choice(NAMES) for _ in range(rng.choice((1, 1, 1, 2, 2, 3))))

    def version() -> int:
        return rng.choice((-1, -1, -1, 0, 0, 1, 2, 7))

    def data() -> bytes:
        return rng.choice((b"", b"x", b"long" * 10))

    def operation() -> ZkOperation:
        kind = rng.randrange(6)
        if kind <= 1:
            return Create(path(), data(), rng.random() < 0.2, rng.random() < 0.2)
        if kind == 2:
            return Delete(path(), version())
        if kind == 3:
            return SetData(path(), data(), version())
        return Check(path(), version())

    steps: list[Step] = []
    for _ in range(length):
        session = rng.choice("AAAB")
        kind = rng.randrange(20)
        if kind < 6:
            sequential = rng.random() < 0.25
            suffix = rng.choice(("", "-", "/")) if sequential else ""
            content = None if rng.random() < 0.2 else data()
            steps.append(
                (session, "create", path() + suffix, content, rng.random() < 0.2, sequential)
            )
        elif kind < 9:
            steps.append((session, "delete", path(), version()))
        elif kind < 11:
            steps.append((session, "set", path(), data(), version()))
        elif kind < 13:
            steps.append((session, "get", path(), rng.random() < 0.6))
        elif kind < 15:
            steps.append((session, "exists", path(), rng.random() < 0.6))
        elif kind < 17:
            steps.append((session, "children", path(), rng.random() < 0.6))
        elif kind < 19 or rng.random() < 0.7:
            count = rng.randrange(1, 5)
            steps.append((session, "multi", [operation() for _ in range(count)]))
        else:
            steps.append(("B", "close"))
    return steps


class Actor(Protocol):
    """Runs steps."""

    def perform(self, step: Step) -> Any:
        """The outcome, with raw zxids as ("zxid", number)."""

    def events(self) -> list[tuple[str, str, str]]:
        """(session, kind, path) of the watches that fired since the last call."""


def run_script(steps: Sequence[Step], actor: Actor) -> list[Any]:
    """The outcomes and events of all steps, made comparable."""
    # kazoo calls a watcher twice that watches both data and children of a node that goes.
    outcomes = [(step, actor.perform(step), sorted(set(actor.events()))) for step in steps]
    seen: dict[int, None] = {}
    _collect_zxids(outcomes, seen)
    ranks = {zxid: rank for rank, zxid in enumerate(sorted(seen))}
    return [_ranked(outcome, ranks) for outcome in outcomes]


def _collect_zxids(value: Any, seen: dict[int, None]) -> None:
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "zxid":
        seen[value[1]] = None
    elif isinstance(value, tuple | list):
        for element in value:
            _collect_zxids(element, seen)


def _ranked(value: Any, ranks: dict[int, int]) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "zxid":
        return ("zxid", ranks[value[1]])
    if isinstance(value, tuple | list):
        return [_ranked(element, ranks) for element in value]
    return value


class EmbeddedActor:
    """The embedded tree; each call passes its group commit before the next one."""

    def __init__(self) -> None:
        files = MemoryFileSystem(folders=["/data"])
        self.embedded = EmbeddedTree(files, "/data", VirtualClock(), journal_entries_max=7)
        self._threads = HeldThreads()
        self.embedded.serve(self._threads, on_failure=self._fail, on_warning=self._fail)
        self._events: list[tuple[str, str, str]] = []
        self._sessions: dict[str, CoordinationSession] = {}
        self._owners: dict[int, str] = {0: "none"}
        for name in "AB":
            self._connect(name)
        self._done(self._sessions["A"].create("/script", b""))
        self._prefix = "/script"

    def _fail(self, problem: str) -> None:
        raise AssertionError(problem)

    def _done(self, pending: Pending[T]) -> T:
        self._threads.settle()
        return pending.result()

    def _connect(self, name: str) -> None:
        def on_event(event: SessionEvent) -> None:
            assert isinstance(event, WatchEvent)
            self._events.append((name, event.kind.name, event.path))

        session = self.embedded.connect(on_event)
        self._sessions[name] = session
        self._owners[session.session_id] = name

    def events(self) -> list[tuple[str, str, str]]:
        """(session, kind, path) of the watches that fired."""
        events, self._events = self._events, []
        return events

    def perform(self, step: Step) -> Any:
        """One step."""
        session = self._sessions[step[0]]
        try:
            return self._call(session, step)
        except MultiFailed as failed:
            return [
                ROLLED_BACK if error is None else ("error", error.code) for error in failed.errors
            ]
        except CoordinationError as error:
            return ("error", error.code)

    def _call(self, session: CoordinationSession, step: Step) -> Any:
        match step[1:]:
            case ("create", path, data, ephemeral, sequential):
                path = self._prefix + path
                return self._done(
                    session.create(path, data, ephemeral=ephemeral, sequential=sequential)
                )
            case ("delete", path, version):
                return self._done(session.delete(self._prefix + path, version))
            case ("set", path, data, version):
                return self._stat(self._done(session.set(self._prefix + path, data, version)))
            case ("get", path, watch):
                data, stat = self._done(session.get(self._prefix + path, watch=watch))
                return data, self._stat(stat)
            case ("exists", path, watch):
                node_stat = self._done(session.exists(self._prefix + path, watch=watch))
                return None if node_stat is None else self._stat(node_stat)
            case ("children", path, watch):
                return self._done(session.children(self._prefix + path, watch=watch))
            case ("multi", operations):
                moved = [_moved(operation, self._prefix) for operation in operations]
                return [self._result(result) for result in self._done(session.multi(moved))]
            case _:
                self._done(session.close())
                self._connect(step[0])
                return None

    def _result(self, result: ZkResult) -> Any:
        return self._stat(result) if isinstance(result, Stat) else result

    def _stat(self, stat: Stat) -> Any:
        return (
            ("zxid", stat.czxid),
            ("zxid", stat.mzxid),
            ("zxid", stat.pzxid),
            stat.version,
            stat.cversion,
            self._owners[stat.ephemeral_owner],
            stat.data_bytes,
            stat.children_count,
        )


class ZooKeeperActor:
    """A real server through kazoo; each script has a folder of its own."""

    def __init__(self, hosts: str, folder: str) -> None:
        self._hosts = hosts
        self._prefix = folder
        self._events: list[tuple[str, str, str]] = []
        self._clients: dict[str, KazooClient] = {}
        self._watchers: dict[str, Callable[[WatchedEvent], None]] = {}
        self._owners: dict[int, str] = {0: "none"}
        self.was_interrupted = False
        """Whether a connection broke, so that the outcome is not comparable."""
        for name in "AB":
            self._connect(name)
        self._clients["A"].create(folder, b"")

    def close(self) -> None:
        """End the sessions."""
        for client in self._clients.values():
            client.remove_listener(self._on_state)
            client.stop()
            client.close()

    def _connect(self, name: str) -> None:
        client = KazooClient(hosts=self._hosts, timeout=30.0)
        client.start(timeout=60)
        client.add_listener(self._on_state)
        self._clients[name] = client
        self._owners[client.client_id[0]] = name

        def on_event(event: WatchedEvent) -> None:
            kind = {"CHANGED": WatchKind.DATA_CHANGED, "CHILD": WatchKind.CHILDREN_CHANGED}.get(
                event.type
            )
            shown = kind.name if kind is not None else event.type
            self._events.append((name, shown, event.path))

        self._watchers[name] = on_event

    def _on_state(self, state: str) -> None:
        self.was_interrupted |= state != KazooState.CONNECTED

    def events(self) -> list[tuple[str, str, str]]:
        """(session, kind, path) of the watches that fired: each client makes a call, after whose
        result all its callbacks have run."""
        for client in self._clients.values():
            client.exists("/")
            flushed = threading.Event()
            client.handler.callback_queue.put(flushed.set)
            assert flushed.wait(60)
        events, self._events = self._events, []
        return [
            (session, kind, "/script" + path[len(self._prefix) :])
            for session, kind, path in events
            if path is not None and not path.startswith("/zookeeper") and session in self._clients
        ]

    def perform(self, step: Step) -> Any:
        """One step."""
        try:
            return self._call(self._clients[step[0]], step)
        except KazooException as error:
            return ("error", error.code)

    def _call(self, client: KazooClient, step: Step) -> Any:
        watcher = self._watchers[step[0]]
        match step[1:]:
            case ("create", path, data, ephemeral, sequential):
                return self._own(
                    client.create(
                        self._prefix + path, data, ephemeral=ephemeral, sequence=sequential
                    )
                )
            case ("delete", path, version):
                client.delete(self._prefix + path, version)
                return None
            case ("set", path, data, version):
                return self._stat(client.set(self._prefix + path, data, version))
            case ("get", path, watch):
                data, stat = client.get(self._prefix + path, watch=watcher if watch else None)
                return data, self._stat(stat)
            case ("exists", path, watch):
                node_stat = client.exists(self._prefix + path, watch=watcher if watch else None)
                return None if node_stat is None else self._stat(node_stat)
            case ("children", path, watch):
                return sorted(
                    client.get_children(self._prefix + path, watch=watcher if watch else None)
                )
            case ("multi", operations):
                return self._multi(client, operations)
            case _:
                client.remove_listener(self._on_state)
                client.stop()
                client.close()
                self._connect(step[0])
                return None

    def _multi(self, client: KazooClient, operations: Sequence[ZkOperation]) -> Any:
        transaction = client.transaction()
        for operation in operations:
            match _moved(operation, self._prefix):
                case Create(path, data, ephemeral, sequential):
                    transaction.create(path, data, ephemeral=ephemeral, sequence=sequential)
                case Delete(path, version):
                    transaction.delete(path, version)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Check(path, version):
                    transaction.check(path, version)
        outcomes: list[Any] = []
        for result in transaction.commit():
            if isinstance(result, Exception):
                code = result.code  # type: ignore[attr-defined]
                outcomes.append(ROLLED_BACK if code == 0 else ("error", code))
            elif isinstance(result, ZnodeStat):
                outcomes.append(self._stat(result))
            elif isinstance(result, str):
                outcomes.append(self._own(result))
            else:
                outcomes.append(None)
        return outcomes

    def _own(self, path: str) -> str:
        return "/script" + path[len(self._prefix) :]

    def _stat(self, stat: ZnodeStat) -> Any:
        return (
            ("zxid", stat.czxid),
            ("zxid", stat.mzxid),
            ("zxid", stat.pzxid),
            stat.version,
            stat.cversion,
            self._owners[stat.ephemeralOwner],
            stat.dataLength,
            stat.numChildren,
        )


def _moved(operation: ZkOperation, prefix: str) -> ZkOperation:
    match operation:
        case Create(path, data, ephemeral, sequential):
            return Create(prefix + path, data, ephemeral, sequential)
        case Delete(path, version):
            return Delete(prefix + path, version)
        case SetData(path, data, version):
            return SetData(prefix + path, data, version)
        case Check(path, version):
            return Check(prefix + path, version)
