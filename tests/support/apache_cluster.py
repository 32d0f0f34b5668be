"""Three Apache Kafka brokers on one ZooKeeper: the judge of what needs more than one broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.apache import ApacheBroker, apache_kafka
from tests.support.ports import free_port
from tests.support.zookeeper import zookeeper

BROKER_IDS: Final = (1, 2, 3)
OVERRIDES: Final[Mapping[str, str]] = {
    "auto.leader.rebalance.enable": "false",
    "replica.fetch.wait.max.ms": "50",
    "zookeeper.session.timeout.ms": "30000",
}
"""Leaders move only when a test asks for it."""


@dataclass(frozen=True, slots=True)
class ApacheCluster:
    """Running brokers with the ids 1, 2 and 3, each in a rack of its own."""

    folder: Path

    zookeeper: str
    """`host:port/chroot`."""
    brokers: list[ApacheBroker]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.address for broker in self.brokers)


def log_directories(folder: Path, broker_id: int) -> list[Path]:
    """The two log directories of a broker of a cluster in `folder`."""
    return [folder / f"broker-{broker_id}" / name for name in ("data", "data-2")]


@contextmanager
def apache_cluster(
    folder: Path, *, overrides: Mapping[str, str] | None = None
) -> Iterator[ApacheCluster]:
    """Start ZooKeeper and the brokers, each with two log directories; stop all of them."""
    with ExitStack() as stack:
        coordinator = stack.enter_context(zookeeper(folder / "zookeeper")) + "/kafka"
        brokers = []
        for broker_id in BROKER_IDS:
            directories = log_directories(folder, broker_id)
            settings = {
                **OVERRIDES,
                "broker.id": str(broker_id),
                "broker.rack": f"rack-{broker_id}",
                "log.dirs": ",".join(map(str, directories)),
                **(overrides or {}),
            }
            brokers.append(
                stack.enter_context(
                    apache_kafka(
                        directories[0].parent,
                        zookeeper_address=coordinator,
                        port=free_port(),
                        overrides=settings,
                    )
                )
            )
        yield ApacheCluster(folder, coordinator, brokers)
