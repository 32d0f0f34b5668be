"""Brokers for tests of programs that use Kafka.

    with odradek.testing.Broker() as broker:
        use(broker.bootstrap_servers)

A broker is a process of its own: importing this package, and starting a broker, loads nothing of
the broker into the process of the tests.  `create_topic`, `records`, `lag` and the like load a
small client.
"""

from odradek.testing.broker import Broker, BrokerFailed
from odradek.testing.case import KafkaTestCase
from odradek.testing.cluster import Cluster
from odradek.testing.control import ControlClient, ControlFailed
from odradek.testing.faults import Disk, Fault
from odradek.testing.handle import KafkaHandle
from odradek.testing.waiting import NotReached, wait_for

__all__ = [
    "Broker",
    "BrokerFailed",
    "Cluster",
    "ControlClient",
    "ControlFailed",
    "Disk",
    "Fault",
    "KafkaHandle",
    "KafkaTestCase",
    "NotReached",
    "wait_for",
]
