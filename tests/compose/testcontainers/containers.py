"""Starts a broker in a network, and stops it at the end of the input."""

from __future__ import annotations

import sys
from time import monotonic

from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.network import Network


def main(name: str) -> None:
    """Start the broker with ZooKeeper or with KRaft."""
    with Network() as network:
        container = KafkaContainer("odradek:7.9.0")
        container.with_network(network).with_network_aliases("kafka")
        if name == "kraft":
            container.with_kraft()
        began = monotonic()
        with container:
            ready_ms = round((monotonic() - began) * 1000)
            print(container.get_bootstrap_server(), network.name, ready_ms, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
