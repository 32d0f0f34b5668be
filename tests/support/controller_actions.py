"""What is done to a controller of three brokers to see which znodes it writes.

Played on Apache Kafka once, to record, and on our controller in every test.  The controller is
broker 1; topics have one partition, so that the order of their writes is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

BROKERS: Final = (1, 2, 3)
ABSENT: Final = 9
"""The id of a broker that does not exist."""

Write = list[str]
"""Operation, path, data without the topic id."""


class Cluster(Protocol):
    """Three brokers, and a client of theirs."""

    def create(self, topic: str, replicas: Sequence[int]) -> None:
        """Create a topic of one partition."""

    def move(self, topic: str, target: Sequence[int] | None) -> None:
        """AlterPartitionReassignments; None cancels."""

    def elect(self, topic: str) -> None:
        """ElectLeaders, preferred."""

    def delete(self, topic: str) -> None:
        """DeleteTopics."""

    def write(self, path: str, content: Mapping[str, Any]) -> None:
        """Create a znode, as an old tool does."""

    def kill(self, broker_id: int) -> None:
        """A broker dies."""

    def shut_down(self, broker_id: int) -> None:
        """A broker stops in order."""

    def settle(self) -> None:
        """Wait until nothing is under way, and all live replicas are in sync."""


def add(cluster: Cluster) -> None:
    cluster.create("add", [1])
    cluster.settle()
    cluster.move("add", [1, 2])
    cluster.settle()
    cluster.move("add", [1, 2])


def move(cluster: Cluster) -> None:
    cluster.create("move", [1])
    cluster.settle()
    cluster.move("move", [2])


def shift(cluster: Cluster) -> None:
    cluster.create("shift", [1, 2])
    cluster.settle()
    cluster.move("shift", [2, 3])


def reorder(cluster: Cluster) -> None:
    cluster.create("reorder", [1, 2, 3])
    cluster.settle()
    cluster.move("reorder", [3, 2, 1])
    cluster.settle()
    cluster.elect("reorder")


def remove(cluster: Cluster) -> None:
    cluster.create("remove", [1, 2, 3])
    cluster.settle()
    cluster.move("remove", [1, 2])


def cancel(cluster: Cluster) -> None:
    cluster.create("cancel", [1, 2])
    cluster.settle()
    _request(cluster, cancel=[3, ABSENT, 1])
    cluster.settle()
    cluster.move("cancel", None)


def replace(cluster: Cluster) -> None:
    cluster.create("replace", [1, 2])
    cluster.settle()
    _request(cluster, replace=[1, ABSENT])
    cluster.settle()
    cluster.move("replace", [1, 3])


def by_znode(cluster: Cluster) -> None:
    cluster.create("by_znode", [1, 2])
    cluster.create("waiting", [1, 2])
    cluster.settle()
    _request(cluster, by_znode=[2, 3], nowhere=[1], waiting=[1, ABSENT])
    cluster.settle()
    cluster.move("waiting", None)


def elect_by_znode(cluster: Cluster) -> None:
    cluster.create("elect_by_znode", [2, 1])
    cluster.settle()
    cluster.move("elect_by_znode", [1, 2])
    cluster.settle()
    rows = [{"topic": topic, "partition": 0} for topic in ("elect_by_znode", "nowhere")]
    cluster.write("/admin/preferred_replica_election", {"version": 1, "partitions": rows})


def delete(cluster: Cluster) -> None:
    cluster.create("delete", [2])
    cluster.settle()
    cluster.delete("delete")


def death(cluster: Cluster) -> None:
    cluster.create("led", [3, 1, 2])
    cluster.create("followed", [1, 3])
    cluster.create("lost", [3])
    cluster.settle()
    cluster.kill(3)


def shutdown(cluster: Cluster) -> None:
    cluster.create("given_up", [2, 1])
    cluster.create("left", [1, 2])
    cluster.settle()
    cluster.shut_down(2)


SCENARIOS: Final[Sequence[Callable[[Cluster], None]]] = (
    add,
    move,
    shift,
    reorder,
    remove,
    cancel,
    replace,
    by_znode,
    elect_by_znode,
    delete,
    death,
    shutdown,
)


def _request(cluster: Cluster, **targets: list[int]) -> None:
    rows = [
        {"topic": topic, "partition": 0, "replicas": target} for topic, target in targets.items()
    ]
    cluster.write("/admin/reassign_partitions", {"version": 1, "partitions": rows})
