"""Look up the addresses of brokers in their ZooKeeper.

Source: Kafka's BrokerIdZNode; the `--zookeeper` of its tools before 3.0.
"""

from __future__ import annotations

import logging
from typing import Final

from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.znodes.broker_znode import decode_broker
from odradek.tools.client import ClientError

BROKERS_PATH: Final = "/brokers/ids"
CONNECT_TIMEOUT_S: Final = 15.0
PLAINTEXT: Final = "PLAINTEXT"


def bootstrap_of(connect: str) -> str:
    """The PLAINTEXT addresses of all registered brokers, in the form of `--bootstrap-server`.

    connect  `host:port,host:port/chroot`
    raises   ClientError when ZooKeeper cannot be reached or has no such address
    """
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError

    # kazoo's own chroot would warn on stderr when the znode is missing.
    hosts, _, chroot = connect.rstrip("/").partition("/")
    path = f"/{chroot}{BROKERS_PATH}" if chroot else BROKERS_PATH
    quiet = logging.Logger("odradek.tools.topics.command.zookeeper", logging.CRITICAL + 1)
    try:
        session = KazooClient(hosts=hosts, read_only=True, logger=quiet)
    except ValueError as error:
        raise ClientError(f"'{connect}' is not an address of ZooKeeper: {error}") from error
    try:
        session.start(CONNECT_TIMEOUT_S)
        ids = sorted(int(name) for name in session.get_children(path))
        brokers = [
            decode_broker(broker_id, 0, session.get(f"{path}/{broker_id}")[0]) for broker_id in ids
        ]
    except KazooTimeoutError as error:
        raise ClientError(
            f"ZooKeeper at {connect} cannot be reached in {CONNECT_TIMEOUT_S:.0f} s"
        ) from error
    except NoNodeError as error:
        raise ClientError(f"ZooKeeper at {hosts} has no brokers: {path} is missing") from error
    except (KazooException, CoordinationError, ValueError) as error:
        raise ClientError(
            f"ZooKeeper at {connect} has no readable broker addresses: {error!r}"
        ) from error
    finally:
        session.stop()
        session.close()
    addresses = [
        f"[{endpoint.host}]:{endpoint.port}"
        if ":" in endpoint.host
        else f"{endpoint.host}:{endpoint.port}"
        for broker in brokers
        for endpoint in broker.endpoints
        if endpoint.security_protocol == PLAINTEXT
    ]
    if not addresses:
        raise ClientError(f"ZooKeeper at {connect} has no broker that listens on {PLAINTEXT}")
    return ",".join(addresses)
