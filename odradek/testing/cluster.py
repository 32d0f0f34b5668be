"""Several brokers that form a cluster, for one test or some."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

from odradek.testing.broker import (
    READY_TIMEOUT_S,
    Broker,
    BrokerFailed,
    check_snapshot_target,
    save,
)
from odradek.testing.control import ControlClient
from odradek.testing.handle import KafkaHandle
from odradek.testing.security import Security
from odradek.testing.waiting import wait_for

if TYPE_CHECKING:
    from odradek.tools.client import Client
    from odradek.tools.security.client_security import ClientSecurity

HOST: Final = "127.0.0.1"
BROKERS: Final = 3
REPLICAS_MAX: Final = 3
ATTEMPTS: Final = 3
"""Another process may take the chosen port of the coordination before broker 0 has bound it."""
PORT_TAKEN: Final = "cannot listen on"


class Cluster(KafkaHandle):
    """Brokers 0 to `brokers - 1` as a context manager; broker 0 serves the coordination.

    A new topic has a replica on every broker, up to three.
    """

    def __init__(
        self,
        brokers: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        as_release: str | None = None,
        snapshot: str | os.PathLike[str] | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
        security: Security | None = None,
    ) -> None:
        """
        brokers     how many; None: as many as the snapshot has, and three without one
        settings    of all brokers, as in server.properties
        as_release  as of `Broker`
        snapshot    a file of `save` that the cluster begins with, as of `Broker`
        security    as of `Broker`, also between the brokers
        raises      OSError, when the snapshot cannot be read
        """
        super().__init__()
        self.brokers: tuple[Broker, ...] = ()
        """The brokers, by id: each can be stopped or killed, and started again."""
        self._settings = dict(settings or {})
        self._snapshot = snapshot
        if snapshot is not None:
            from odradek.tools.snapshot import describe

            description = describe(os.fspath(snapshot))
            self._settings = {**description.settings, **self._settings}
            saved = len(description.broker_ids)
            if brokers not in (None, saved) or list(description.broker_ids) != list(range(saved)):
                ids = ", ".join(map(str, description.broker_ids))
                raise ValueError(f"not a snapshot of {brokers or 'all'} brokers, but of {ids}")
            brokers = saved
        self._count = BROKERS if brokers is None else brokers
        assert self._count >= 1, "a cluster has a broker"
        self._as_release = as_release
        self._ready_timeout_s = ready_timeout_s
        self._security = security

    def client_security(self) -> ClientSecurity | None:
        """That of the brokers' admin, where clients log in."""
        return None if self._security is None else self._security.connection()

    @property
    def bootstrap_servers(self) -> str:
        """host:port of each broker; the cluster is running."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def controls(self) -> Sequence[ControlClient]:
        """The control channels of the running brokers, by broker id."""
        return tuple(broker.control for broker in self.brokers if broker.is_running)

    def cut(self, broker: int, other: int, *, one_way: bool = False) -> None:
        """Cut the link between two brokers: what they send arrives after `heal`.

        one_way  only what the first sends to the other
        raises   ControlFailed
        """
        self._set_link(broker, other, one_way, cut=True)

    def slow_link(self, broker: int, other: int, *, ms: int, one_way: bool = False) -> None:
        """Have what two brokers send to each other arrive so much later.

        one_way  only what the first sends to the other
        raises   ControlFailed
        """
        self._set_link(broker, other, one_way, delay_ms=ms)

    def heal_link(self, broker: int, other: int) -> None:
        """Connect two brokers again.

        raises  ControlFailed
        """
        self._set_link(broker, other, False)

    def _set_link(self, broker: int, other: int, one_way: bool, **fields: Any) -> None:
        # Each end delays or holds what its own connections send and receive.
        self.note_fault()
        both = not one_way
        self.brokers[broker].control.post("/link", peer=other, sends=True, receives=both, **fields)
        self.brokers[other].control.post("/link", peer=broker, sends=both, receives=True, **fields)

    def cut_coordination(self, broker: int) -> None:
        """Cut a broker off from the coordination: its session expires, unless it is healed before.

        raises  ControlFailed; broker 0 serves the coordination itself
        """
        self._set_coordination(broker, cut=True)

    def slow_coordination(self, broker: int, *, ms: int) -> None:
        """Have what a broker and the coordination send to each other arrive so much later.

        raises  ControlFailed; broker 0 serves the coordination itself
        """
        self._set_coordination(broker, delay_ms=ms)

    def heal_coordination(self, broker: int) -> None:
        """Connect a broker with the coordination again.

        raises  ControlFailed
        """
        self._set_coordination(broker)

    def _set_coordination(self, broker: int, **fields: Any) -> None:
        self.note_fault()
        self.brokers[broker].control.post("/link", peer="coordination", **fields)

    def control_of(self, broker: int) -> ControlClient:
        """The control channel of one broker."""
        return self.brokers[broker].control

    def start(self) -> Self:
        """Start the brokers, and wait until each knows the others.

        raises  BrokerFailed; NotReached
        """
        tree, first = self._start_first()
        others = {"zookeeper.connect": tree}
        self.brokers = (first, *(self._broker(number, others) for number in range(1, self._count)))
        try:
            for broker in self.brokers[1:]:
                broker.launch()
            for broker in self.brokers[1:]:
                broker.wait_until_ready()
            self._wait_until_known()
            if self._snapshot is not None:
                self._restore_leaders()
        except BaseException:
            self.close()
            raise
        return self

    def _start_first(self) -> tuple[str, Broker]:
        for attempt in range(1, ATTEMPTS + 1):
            tree = f"{HOST}:{_free_port()}"
            try:
                serving = {"odradek.embedded.zookeeper.listener": tree}
                return tree, self._broker(0, serving).start()
            except BrokerFailed as failure:
                if attempt == ATTEMPTS or PORT_TAKEN not in str(failure):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _broker(self, number: int, coordination: Mapping[str, str]) -> Broker:
        replicas = str(min(REPLICAS_MAX, self._count))
        settings = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "zookeeper.session.timeout.ms": "6000",
            **self._settings,
            "broker.id": str(number),
            **coordination,
        }
        return _Member(
            self,
            settings,
            as_release=self._as_release,
            snapshot=self._snapshot,
            ready_timeout_s=self._ready_timeout_s,
            security=self._security,
        )

    def _wait_until_known(self) -> None:
        from odradek.tools.cluster.supervised import brokers_know_each_other

        addresses = [broker.bootstrap_servers for broker in self.brokers]
        security = self.client_security()
        wait_for(
            lambda: brokers_know_each_other(addresses, security),
            "every broker knows all brokers and a controller",
            timeout_s=self._ready_timeout_s,
        )

    def _restore_leaders(self) -> None:
        """The brokers did not start at once: wait for their replicas, and have the first ones lead.

        raises  NotReached; ClientError; KafkaError
        """
        from odradek.testing.leading import are_in_sync, are_led_by_preferred, elect_preferred

        def wait(state: Callable[[Client], bool], what: str) -> None:
            wait_for(lambda: self.with_client(state), what, timeout_s=self._ready_timeout_s)

        wait(are_in_sync, "all replicas of the snapshot are in sync")
        self.with_client(elect_preferred)
        wait(are_led_by_preferred, "the first replica of each partition leads it")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Stop all brokers and write their state into one file, for `Cluster(snapshot=path)`.

        What clients have written is first replicated to every replica that is in sync.  Brokers
        that were stopped or killed are saved as they are.  Afterwards the cluster is closed; after
        a failure the brokers have their data still.
        raises  BrokerFailed; NotReached when the brokers get records all the time; OSError
        """
        check_snapshot_target(path)
        for broker in self.brokers:
            broker.check_has_data()
        wait_for(self._is_replicated, "replicas that are in sync have all records")
        for broker in reversed(self.brokers):
            broker.stop_to_save()
        save(self.brokers, path, self._settings, self._snapshot)
        self.close()

    def _is_replicated(self) -> bool:
        """Whether all replicas that are in sync end at the same offset."""
        ends: dict[tuple[str, int], set[int]] = {}
        for control in self.controls:
            broker = control.get("/broker")["broker_id"]
            for topic in control.get("/topics")["topics"]:
                for row in topic["partitions"]:
                    if broker in row["in_sync"] and "end_offset" in row:
                        key = topic["topic"], row["partition"]
                        ends.setdefault(key, set()).add(row["end_offset"])
        return all(len(offsets) == 1 for offsets in ends.values())

    def close(self) -> None:
        """Stop the brokers; that of the coordination last."""
        super().close()
        for broker in reversed(self.brokers):
            broker.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            for number, broker in enumerate(self.brokers):
                broker.keep_log()
                error.add_note(f"log of broker {number}, kept in {broker.log_path}:")
                error.add_note(broker.log())
        self.close()


class _Member(Broker):
    """A broker whose further starts continue with what the rest of its cluster has."""

    def __init__(self, cluster: Cluster, settings: Mapping[str, str], **options: Any) -> None:
        """options  of `Broker`"""
        super().__init__(settings, **options)
        self._cluster = cluster

    def _before_restart(self) -> None:
        """Expire the session that a killed broker has left, so that it can register at once."""
        for control in self._cluster.controls[:1]:
            control.post("/coordination/expire")

    def _ahead_ms_of_restart(self) -> int:
        """That of the running brokers; they were advanced while this one was not there."""
        others = (
            broker for broker in self._cluster.brokers if broker is not self and broker.is_running
        )
        return max((other.clock.ahead_ms() for other in others), default=0)


def _free_port() -> int:
    with ExitStack() as stack:
        probe = stack.enter_context(socket.socket())
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
