"""A node whose only role is that of a controller (process.roles=controller).

The first controller serves the coordination to the brokers, and no clients.  The others stand by:
they hold their directory, and accept connections only for health checks, since the metadata are on
one node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import strftime
from typing import Final

from odradek.broker.node.coordination import EmbeddedCoordination
from odradek.broker.node.formatted_directories import check_directories, directories_of
from odradek.broker.node.metadata_directory import MetadataDirectory
from odradek.broker.node.platform import Platform
from odradek.broker.node.standby_listener import StandbyListener
from odradek.broker.node.start_error import StartError, StartInterrupted
from odradek.broker.node.tree_listener import TreeListener, bind_tree_listener
from odradek.broker.server.bound_listener import BoundListener
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.quorum_config import QuorumConfig
from odradek.controller.coordination.errors import PROCEDURE_ERRORS, CoordinationError
from odradek.controller.membership.registration import (
    ensure_roots,
    find_cluster_id,
    new_cluster_id,
    store_coordinator,
)
from odradek.runtime.thread_work import ThreadWork
from odradek.runtime.work import SerialQueue

WORK_NAME: Final = "coordination"

logger = logging.getLogger("odradek")


class ControllerNode:
    """A controller on an event loop, run as `Node` is."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """should_stop  called before the start; True ends it"""
        assert settings.quorum is not None, "process.roles is set"
        self._quorum: QuorumConfig = settings.quorum
        self._settings = settings
        self._should_stop = should_stop
        self._stopping = asyncio.Event()
        self._fatal: str | None = None
        self._platform = Platform(loop, on_fatal=self._on_fatal)
        self._listener: TreeListener | None = None
        self._standby: StandbyListener | None = None
        self._directory: MetadataDirectory | None = None
        self._coordination: EmbeddedCoordination | None = None
        self._work = ThreadWork(
            loop,
            self._platform.coordination_executor,
            after=self._platform.purgatory.run_notified,
            on_broken=lambda error: self._platform.on_task_failure(WORK_NAME, error),
        )

    @property
    def listeners(self) -> list[BoundListener]:
        """The listener of the coordination, where this node serves it."""
        return [] if self._listener is None else [self._listener.bound]

    def start(self) -> None:
        """Open the directory and serve the coordination.

        raises  StartError, StartInterrupted and the errors of the parts; call `stop` then
        """
        if self._should_stop():
            raise StartInterrupted
        files, settings = self._platform.files, self._settings
        check_directories(files, settings)
        self._listener = bind_tree_listener(settings, self._platform)
        self._standby = StandbyListener(self._platform.loop, settings)
        self._directory = MetadataDirectory(files, settings.metadata_log_dir)
        if self._listener is None:
            logger.info(
                "this controller stands by: %s has the coordination",
                self._quorum.coordinator.address,
            )
            return
        folder = settings.metadata_log_dir
        self._coordination = EmbeddedCoordination(
            self._platform,
            [folder, *(path for path in directories_of(settings) if path != folder)],
            self._listener,
        )
        self._directory.claim(
            node_id=self._quorum.node_id,
            cluster_id=self._prepare_tree(self._coordination, self._directory.cluster_id),
            date=strftime("%a %b %d %H:%M:%S %Z %Y"),
        )
        self._coordination.serve(
            self._work,
            on_failure=self._on_fatal,
            on_warning=lambda text: logger.warning("%s", text),
        )

    def _prepare_tree(self, coordination: EmbeddedCoordination, stored_id: str | None) -> str:
        """Create the root znodes, as a broker does; returns the cluster id."""
        session = coordination.connect(lambda event: None)
        proposal = stored_id or new_cluster_id(self._platform.rng.uuid())

        async def run() -> str:
            await ensure_roots(session)
            await store_coordinator(session, self._quorum.node_id)
            return await find_cluster_id(session, proposal)

        try:
            return SerialQueue(*PROCEDURE_ERRORS).submit(run).result()
        finally:
            session.close()

    def _on_fatal(self, reason: str) -> None:
        if self._fatal is None:
            self._fatal = reason
            logger.critical("stopping: %s", reason)
            self._stopping.set()

    def request_stop(self) -> None:
        """Begin to stop, from a signal."""
        self._stopping.set()

    async def run_until_stopped(self) -> None:
        """Serve until a signal or a fatal failure, then stop.

        raises  StartError when the coordination could not go on
        """
        await self._stopping.wait()
        logger.info("shutting down")
        await self.stop()
        if self._fatal is not None:
            raise StartError(self._fatal)

    async def stop(self) -> None:
        """Store the tree and release the directory; also after a start that has failed."""
        if self._listener is not None:
            self._listener.close()
        if self._standby is not None:
            self._standby.close()
        self._platform.wheel.close()
        while self._work.is_running:
            await self._work.finish()
        await self._platform.supervisor.close()
        if self._coordination is not None:
            try:
                self._coordination.close()
            except (CoordinationError, OSError) as error:
                logger.warning("the end of coordination is not stored: %s", error)
        if self._directory is not None:
            self._directory.close()
        self._platform.close()
