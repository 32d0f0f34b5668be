"""Brokers for tests of programs that use Kafka.

    with odradek.testing.Broker() as broker:
        use(broker.bootstrap_servers)

A broker is a process of its own: importing this package, and starting a broker, loads nothing of
the broker into the process of the tests.  `create_topic`, `records`, `lag` and the like load a
small client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from odradek.testing.broker import Broker, BrokerFailed
    from odradek.testing.case import KafkaTestCase
    from odradek.testing.cluster import Cluster
    from odradek.testing.connected import ConnectedBroker
    from odradek.testing.control import ControlClient, ControlFailed
    from odradek.testing.faults import Disk, Fault
    from odradek.testing.handle import KafkaHandle
    from odradek.testing.namespace import KafkaNamespace
    from odradek.testing.reading import StoredRecord, UnknownTopic
    from odradek.testing.security import Security
    from odradek.testing.waiting import NotReached, wait_for

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
    "Security",
    "StoredRecord",
    "UnknownTopic",
    "wait_for",
]
_MODULES: Final = {
    "Broker": "broker",
    "BrokerFailed": "broker",
    "Cluster": "cluster",
    "ConnectedBroker": "connected",
    "ControlClient": "control",
    "ControlFailed": "control",
    "Disk": "faults",
    "Fault": "faults",
    "KafkaHandle": "handle",
    "KafkaNamespace": "namespace",
    "KafkaTestCase": "case",
    "NotReached": "waiting",
    "Security": "security",
    "StoredRecord": "reading",
    "UnknownTopic": "reading",
    "wait_for": "waiting",
}


def __getattr__(name: str) -> Any:
    """Each name is imported at its first use.

    The process of a broker imports `odradek.testing.node`, and uses none of them.
    """
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"odradek.testing.{module}"), name)
    return value
