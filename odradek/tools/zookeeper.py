"""Read the znodes of a ZooKeeper, and look up the addresses of brokers in it.

Source: Kafka's BrokerIdZNode; the `--zookeeper` of its tools before 3.0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.znodes.broker_znode import decode_broker
from odradek.runtime.logging import error_text
from odradek.tools.client import ClientError

if TYPE_CHECKING:
    from kazoo.client import KazooClient

BROKERS_PATH: Final = "/brokers/ids"
CONNECT_TIMEOUT_S: Final = 15.0
PLAINTEXT: Final = "PLAINTEXT"


class MissingZnodeError(Exception):
    """A znode does not exist."""


class Znodes:
    """The znodes below the chroot of an address."""

    def __init__(self, session: KazooClient, chroot: str) -> None:
        self._session = session
        self._chroot = chroot

    def path(self, path: str) -> str:
        """The path with the chroot."""
        return (self._chroot + path if path != "/" else self._chroot) or "/"

    def data(self, path: str) -> tuple[bytes | None, Any]:
        """The data of a znode, None when it never had any, and its numbers."""
        data, stat = self._session.get(self.path(path))
        return data, stat

    def children(self, path: str) -> list[str]:
        """The sorted names of the children."""
        return sorted(self._session.get_children(self.path(path)))

    def find(self, path: str) -> tuple[bytes | None, list[str]] | None:
        """Data and children of a znode; None when it does not exist."""
        from kazoo.exceptions import NoNodeError

        try:
            return self.data(path)[0], self.children(path)
        except NoNodeError:
            return None


@contextmanager
def open_znodes(connect: str) -> Iterator[Znodes]:
    """Open a session that only reads.

    connect  `host:port,host:port/chroot`
    raises   ClientError when ZooKeeper cannot be reached or the session fails; MissingZnodeError
    """
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError

    from odradek.broker.settings.checks import check_zookeeper_connect
    from odradek.broker.settings.types import ALLOWED_MAX, InvalidValueError, shown_text

    # kazoo's own chroot would warn on stderr when the znode is missing.
    hosts, _, chroot = connect.rstrip("/").partition("/")
    quiet = logging.Logger("odradek.tools.zookeeper", logging.CRITICAL + 1)
    try:
        # A host that no resolver takes would end kazoo's thread with a traceback.
        check_zookeeper_connect(connect)
        session = KazooClient(hosts=hosts, read_only=True, logger=quiet)
    except ValueError as error:
        reason = error.allowed if isinstance(error, InvalidValueError) else str(error)
        text = f"'{shown_text(connect)}' is not an address of ZooKeeper: "
        raise ClientError(text + shown_text(reason, ALLOWED_MAX)) from error
    try:
        session.start(CONNECT_TIMEOUT_S)
        yield Znodes(session, f"/{chroot}" if chroot else "")
    except KazooTimeoutError as error:
        raise ClientError(
            f"ZooKeeper at {connect} cannot be reached in {CONNECT_TIMEOUT_S:.0f} s"
        ) from error
    except NoNodeError as error:
        raise MissingZnodeError from error
    except KazooException as error:
        raise ClientError(
            f"ZooKeeper at {connect} does not respond: {error_text(error)}"
        ) from error
    finally:
        session.stop()
        session.close()


def bootstrap_of(connect: str) -> str:
    """The PLAINTEXT addresses of all registered brokers, in the form of `--bootstrap-server`.

    connect  `host:port,host:port/chroot`
    raises   ClientError when ZooKeeper cannot be reached or has no such address
    """
    try:
        with open_znodes(connect) as znodes:
            brokers = [
                decode_broker(broker_id, 0, znodes.data(f"{BROKERS_PATH}/{broker_id}")[0] or b"")
                for broker_id in sorted(map(int, znodes.children(BROKERS_PATH)))
            ]
    except MissingZnodeError as error:
        hosts, _, chroot = connect.rstrip("/").partition("/")
        path = f"/{chroot}{BROKERS_PATH}" if chroot else BROKERS_PATH
        raise ClientError(f"ZooKeeper at {hosts} has no brokers: {path} is missing") from error
    except (CoordinationError, ValueError) as error:
        raise ClientError(
            f"ZooKeeper at {connect} has no readable broker addresses: {error_text(error)}"
        ) from error
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
