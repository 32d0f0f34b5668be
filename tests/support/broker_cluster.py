"""Several brokers on one coordination service: processes that a test kills and restarts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import ZERO_UUID
from tests.support.apache_process import ApacheProcess
from tests.support.broker_process import BrokerProcess
from tests.support.machines import HERE, Machine
from tests.support.ports import free_port
from tests.support.processes import pause_process
from tests.support.wire import Closed, Wire

WAIT_S = 90.0
POLL_S = 0.05
TREE_BROKER = 1
METADATA_VERSION = 12
CREATE_TOPICS_VERSION = 7
FIND_COORDINATOR_VERSION = 3

SMALL_CLUSTER: Mapping[str, str] = {
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "6000",
    "controlled.shutdown.retry.backoff.ms": "500",
}


class ClusterSilent(AssertionError):
    """The cluster did not get into a state in time; the text says which state it is in."""


class BrokerCluster:
    """Brokers 1 to `count` in folders of their own below `folder`.

    zookeeper_connect  None: broker `TREE_BROKER` serves its embedded tree to the others
    """

    def __init__(
        self,
        folder: Path,
        *,
        zookeeper_connect: str | None,
        count: int = 3,
        overrides: Mapping[str, str] | None = None,
        of_broker: Mapping[int, Mapping[str, str]] | None = None,
        apache: Collection[int] = (),
        machines: Mapping[int, Machine] | None = None,
    ) -> None:
        """
        overrides  settings of all brokers
        of_broker  settings of single brokers, by id
        apache     the ids of brokers that are Apache Kafka's
        machines   where brokers run, by id; here if nothing is said
        """
        self.brokers: dict[int, BrokerProcess] = {}
        tree = f"127.0.0.1:{free_port()}"
        for broker_id in range(1, count + 1):
            coordination = {"zookeeper.connect": zookeeper_connect or tree}
            if zookeeper_connect is None and broker_id == TREE_BROKER:
                coordination = {"odradek.embedded.zookeeper.listener": tree}
            settings = {
                **SMALL_CLUSTER,
                **(overrides or {}),
                **coordination,
                **(of_broker or {}).get(broker_id, {}),
                "broker.id": str(broker_id),
            }
            kind = ApacheProcess if broker_id in apache else BrokerProcess
            self.brokers[broker_id] = kind(
                folder / f"broker-{broker_id}",
                overrides=settings,
                machine=(machines or {}).get(broker_id, HERE),
            )
        self.running: list[int] = []
        # A process ends with the thread that has started it (`die_with_parent`).
        self._threads = ThreadPoolExecutor(count)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.address for broker in self.brokers.values())

    def start_all(self) -> None:
        """Start the brokers that do not run, all at once."""
        waiting = [broker_id for broker_id in self.brokers if broker_id not in self.running]
        list(self._threads.map(lambda broker_id: self.brokers[broker_id].start(), waiting))
        self.running = sorted(self.brokers)

    def start(self, broker_id: int) -> None:
        self.brokers[broker_id].start()
        self.running = sorted({*self.running, broker_id})

    def stop(self, broker_id: int) -> None:
        """SIGTERM: a controlled shutdown."""
        self.running.remove(broker_id)
        broker = self.brokers[broker_id]
        assert broker.stop() == broker.STOPPED, broker.folder

    def replace(self, broker_id: int, kind: type[BrokerProcess]) -> None:
        """Stop a broker; one of another kind goes on with its id, directory and address."""
        self.stop(broker_id)
        self.brokers[broker_id] = self.brokers[broker_id].successor(kind)
        self.start(broker_id)

    def kill(self, broker_id: int) -> None:
        """SIGKILL."""
        self.running.remove(broker_id)
        self.brokers[broker_id].kill()

    def pause(self, broker_id: int) -> None:
        """The process keeps its sockets and says nothing."""
        pause_process(self.brokers[broker_id].process.pid)

    def resume(self, broker_id: int) -> None:
        os.kill(self.brokers[broker_id].process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End all processes, whatever their state."""
        for broker_id, broker in self.brokers.items():
            if broker_id in self.running:
                with suppress(ProcessLookupError, AssertionError):
                    self.resume(broker_id)
            broker.close()
        self._threads.shutdown()

    # What the brokers say.

    def metadata(self, *topics: str, of: int | None = None) -> Any:
        """The Metadata response of one running broker, or of the first that responds.

        raises  ClusterSilent when none does
        """
        names = [MetadataRequestTopic(name=name, topic_id=ZERO_UUID) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        for broker_id in self.running if of is None else [of]:
            with suppress(OSError, Closed), Wire(self.brokers[broker_id].address) as wire:
                return wire.call(request, METADATA_VERSION)
        raise ClusterSilent(f"no response of {self.running if of is None else of}")

    def topics(self, *, of: int) -> list[str]:
        """All that a broker knows."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        with Wire(self.brokers[of].address) as wire:
            return [topic.name for topic in wire.call(request, METADATA_VERSION).topics]

    def partitions(self, topic: str, *, of: int | None = None) -> dict[int, Any]:
        """The partitions of a topic in a Metadata response, by number."""
        (metadata,) = self.metadata(topic, of=of).topics
        return {partition.partition_index: partition for partition in metadata.partitions}

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader as the first running broker knows it; -1 when there is none."""
        state = self.partitions(topic).get(partition)
        return -1 if state is None else int(state.leader_id)

    def controller(self) -> int:
        return int(self.metadata().controller_id)

    def coordinator(self, group: str) -> int:
        """The coordinator of a group; -1 while there is none.

        raises  ClusterSilent when no running broker responds
        """
        request = FindCoordinatorRequest(key=group, key_type=0)
        for broker_id in self.running:
            with suppress(OSError, Closed), Wire(self.brokers[broker_id].address) as wire:
                return int(wire.call(request, FIND_COORDINATOR_VERSION).node_id)
        raise ClusterSilent(f"no response of {self.running}")

    # Waiting.

    def wait(self, state: Callable[[], bool], what: str, *, timeout_s: float = WAIT_S) -> None:
        """Until a state is reached; an exception of a broker that is away counts as not yet."""
        deadline = monotonic() + timeout_s
        while True:
            last: Exception | None = None
            try:
                if state():
                    return
            except (OSError, Closed, ClusterSilent, ValueError) as error:
                last = error
            if monotonic() > deadline:
                raise ClusterSilent(f"not {what} in {timeout_s} s ({last!r})\n{self._logs()}")
            sleep(POLL_S)

    def wait_until_complete(
        self, topic: str, *, isr: int | None = None, timeout_s: float = WAIT_S
    ) -> None:
        """Until every running broker knows a leader, and `isr` replicas in sync (default: all),
        of each partition."""

        def is_complete() -> bool:
            for broker_id in self.running:
                partitions = self.partitions(topic, of=broker_id).values()
                if not partitions:
                    return False
                for partition in partitions:
                    if partition.leader_id not in self.running:
                        return False
                    if len(partition.isr_nodes) != (
                        len(partition.replica_nodes) if isr is None else isr
                    ):
                        return False
            return True

        self.wait(is_complete, f"every partition of {topic} led and in sync", timeout_s=timeout_s)

    def wait_for_leaders(
        self, topic: str, leaders: Mapping[int, int], *, isr: int, of: int | None = None
    ) -> None:
        """Until broker `of` knows these leaders, by partition, and so many replicas in sync."""

        def is_so() -> bool:
            states = self.partitions(topic, of=of)
            leader_ids = {index: state.leader_id for index, state in states.items()}
            return leader_ids == dict(leaders) and all(
                len(state.isr_nodes) == isr for state in states.values()
            )

        self.wait(is_so, f"leaders {dict(leaders)} of {topic} and {isr} replicas in sync")

    def wait_for_brokers(self, *, timeout_s: float = WAIT_S) -> None:
        """Until every running broker knows exactly the running ones, and the same controller."""

        def is_known() -> bool:
            responses = [self.metadata(of=broker_id) for broker_id in self.running]
            broker_ids = {
                tuple(sorted(broker.node_id for broker in response.brokers))
                for response in responses
            }
            controllers = {response.controller_id for response in responses}
            return (
                broker_ids == {tuple(self.running)}
                and controllers <= set(self.running)
                and (len(controllers) == 1)
            )

        self.wait(is_known, "all brokers known", timeout_s=timeout_s)

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int = 3,
        configs: Mapping[str, str] | None = None,
        assignment: Mapping[int, list[int]] | None = None,
    ) -> None:
        """Create a topic at the controller, and wait until all of it is led and in sync."""
        self.wait(
            lambda: self._create(topic, partitions, replication_factor, configs, assignment),
            f"{topic} created",
        )
        self.wait_until_complete(topic)

    def _create(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str] | None,
        assignment: Mapping[int, list[int]] | None,
    ) -> bool:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=-1 if assignment else partitions,
                    replication_factor=-1 if assignment else replication_factor,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                        for index, replicas in (assignment or {}).items()
                    ],
                    configs=[
                        CreatableTopicConfig(name=name, value=value)
                        for name, value in (configs or {}).items()
                    ],
                )
            ],
            timeout_ms=30_000,
            validate_only=False,
        )
        controller = self.controller()
        if controller not in self.running:
            return False
        with Wire(self.brokers[controller].address) as wire:
            (result,) = wire.call(request, CREATE_TOPICS_VERSION).topics
        if result.error_code == ErrorCode.NOT_CONTROLLER:
            return False
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            # Created by an attempt whose response was lost; or it is still being deleted.
            return bool(self.partitions(topic, of=controller))
        assert result.error_code == ErrorCode.NONE, result
        return True

    def _logs(self) -> str:
        return "\n".join(
            f"--- broker {broker_id}:\n{broker.process.tail()}"
            for broker_id, broker in self.brokers.items()
            if broker_id in self.running
        )


@contextmanager
def broker_cluster(
    folder: Path,
    *,
    zookeeper_connect: str | None,
    count: int = 3,
    overrides: Mapping[str, str] | None = None,
    of_broker: Mapping[int, Mapping[str, str]] | None = None,
    apache: Collection[int] = (),
    machines: Mapping[int, Machine] | None = None,
    controller: int | None = None,
    prepare: Callable[[BrokerCluster], None] = lambda cluster: None,
) -> Iterator[BrokerCluster]:
    """Running brokers that know each other; the arguments are those of `BrokerCluster`.

    controller  the broker that is started before the others; None: all are started at once
    prepare     called before any broker is started
    """
    cluster = BrokerCluster(
        folder,
        zookeeper_connect=zookeeper_connect,
        count=count,
        overrides=overrides,
        of_broker=of_broker,
        apache=apache,
        machines=machines,
    )
    try:
        prepare(cluster)
        if controller is not None:
            cluster.start(controller)
        cluster.start_all()
        cluster.wait_for_brokers()
        yield cluster
    finally:
        cluster.close()
