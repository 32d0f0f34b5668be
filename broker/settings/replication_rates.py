"""The bounds of replication in bytes per second, which are dynamic settings only.

Source: Kafka's DynamicConfig.Broker, BrokerConfigHandler.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.types import LONG_MAX

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
ALTER_LOG_DIRS: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


def rate_of(settings: BrokerSettings, name: str) -> int:
    """The rate in force, the largest number without one."""
    for level in (settings.dynamic.broker, settings.dynamic.default):
        if name in level:
            with suppress(ValueError):
                return int(level[name])
    return LONG_MAX
