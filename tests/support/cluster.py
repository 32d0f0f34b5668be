"""Controllers of several brokers on one embedded tree; each broker records its control requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.controller import Controller, Identity
from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.session import CoordinationSession, EventCallback, SessionEvent
from odradek.controller.image.control_requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
)
from odradek.controller.image.image import BrokerImage, Endpoint
from odradek.runtime.files import FileSystem
from odradek.runtime.pending import Pending
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.testing.virtual_clock import VirtualClock

FOLDER = "/data"
Respond = Callable[[ControlResponse], None]


class Node:
    """A broker without logs, which records the control requests that it applies."""

    def __init__(
        self,
        cluster: Cluster,
        broker_id: int,
        settings: ControllerSettings,
        rack: str | None = None,
    ) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.rack = rack
        self.requests: list[ControlRequest] = []
        self.configs: list[tuple[str, str, Mapping[str, str]]] = []
        self.warnings: list[str] = []
        self.stored_cluster_id: str | None = None
        self.respond: Callable[[ControlRequest], ControlResponse] = lambda _: ControlResponse()
        self.session: CoordinationSession | None = None
        self._hears = True
        self.outbox: list[tuple[int, ControlRequest, Respond]] = []
        self.controller = Controller(
            self._connect,
            settings,
            handler=self,
            sender=self,
            listener=self,
            clock=cluster.clock,
            randomness=SeededRandomness(broker_id),
        )

    def _connect(self, on_event: EventCallback) -> CoordinationSession:
        def deliver(event: SessionEvent) -> None:
            if self._hears:
                on_event(event)

        self.session = self.cluster.connect(deliver)
        return self.session

    def stop_hearing(self) -> None:
        """What the tree notifies from now on is lost on its way to this node."""
        self._hears = False

    def hear(self) -> None:
        """Events arrive again."""
        self._hears = True

    def start(self) -> None:
        """Join the cluster."""
        endpoint = Endpoint("PLAINTEXT", "localhost", 9092 + self.broker_id, "PLAINTEXT")
        self.controller.prepare(self.stored_cluster_id).on_done(self._note_start)
        identity = Identity(self.broker_id, (endpoint,), self.rack)
        self.controller.start(identity).on_done(self._note_start)

    def _note_start(self, done: Pending[Any]) -> None:
        try:
            done.result()
        except CoordinationError as error:
            self.cluster.on_failed_start(self, error)

    def apply(self, request: ControlRequest) -> Pending[ControlResponse]:
        """Record it."""
        self.requests.append(request)
        return Pending.of(self.respond(request))

    def set_brokers(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Nothing: `deliver_one` drops what is sent to a broker that is gone."""

    def send(self, broker_id: int, request: ControlRequest, respond: Respond) -> None:
        """Deliver it when the cluster settles."""
        self.outbox.append((broker_id, request, respond))

    def on_config_changed(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        """Record it."""
        self.configs.append((entity_type, entity, dict(config)))

    def on_warning(self, text: str) -> None:
        """Record it."""
        self.warnings.append(text)

    def leadership(self) -> list[LeaderAndIsr]:
        """The LeaderAndIsr requests, in order."""
        return [request for request in self.requests if isinstance(request, LeaderAndIsr)]

    def stops(self) -> list[StopReplica]:
        """The StopReplica requests, in order."""
        return [request for request in self.requests if isinstance(request, StopReplica)]


class Cluster:
    """A tree and the nodes on it."""

    def __init__(
        self, files: FileSystem | None = None, settings: ControllerSettings | None = None
    ) -> None:
        self.clock = VirtualClock()
        self.files = MemoryFileSystem(folders=[FOLDER]) if files is None else files
        self.settings = ControllerSettings() if settings is None else settings
        self.tree = EmbeddedTree(self.files, FOLDER, self.clock)
        self.nodes: dict[int, Node] = {}

    def connect(self, on_event: EventCallback) -> CoordinationSession:
        """A session for a node."""
        return self.tree.connect(on_event)

    def add(self, broker_id: int, *, rack: str | None = None, is_started: bool = True) -> Node:
        """A broker is added, and started unless `is_started` is false."""
        node = self.nodes[broker_id] = Node(self, broker_id, self.settings, rack)
        if is_started:
            node.start()
            self.settle()
        return node

    def kill(self, broker_id: int) -> None:
        """A broker dies and its session expires."""
        node = self.nodes.pop(broker_id)
        assert node.session is not None
        node.stop_hearing()
        self.tree.expire(node.session.session_id)
        self.settle()

    def on_failed_start(self, node: Node, error: CoordinationError) -> None:
        """A broker could not start."""
        raise error

    def settle(self) -> None:
        """Deliver all requests that are under way."""
        while self.deliver_one():
            pass

    def deliver_one(self) -> bool:
        """Deliver one request to another broker; False when none is under way."""
        for node in self.nodes.values():
            if node.outbox:
                broker_id, request, respond = node.outbox.pop(0)
                target = self.nodes.get(broker_id)
                if target is not None:
                    target.controller.receiver.receive(request, respond)
                return True
        return False

    def data(self, path: str) -> bytes | None:
        """The data of a znode."""
        return self.tree.tree.nodes[path].data

    @property
    def active(self) -> Node:
        """The one controller."""
        (node,) = [node for node in self.nodes.values() if node.controller.is_active]
        return node
