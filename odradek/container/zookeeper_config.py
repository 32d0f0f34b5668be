"""A ZooKeeper's settings, as those of a node that serves the coordination and no clients.

    clientPort         the port; clientPortAddress the address, every interface by default
    dataDir            the folder of the tree
    server.1=...       refused: there is one server
    all others         no effect

Environments are those of Confluent's image (`ZOOKEEPER_CLIENT_PORT`) and of Bitnami's
(`ALLOW_ANONYMOUS_LOGIN`).
Source: confluentinc/kafka-images (zookeeper), bitnami/containers (zookeeper).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.container.names import PREFIX, EnvironmentRefused

CONFLUENT_PORT: Final = "ZOOKEEPER_CLIENT_PORT"
BITNAMI_MARK: Final = "ALLOW_ANONYMOUS_LOGIN"
BITNAMI_PORT: Final = "ZOO_PORT_NUMBER"
SERVERS: Final = ("ZOOKEEPER_SERVERS", "ZOO_SERVERS")
CONFLUENT_DATA: Final = "/var/lib/zookeeper/data"
BITNAMI_DATA: Final = "/bitnami/zookeeper/data"
ONE_SERVER: Final = "there is one server; an ensemble is run with Apache ZooKeeper"


def zookeeper_properties(environment: Mapping[str, str]) -> dict[str, str] | None:
    """What a container serves that is started as a ZooKeeper; None for a broker.

    raises  EnvironmentRefused
    """
    is_bitnami = BITNAMI_MARK in environment
    is_broker = any(name.startswith(PREFIX) for name in environment)
    if is_broker or not (is_bitnami or CONFLUENT_PORT in environment):
        return None
    for variable in SERVERS:
        if len(environment.get(variable, "").replace(",", ";").split(";")) > 1:
            raise EnvironmentRefused(variable, "server.1, server.2", ONE_SERVER)
    port = environment.get(BITNAMI_PORT if is_bitnami else CONFLUENT_PORT) or "2181"
    return {"clientPort": port, "dataDir": BITNAMI_DATA if is_bitnami else CONFLUENT_DATA}


def coordination_settings(properties: Mapping[str, str], source: str) -> dict[str, str]:
    """The settings of the node.

    source  the file of the properties, for errors
    raises  EnvironmentRefused
    """
    servers = [name for name in properties if name.startswith("server.")]
    if len(servers) > 1:
        raise EnvironmentRefused(source, ", ".join(sorted(servers)), ONE_SERVER)
    port = properties.get("clientPort", "").strip()
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65_536):
        raise EnvironmentRefused(source, "clientPort", f"expected a port, not {port[:100]!r}")
    folder = properties.get("dataDir", "").strip()
    if not folder:
        raise EnvironmentRefused(source, "dataDir", "expected a folder")
    return {
        "process.roles": "controller",
        "node.id": "0",
        "controller.quorum.voters": f"0@localhost:{port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{properties.get('clientPortAddress', '')}:{port}",
        "log.dirs": folder,
    }
