"""Writes `/feature`: the active controller finalizes levels of features.

Source: Kafka's KafkaController.enableFeatureVersioning, processFeatureUpdates.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.controller.coordination.errors import NodeExists, NoNode
from odradek.controller.coordination.session import SetData
from odradek.controller.image.image import BrokerImage
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import Warn
from odradek.controller.znodes.fenced_writes import FencedWrites
from odradek.controller.znodes.finalized_features import SUPPORTED
from odradek.protocol.errors import BrokerError

if TYPE_CHECKING:
    from odradek.controller.decide.features import FeatureUpdate, Supported

logger = logging.getLogger("odradek.controller")

FeatureResults = dict[str, BrokerError | None]


class FeatureUpdates:
    """The finalized features, as their writer sees them."""

    def __init__(self, fence: FencedWrites, warn: Warn) -> None:
        self._fence = fence
        self._warn = warn

    async def set_up(self) -> None:
        """Write /feature: the feature system is enabled; what is finalized stays so (KIP-584)."""
        session = self._fence.session
        feature_data = zk_data.encode_feature({}, zk_data.FEATURES_ENABLED)
        try:
            data, stat = await session.get(zk_data.FEATURE)
        except NoNode:
            try:
                await session.create(zk_data.FEATURE, feature_data)
            except NodeExists:
                await self.set_up()
            return
        try:
            features, status = zk_data.decode_feature(data)
        except zk_data.BadZnode as error:
            self._warn(f"{zk_data.FEATURE}: {error}")
            return
        if status != zk_data.FEATURES_ENABLED:
            kept = zk_data.encode_feature(features, zk_data.FEATURES_ENABLED)
            await self._fence.write(SetData(zk_data.FEATURE, kept, stat.version))

    async def update(
        self,
        updates: Sequence[FeatureUpdate],
        brokers: Sequence[BrokerImage],
        *,
        validate_only: bool,
        requested_by: str,
    ) -> tuple[int, FeatureResults]:
        """Finalize what all registered brokers support.

        returns  the epoch of the features, and the result of each update
        raises   ControllerMoved and other CoordinationErrors; BadZnode
        """
        # The handler has imported it, to name the updates; no start needs it.
        from odradek.controller.decide.features import decide_features

        data, stat = await self._fence.session.get(zk_data.FEATURE)
        current, status = zk_data.decode_feature(data)
        target, results = decide_features(
            current,
            updates,
            own=_supported(SUPPORTED),
            brokers={broker.broker_id: _supported(broker.features) for broker in brokers},
        )
        if validate_only or target == current:
            return stat.version, results
        logger.info("features are finalized: %s, by %s", target or "none", requested_by)
        written = zk_data.encode_feature(target, status)
        await self._fence.write(SetData(zk_data.FEATURE, written, stat.version))
        return stat.version + 1, results


def _supported(features: Sequence[tuple[str, int, int]]) -> Supported:
    return {name: (lowest, highest) for name, lowest, highest in features}
