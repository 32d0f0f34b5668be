"""One broker of ours and one of Apache Kafka on one ZooKeeper, both of which a test may kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import ZERO_UUID
from tests.support.apache import ApacheBroker, apache_kafka
from tests.support.broker_process import BrokerProcess
from tests.support.processes import free_port
from tests.support.wire import Closed, Wire
from tests.support.zookeeper import zookeeper

APACHE: Final = 0
OURS: Final = 1
PATIENCE_S: Final = 90.0
POLL_S: Final = 0.05
SETTINGS: Final[Mapping[str, str]] = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.fetch.backoff.ms": "200",
    "replica.lag.time.max.ms": "10000",
    "min.insync.replicas": "1",
    "controlled.shutdown.enable": "false",
}


class MixedCluster:
    """Broker 0 is Apache's, broker 1 ours."""

    def __init__(self, folder: Path, zookeeper_connect: str) -> None:
        self._folder = folder
        self._connect = zookeeper_connect
        self._port = free_port()
        self.ours = BrokerProcess(
            folder / "ours",
            overrides={**SETTINGS, "broker.id": str(OURS), "zookeeper.connect": zookeeper_connect},
        )
        self._apache = ExitStack()
        self.apache: ApacheBroker | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port},{self.ours.address}"

    def start(self, broker_id: int) -> None:
        if broker_id == OURS:
            self.ours.start()
        else:
            self.apache = self._apache.enter_context(
                apache_kafka(
                    self._folder / "apache",
                    zookeeper_address=self._connect,
                    port=self._port,
                    overrides=SETTINGS,
                )
            )

    def stop(self, broker_id: int) -> None:
        """SIGTERM: the logs are closed."""
        if broker_id == OURS:
            assert self.ours.stop() == 0
            return
        self.apache = None
        stack, self._apache = self._apache, ExitStack()
        stack.close()

    def kill(self, broker_id: int) -> None:
        """SIGKILL."""
        if broker_id == OURS:
            self.ours.kill()
            return
        assert self.apache is not None
        self.apache.process.kill()
        self.apache = None
        # The end of the context stops a process that runs no more.
        stack, self._apache = self._apache, ExitStack()
        with suppress(Exception):
            stack.close()

    def close(self) -> None:
        self.ours.close()
        if self.apache is not None:
            self.kill(APACHE)

    def address(self, broker_id: int) -> str:
        return self.ours.address if broker_id == OURS else f"127.0.0.1:{self._port}"

    def folder_of(self, broker_id: int, topic: str, partition: int) -> Path:
        """Of a replica's log."""
        name = "ours" if broker_id == OURS else "apache"
        return self._folder / name / "data" / f"{topic}-{partition}"

    def metadata(self, of: int, *topics: str) -> Any:
        names = [MetadataRequestTopic(name=name, topic_id=ZERO_UUID) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        with Wire(self.address(of)) as wire:
            return wire.call(request, 12)

    def wait(self, state: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(OSError, Closed, ValueError):
                if state():
                    return
            assert time.monotonic() < deadline, what
            time.sleep(POLL_S)

    def wait_for(self, topic: str, leaders: Mapping[int, int], *, isr: int, of: int) -> None:
        """Until broker `of` knows these leaders, and so many in-sync replicas."""

        def is_so() -> bool:
            (found,) = self.metadata(of, topic).topics
            return {one.partition_index: one.leader_id for one in found.partitions} == dict(
                leaders
            ) and all(len(one.isr_nodes) == isr for one in found.partitions)

        self.wait(is_so, f"{topic} has leaders {dict(leaders)} and {isr} in sync at broker {of}")

    def create_topic(
        self,
        topic: str,
        configs: Mapping[str, str],
        assignment: Mapping[int, list[int]] | None = None,
    ) -> None:
        """Partition 0 is led by Apache's broker, partition 1 by ours, unless `assignment` says
        otherwise."""
        replicas = assignment or {0: [APACHE, OURS], 1: [OURS, APACHE]}
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                        for index, brokers in replicas.items()
                    ],
                    configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
                )
            ],
            timeout_ms=30_000,
        )
        self.wait(lambda: len(self.metadata(OURS).brokers) == 2, "both brokers are known")
        controller = self.metadata(OURS).controller_id
        with Wire(self.address(controller)) as wire:
            (made,) = wire.call(request, 7).topics
        assert made.error_code == 0, made
        for broker_id in (APACHE, OURS):
            leaders = {index: brokers[0] for index, brokers in replicas.items()}
            self.wait_for(topic, leaders, isr=2, of=broker_id)

    def assert_identical(self, topic: str) -> None:
        """Wait until both replicas of each partition have the same batches."""

        def batches(broker_id: int, partition: int) -> bytes:
            folder = self.folder_of(broker_id, topic, partition)
            return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))

        def is_equal(partition: int) -> bool:
            return batches(APACHE, partition) == batches(OURS, partition) != b""

        (found,) = self.metadata(OURS, topic).topics
        for one in found.partitions:
            index = one.partition_index
            self.wait(partial(is_equal, index), f"the replicas of {topic}-{index} are equal")


@contextmanager
def mixed_cluster(
    folder: Path, on_apache: Callable[[MixedCluster], None] | None = None
) -> Iterator[MixedCluster]:
    """Both brokers; Apache's is the controller at first.

    on_apache  called while Apache's broker is alone
    """
    with zookeeper(folder / "zookeeper") as coordinator:
        cluster = MixedCluster(folder, f"{coordinator}/kafka")
        try:
            cluster.start(APACHE)
            if on_apache is not None:
                on_apache(cluster)
            cluster.start(OURS)
            yield cluster
        finally:
            cluster.close()
