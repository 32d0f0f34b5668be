"""A cluster whose coordination service and brokers respond late and in a random order.

Each session has two queues, as a connection to a real service has: calls on their way to the tree,
and results and events on their way back, both in order.  Nodes may be paused (nothing comes back to
them), their sessions may expire meanwhile, and they may die with calls still on their way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.coordination.embedded import EmbeddedSession
from odradek.controller.coordination.errors import ConnectionLoss, CoordinationError
from odradek.controller.coordination.session import (
    ANY_VERSION,
    CoordinationSession,
    EventCallback,
    SessionEvent,
    Stat,
    ZkOperation,
    ZkResult,
)
from odradek.controller.image.control_requests import ControlRequest
from odradek.runtime.pending import Pending
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from tests.support.cluster import Cluster, Node, Respond

T = TypeVar("T")


class SlowSession:
    """A session whose calls and results wait until the cluster delivers them."""

    def __init__(self, cluster: Cluster, on_event: EventCallback) -> None:
        self.is_paused = False
        self.is_cut = False
        self.is_losing = False
        """Calls are carried out, but their results are lost."""
        self.there: deque[Callable[[], None]] = deque()
        self.back: deque[Callable[[], None]] = deque()
        self._on_event = on_event
        self._inner: EmbeddedSession = cluster.tree.connect(self._arrived)

    def _arrived(self, event: SessionEvent) -> None:
        self.back.append(lambda: self._on_event(event))

    def _call(self, act: Callable[[], Pending[T]]) -> Pending[T]:
        outer: Pending[T] = Pending()

        def carry() -> None:
            inner = act()
            assert inner.is_done
            is_lost = self.is_losing

            def deliver() -> None:
                if is_lost:
                    outer.fail(ConnectionLoss())
                    return
                try:
                    value = inner.result()
                except CoordinationError as error:
                    outer.fail(error)
                else:
                    outer.resolve(value)

            self.back.append(deliver)

        self.there.append(carry)
        return outer

    def deliver_all(self) -> None:
        """Deliver every call and result, paused or not."""
        while self.there or self.back:
            (self.back or self.there).popleft()()

    @property
    def session_id(self) -> int:
        return self._inner.session_id

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Pending[str]:
        return self._call(
            lambda: self._inner.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        return self._call(lambda: self._inner.delete(path, version))

    def get(self, path: str, *, watch: bool = False) -> Pending[tuple[bytes | None, Stat]]:
        return self._call(lambda: self._inner.get(path, watch=watch))

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        return self._call(lambda: self._inner.set(path, data, version))

    def exists(self, path: str, *, watch: bool = False) -> Pending[Stat | None]:
        return self._call(lambda: self._inner.exists(path, watch=watch))

    def children(self, path: str, *, watch: bool = False) -> Pending[list[str]]:
        return self._call(lambda: self._inner.children(path, watch=watch))

    def multi(self, operations: Sequence[ZkOperation]) -> Pending[list[ZkResult]]:
        return self._call(lambda: self._inner.multi(operations))

    def reopen(self) -> Pending[None]:
        return self._call(self._inner.reopen)

    def close(self) -> Pending[None]:
        return self._call(self._inner.close)


class SlowCluster(Cluster):
    """Delivers one call, result or request at a time; the seed decides which."""

    def __init__(self, seed: int, settings: ControllerSettings) -> None:
        super().__init__(settings=settings)
        self.rng = SeededRandomness(seed)
        self.sessions: list[SlowSession] = []
        self.checks: list[Callable[[], None]] = []
        self._failed: list[Node] = []

    def connect(self, on_event: EventCallback) -> CoordinationSession:
        session = SlowSession(self, on_event)
        self.sessions.append(session)
        return session

    def session_of(self, broker_id: int) -> SlowSession:
        session = self.nodes[broker_id].session
        assert isinstance(session, SlowSession)
        return session

    def expire(self, broker_id: int) -> None:
        """The service expires the session of a node, which learns of it later."""
        session = self.session_of(broker_id)
        if session.session_id in self.tree.tree.sessions:
            self.tree.expire(session.session_id)

    def kill(self, broker_id: int) -> None:
        """A node dies; some of its calls may still be carried out, then its session ends."""
        session = self.session_of(broker_id)
        session.is_cut = True
        session.back.clear()
        for _ in range(self.rng.below(len(session.there) + 1)):
            session.there.popleft()()
        session.there.clear()
        self.expire(broker_id)
        del self.nodes[broker_id]

    def on_failed_start(self, node: Node, error: CoordinationError) -> None:
        """Its session expired, or an earlier registration has its id: the process ends."""
        self._failed.append(node)

    def choices(self) -> list[Callable[[], None]]:
        """The deliveries that are possible now."""
        choices: list[Callable[[], None]] = []
        for session in self.sessions:
            if session.there:
                choices.append(lambda queue=session.there: queue.popleft()())  # type: ignore[misc]
            if session.back and not session.is_paused and not session.is_cut:
                choices.append(lambda queue=session.back: queue.popleft()())  # type: ignore[misc]
        for node in self.nodes.values():
            targets = dict.fromkeys(target for target, _, _ in node.outbox)
            choices.extend(
                lambda node=node, target=target: self.deliver(node, target)  # type: ignore[misc]
                for target in targets
                if not self.is_paused(target) and not self.is_paused(node.broker_id)
            )
        return choices

    def is_paused(self, broker_id: int) -> bool:
        return broker_id in self.nodes and self.session_of(broker_id).is_paused

    def deliver(self, node: Node, target: int) -> None:
        """Deliver the next control request of a node to another one."""
        index = next(at for at, entry in enumerate(node.outbox) if entry[0] == target)
        entry: tuple[int, ControlRequest, Respond] = node.outbox.pop(index)
        if target in self.nodes:
            self.nodes[target].controller.receiver.receive(entry[1], entry[2])

    def step(self) -> bool:
        """One delivery; False when there is none."""
        for node in self._failed:
            if self.nodes.get(node.broker_id) is node:
                self.kill(node.broker_id)
        self._failed.clear()
        choices = self.choices()
        if not choices:
            return False
        choices[self.rng.below(len(choices))]()
        for check in self.checks:
            check()
        return True

    def settle(self) -> None:
        """Deliver everything that is under way; failed events are repeated."""
        for _ in range(20):
            while self.step():
                pass
            for node in list(self.nodes.values()):
                node.controller.tick()
            if not self.choices():
                return
        raise AssertionError("the cluster does not come to rest")

    def run(self, steps: int) -> None:
        """At most `steps` deliveries."""
        for _ in range(steps):
            if not self.step():
                return
