"""Where a node's coordination session is: in files of its own, or with a ZooKeeper ensemble."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from odradek.broker.node.disk_reserve import DiskReserve
from odradek.broker.node.platform import Platform
from odradek.broker.node.start_error import StartError
from odradek.broker.node.tls import zookeeper_context
from odradek.broker.node.tree_listener import TreeListener
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.checks import ZOOKEEPER_DIGEST
from odradek.controller.coordination.commits import RunInThread
from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.session import CoordinationSession, EventCallback
from odradek.controller.coordination.state_files import find_files
from odradek.runtime.files import FileSystem

if TYPE_CHECKING:
    from odradek.controller.coordination.zookeeper_connection import ZooKeeperOptions

RESERVE_CHECK_MS: Final = 60_000

logger = logging.getLogger("odradek")


class Coordination(Protocol):
    """The coordination service as a node uses it."""

    is_embedded: bool

    def connect(self, on_event: EventCallback) -> CoordinationSession:
        """Begin a session."""

    def serve(
        self,
        run_in_thread: RunInThread,
        *,
        on_failure: Callable[[str], None],
        on_warning: Callable[[str], None],
    ) -> None:
        """The node has started: from now on its loop must not wait."""

    def close(self) -> None:
        """The session has ended."""


class EmbeddedCoordination:
    """A tree in the first log directory, or in metadata.log.dir, with a reserve of space for it.

    raises  StartError
    """

    is_embedded = True

    def __init__(
        self, platform: Platform, directories: Sequence[str], listener: TreeListener | None
    ) -> None:
        """
        directories  those of the node, that of the tree first
        listener     serves the tree to other processes
        """
        check_first_directory(platform.files, directories)
        self._folder = directories[0]
        self._wheel = platform.wheel
        self._listener = listener
        self._reserve = DiskReserve(platform.files, self._folder)
        try:
            self._tree = EmbeddedTree(
                platform.files,
                self._folder,
                platform.clock,
                free_space=self._release_reserve,
                serves_clients=listener is not None,
            )
        except OSError as error:
            raise StartError(
                f"{self._folder}, with the coordination files, cannot be used: {error}"
            ) from error
        for warning in self._tree.warnings:
            logger.warning("%s", warning)

    def connect(self, on_event: EventCallback) -> CoordinationSession:
        """A session, whose calls are done at once until `serve`."""
        return self._tree.connect(on_event)

    def serve(
        self,
        run_in_thread: RunInThread,
        *,
        on_failure: Callable[[str], None],
        on_warning: Callable[[str], None],
    ) -> None:
        """From now on syncs happen in threads."""
        self._tree.serve(run_in_thread, on_failure=on_failure, on_warning=on_warning)
        if self._listener is not None:
            self._listener.serve(self._tree, folder=self._folder, on_problem=on_warning)
        self._reserve.restore()
        self._wheel.every(RESERVE_CHECK_MS, self._reserve.restore)

    def close(self) -> None:
        """End all sessions and store the tree."""
        self._tree.close()

    def _release_reserve(self) -> bool:
        if not self._reserve.release_step():
            return False
        logger.warning("%s is full: coordination uses its reserve", self._reserve.folder)
        return True


class ZooKeeperCoordination:
    """Sessions with the ensemble of zookeeper.connect."""

    is_embedded = False

    def __init__(self, platform: Platform, options: ZooKeeperOptions) -> None:
        self._platform = platform
        self._options = options
        # It reports each attempt to connect; the session reports when a connection is lost.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)

    def connect(self, on_event: EventCallback) -> CoordinationSession:
        """A session, whose calls wait for the connection."""
        from odradek.controller.coordination.zookeeper import ZooKeeperSession

        return ZooKeeperSession(
            self._options,
            on_event,
            call_on_loop=self._call_on_loop,
            add_timer=self._platform.peer_wheel.after,
        )

    def serve(
        self,
        run_in_thread: RunInThread,
        *,
        on_failure: Callable[[str], None],
        on_warning: Callable[[str], None],
    ) -> None:
        """Nothing: the loop has never waited."""

    def close(self) -> None:
        """Nothing: the ensemble goes on."""

    def _call_on_loop(self, work: Callable[[], None]) -> None:
        def run() -> None:
            work()
            self._platform.purgatory.run_notified()

        # The loop is closed when the process ends.
        with contextlib.suppress(RuntimeError):
            self._platform.loop.call_soon_threadsafe(run)


def zookeeper_options(settings: BrokerSettings) -> ZooKeeperOptions:
    """How zookeeper.* say that the ensemble is reached.

    raises  StartError for stores that cannot be used
    """
    # Imported here: an embedded node needs none of it.
    from odradek.controller.coordination.zookeeper import parse_connect
    from odradek.controller.coordination.zookeeper_connection import ZooKeeperOptions

    assert settings.zookeeper_connect is not None, "it selects this coordination"
    hosts, chroot = parse_connect(settings.zookeeper_connect)
    tls = zookeeper_context(settings) if settings.raw["zookeeper.ssl.client.enable"] else None
    return ZooKeeperOptions(
        hosts=hosts,
        chroot=chroot,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
        in_flight_max=settings.zookeeper_max_in_flight_requests,
        tls=tls,
        digest=settings.written.get(ZOOKEEPER_DIGEST),
        sets_acls=settings.zookeeper_set_acl,
    )


def check_first_directory(files: FileSystem, directories: Sequence[str]) -> None:
    """Refuse a start when a later directory has the coordination files, but not the first one.

    The broker would start without any topic.
    raises  StartError
    """
    first = directories[0]
    folders = []
    for folder in directories:
        with contextlib.suppress(OSError):
            if any(find_files(files, folder)):
                folders.append(folder)
    if folders and first not in folders:
        raise StartError(
            f"the coordination files are in {folders[0]}, not in the first of log.dirs (or "
            f"metadata.log.dir), {first}: put it first"
        )
