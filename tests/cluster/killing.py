"""Kills each part of a cluster in turn while all client libraries write and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from tests.clients.group_member import NEW_PROTOCOL
from tests.clients.libraries import GROUP_LIBRARIES
from tests.clients.libraries import NAMES as LIBRARIES
from tests.cluster.library_groups import LibraryGroups, end_offsets, read_values
from tests.cluster.library_producers import LibraryProducers, library_producers
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import TREE_BROKER, BrokerCluster
from tests.support.zookeeper import ZooKeeperServer

TOPIC = "records"
PARTITIONS = 3
OFFSETS_TOPIC = "__consumer_offsets"
GROUPS: Mapping[str, tuple[str, str]] = {
    **{library: (library, "range") for library in GROUP_LIBRARIES},
    "java-4.3.0-consumer": ("java-4.3.0", NEW_PROTOCOL),
    "confluent-kafka-consumer": ("confluent-kafka", NEW_PROTOCOL),
}
VICTIMS = ("leader", "follower", "controller", "coordinator", "zookeeper")


class Scene:
    """A cluster, its coordination service, and the clients.

    servers  of the ZooKeeper ensemble; none when `TREE_BROKER` serves the tree
    """

    def __init__(
        self,
        cluster: BrokerCluster,
        servers: Sequence[ZooKeeperServer],
        producers: LibraryProducers,
        groups: LibraryGroups,
    ) -> None:
        self.cluster = cluster
        self.producers = producers
        self.groups = groups
        self._servers = list(servers)
        self.steps: list[str] = []
        """What was killed, and after how many seconds every client worked again."""

    def kill(self, victim: str) -> None:
        """Kill a part, wait until each client works, start it again, wait until it is in sync."""
        if victim == "zookeeper" and self._servers:
            server = self._servers[0]
            self._servers.append(self._servers.pop(0))
            self._kill(f"zookeeper {server.port}", server.kill, server.start)
            return
        broker = self._broker(victim)
        self._kill(
            f"{victim}: broker {broker}",
            lambda: self.cluster.kill(broker),
            lambda: self.cluster.start(broker),
            # Without its tree there is no other leader.
            starts_at_once=broker == TREE_BROKER and not self._servers,
        )

    def _broker(self, victim: str) -> int:
        """The broker that has a part now."""
        cluster = self.cluster
        leader = cluster.leader(TOPIC)
        match victim:
            case "leader":
                return leader
            case "follower":
                return next(
                    broker_id for broker_id in reversed(cluster.running) if broker_id != leader
                )
            case "controller":
                return cluster.controller()
            case "zookeeper":
                return TREE_BROKER
            case _:
                return cluster.coordinator(self.groups.readings[0].group)

    def _kill(
        self,
        name: str,
        kill: Callable[[], None],
        start: Callable[[], None],
        *,
        starts_at_once: bool = False,
    ) -> None:
        began = monotonic()
        kill()
        if starts_at_once:
            start()
        last_producer = self.producers.wait_for_success()
        produced_s = monotonic() - began
        last_group = self.groups.wait_for_records()
        self.steps.append(
            f"{name}: produced after {produced_s:.1f} s (last {last_producer}), "
            f"read after {monotonic() - began:.1f} s (last {last_group})"
        )
        if not starts_at_once:
            start()
        self.cluster.wait_until_complete(TOPIC)
        self.cluster.wait_until_complete(OFFSETS_TOPIC)

    def check(self) -> None:
        """Nothing acknowledged is lost, doubled or out of order; each group has read everything;
        the replicas are equal."""
        began = monotonic()
        self.producers.end()
        bootstrap = self.cluster.bootstrap
        ends = end_offsets(bootstrap, TOPIC, PARTITIONS)
        self.producers.check(read_values(bootstrap, TOPIC, ends))
        counts = dict(enumerate(ends))
        checked_s = monotonic() - began
        self.groups.wait_until_all_read(counts)
        self.groups.wait_until_committed(counts)
        rejoined = {
            reading.name: reading.rejoined for reading in self.groups.readings if reading.rejoined
        }
        self.steps.append(
            f"end: slowest exit {self.producers.slowest_close}, "
            f"records checked after {checked_s:.1f} s, committed after "
            f"{monotonic() - began:.1f} s; joined again: {rejoined}"
        )
        self.groups.end()
        setbacks = {
            reading.name: reading.setbacks for reading in self.groups.readings if reading.setbacks
        }
        assert not setbacks, f"committed offsets were lost: {setbacks}"
        assert_identical(self.cluster, TOPIC)
        assert_identical(self.cluster, OFFSETS_TOPIC)


@contextmanager
def scene(
    cluster: BrokerCluster, folder: Path, *, servers: Sequence[ZooKeeperServer] = ()
) -> Iterator[Scene]:
    """All libraries write to the topic, and each reads it in a group."""
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    cluster.wait(lambda: cluster.coordinator("any") > 0, "a group coordinator")
    cluster.wait_until_complete(OFFSETS_TOPIC)
    groups = LibraryGroups(GROUPS, cluster.bootstrap, TOPIC, PARTITIONS, folder)
    try:
        with library_producers(
            LIBRARIES, cluster.bootstrap, TOPIC, PARTITIONS, folder
        ) as producers:
            opened_scene = Scene(cluster, servers, producers, groups)
            producers.wait_for_success()
            groups.wait_for_records()
            yield opened_scene
    finally:
        with suppress(OSError):
            groups.close()
