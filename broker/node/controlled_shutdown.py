"""Has the controller move the leaderships of a broker that stops, while it still serves them.

Source: Kafka's KafkaServer.controlledShutdown.  Differs: a broker without others does not ask
itself; and the broker serves on for a moment after its leaderships were moved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from odradek.broker.node.parts import NodeParts
from odradek.broker.services import Services
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.errors import BrokerError
from odradek.runtime.logging import error_text
from odradek.runtime.pending import Pending

CHECK_S: Final = 0.01
MOVED_CHECKS_MAX: Final = 100
CLIENTS_ASK_S: Final = 0.25
"""Within this time clients repeat a request that was refused: their back-offs are 100 ms."""

COORDINATOR_CHECK_S: Final = 0.1
COORDINATOR_AWAY_S: Final = 3
"""How long the node that coordinates may be away; starting it again takes about a second."""

logger = logging.getLogger("odradek")


async def until_done(pending: Pending[Any]) -> None:
    """Wait for a result, whatever it is."""
    done = asyncio.Event()
    pending.on_done(lambda _: done.set())
    await done.wait()


class ControlledShutdown:
    """That of one broker.

    has_failed  whether the broker cannot go on: then it waits for nothing
    """

    def __init__(
        self,
        broker_id: int,
        settings: BrokerSettings,
        services: Services,
        parts: NodeParts,
        has_failed: Callable[[], bool],
    ) -> None:
        self._broker_id = broker_id
        self._settings = settings
        self._services = services
        self._parts = parts
        self._has_failed = has_failed

    async def run(self) -> None:
        """Ask until no leadership is left, as often as controlled.shutdown.max.retries says."""
        settings = self._settings
        attempts = settings.controlled_shutdown_max_retries
        led = self._has_movable_leader()
        self._parts.replica_fetchers.add_no_more()
        for attempt in range(attempts):
            if self._has_failed() or len(self._services.controller.image.brokers) < 2:
                return
            if await self._is_moved():
                if led:
                    await self._tell_clients()
                return
            if attempt < attempts - 1:
                await asyncio.sleep(settings.controlled_shutdown_retry_backoff_ms / 1000)
        if attempts:
            logger.warning("stopping without a controlled shutdown, after %d attempts", attempts)

    async def until_coordinator_is_away(self) -> None:
        """Wait until the node that coordinates has not been connected for COORDINATOR_AWAY_S.

        Nothing can be moved without it.  When all nodes of a quorum are stopped at once, the others
        would ask for minutes, and would be killed meanwhile.
        """
        away_s = 0.0
        while away_s < COORDINATOR_AWAY_S:
            await asyncio.sleep(COORDINATOR_CHECK_S)
            is_away = self._services.controller.is_suspended
            away_s = away_s + COORDINATOR_CHECK_S if is_away else 0

    async def _is_moved(self) -> bool:
        asked = self._parts.controller_channel.shut_down()
        await until_done(asked)
        try:
            remaining = asked.result()
        except (BrokerError, CoordinationError) as error:
            logger.warning("the controlled shutdown failed: %s", error_text(error))
            return False
        if remaining:
            logger.warning("%d partitions have no other leader yet", len(remaining))
        return not remaining

    def _has_movable_leader(self) -> bool:
        return self._services.topics.has_movable_leader(self._broker_id)

    async def _tell_clients(self) -> None:
        """Serve on until clients can have heard from here who leads now.

        Kafka closes at once: a client that has just been refused here then asks a broker that is
        gone, and waits.
        """
        for _ in range(MOVED_CHECKS_MAX):
            if not self._has_movable_leader():
                break
            await asyncio.sleep(CHECK_S)
        await asyncio.sleep(CLIENTS_ASK_S)
