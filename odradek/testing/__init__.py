"""Brokers for tests of programs that use Kafka.

    with odradek.testing.Broker() as broker:
        use(broker.bootstrap_servers)

A broker is a process of its own: importing this package, and starting a broker, loads nothing of
the broker into the process of the tests.  `create_topic`, `records`, `lag` and the like load a
small client.
"""

from typing import TYPE_CHECKING, Any

from odradek.testing.broker import Broker, BrokerFailed
from odradek.testing.case import KafkaTestCase
from odradek.testing.cluster import Cluster
from odradek.testing.connected import ConnectedBroker
from odradek.testing.control import ControlClient, ControlFailed
from odradek.testing.faults import Disk, Fault
from odradek.testing.handle import KafkaHandle
from odradek.testing.namespace import KafkaNamespace
from odradek.testing.waiting import NotReached, wait_for

if TYPE_CHECKING:
    from odradek.testing.reading import StoredRecord, UnknownTopic

__all__ = [
    "Broker",
    "BrokerFailed",
    "Cluster",
    "ConnectedBroker",
    "ControlClient",
    "ControlFailed",
    "Disk",
    "Fault",
    "KafkaHandle",
    "KafkaNamespace",
    "KafkaTestCase",
    "NotReached",
    "StoredRecord",
    "UnknownTopic",
    "wait_for",
]


def __getattr__(name: str) -> Any:
    """What comes with the small client is imported at its first use."""
    if name not in ("StoredRecord", "UnknownTopic"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from odradek.testing import reading

    return getattr(reading, name)
