"""The features that the cluster has finalized: their levels, in `/feature` (KIP-584).

Every broker reads the znode at its start, before it registers, and watches it.  The epoch of the
features is the version of the znode.  A level is finalized by the active controller when every
broker that is registered supports it; a broker that does not support what is finalized does not
start.  A broker of Apache Kafka 3.9 supports no feature in ZooKeeper mode: it ends when there is
one.

Source: Kafka's FinalizedFeatureChangeListener, ZkMetadataCache, BrokerFeatures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from odradek.controller.coordination.errors import CoordinationError, NoNode
from odradek.controller.coordination.session import CoordinationSession
from odradek.controller.znodes import zk_data

TRANSACTION_VERSION: Final = "transaction.version"

SUPPORTED: Final = ((TRANSACTION_VERSION, 1, 2),)
"""(name, lowest, highest) level.  Level 0 is a feature that is not finalized; brokers of Apache
Kafka before 3.9 refuse to read a registration that names it."""

logger = logging.getLogger("odradek.controller")


class IncompatibleFeatures(CoordinationError):
    """The cluster has finalized a level that this broker does not support."""


class FinalizedFeatures:
    """The levels by name, and their epoch; -1 before the znode was read."""

    def __init__(
        self, session: CoordinationSession, on_change: Callable[[FinalizedFeatures], None]
    ) -> None:
        """on_change  called with this object each time that the znode was read"""
        self.levels: Mapping[str, int] = {}
        self.epoch = -1
        self._on_change = on_change
        self._session = session

    def level(self, name: str) -> int:
        """0 when the feature is not finalized."""
        return self.levels.get(name, 0)

    async def load(self, *, is_start: bool = False) -> None:
        """Read the znode and watch it.

        is_start  levels that this broker does not support are refused; later they are logged
        raises    IncompatibleFeatures
        """
        # An absent node is watched too.
        await self._session.exists(zk_data.FEATURE, watch=True)
        try:
            data, stat = await self._session.get(zk_data.FEATURE, watch=True)
            levels, status = zk_data.decode_feature(data)
        except NoNode:
            self.levels, self.epoch = {}, 0
            return
        except zk_data.BadZnode as error:
            logger.error("%s: %s", zk_data.FEATURE, error)
            return
        if status != zk_data.FEATURES_ENABLED:
            levels = {}
        unsupported = incompatible(levels, SUPPORTED)
        if unsupported:
            line = f"the cluster has finalized features that are not supported: {unsupported}"
            if is_start:
                raise IncompatibleFeatures(line)
            logger.error(line)
        if levels != self.levels:
            logger.info("finalized features: %s, epoch %d", levels or "none", stat.version)
        self.levels, self.epoch = levels, stat.version
        self._on_change(self)


def incompatible(
    levels: Mapping[str, int], supported: tuple[tuple[str, int, int], ...]
) -> dict[str, int]:
    """The finalized levels that a broker does not support."""
    ranges = {name: (lowest, highest) for name, lowest, highest in supported}
    return {
        name: level
        for name, level in levels.items()
        if name not in ranges or not ranges[name][0] <= level <= ranges[name][1]
    }
